// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(decompose,cuesta-to-linalg,form-kernels)' %s | filecheck %s

// The new value is written where the old one lies, by a kernel that takes both as one argument.
// CHECK: func.func @graph(%[[X:.*]]: memref<8xf32> {{.*}}, %[[M:.*]]: memref<8xf32> {
// CHECK-NOT: "host.alloc"
// CHECK: "host.launch"(%[[X]], %[[M]]) {{.*}}ops = ["mul", "add"], outputs = 1
// CHECK-NEXT: return
func.func @graph(%x: tensor<8xf32> {cuesta.strides = [1]}, %m: tensor<8xf32> {cuesta.strides = [1]}) -> (tensor<8xf32> {cuesta.strides = [1]}) attributes {cuesta.mutates = [1]} {
  %0 = "cuesta.mul"(%m, %m) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("mul"("m.py":1:1))
  %1 = "cuesta.add"(%0, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("add"("m.py":1:1))
  return %1 : tensor<8xf32>
}

// CHECK: // -----
// -----

// Something else comes of the old value in the same kernel, where a tile reads it before it writes the new one.
// CHECK: func.func @graph(%[[M:.*]]: memref<2048xf32> {
// CHECK: %[[EXP:.*]] = "host.alloc"()
// CHECK-NEXT: "host.launch"(%[[EXP]], %[[M]]) {{.*}}outputs = 2
// CHECK-NEXT: return
func.func @graph(%m: tensor<2048xf32> {cuesta.strides = [1]}) -> (tensor<2048xf32> {cuesta.strides = [1]}, tensor<2048xf32> {cuesta.strides = [1]}) attributes {cuesta.mutates = [0]} {
  %0 = "cuesta.exp"(%m) : (tensor<2048xf32>) -> tensor<2048xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.sin"(%m) : (tensor<2048xf32>) -> tensor<2048xf32> loc("sin"("m.py":1:1))
  return %0, %1 : tensor<2048xf32>, tensor<2048xf32>
}

// CHECK: // -----
// -----

// The old value is read again beside the new one, which is copied.
// CHECK: func.func @graph
// CHECK: "host.launch"{{.*}}outputs = 2
// CHECK: "host.launch"{{.*}}ops = ["copy"]
func.func @graph(%m: tensor<2048xf32> {cuesta.strides = [1]}) -> (tensor<2048xf32> {cuesta.strides = [1]}, tensor<2048xf32> {cuesta.strides = [1]}) attributes {cuesta.mutates = [0]} {
  %0 = "cuesta.exp"(%m) : (tensor<2048xf32>) -> tensor<2048xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.mul"(%0, %m) : (tensor<2048xf32>, tensor<2048xf32>) -> tensor<2048xf32> loc("mul"("m.py":1:1))
  return %1, %0 : tensor<2048xf32>, tensor<2048xf32>
}

// CHECK: // -----
// -----

// Another kernel or call reads the old value, or it is returned.
// CHECK: func.func @graph
// CHECK: "host.launch"{{.*}}ops = ["copy"]
func.func @graph(%m: tensor<8xf32> {cuesta.strides = [1]}) -> (tensor<8xf32> {cuesta.strides = [1]}, tensor<8xf32> {cuesta.strides = [1]}) attributes {cuesta.mutates = [0]} {
  %0 = "cuesta.exp"(%m) : (tensor<8xf32>) -> tensor<8xf32> loc("exp"("m.py":1:1))
  %1:2 = "aten.call"(%m) {args = "[\22%0\22]", overload = "aten.sort.default", reason = "", result_strides = [[1], [1]]} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xi64>)
  return %1#0, %0 : tensor<8xf32>, tensor<8xf32>
}

// CHECK: // -----
// -----

// Two arguments that change places: each is read by the other's kernel.
// CHECK: func.func @graph
// CHECK: "host.launch"{{.*}}ops = ["copy"]
// CHECK: "host.launch"{{.*}}ops = ["copy"]
func.func @graph(%a: tensor<8xf32> {cuesta.strides = [1]}, %b: tensor<8xf32> {cuesta.strides = [1]}) -> (tensor<8xf32> {cuesta.strides = [1]}, tensor<8xf32> {cuesta.strides = [1]}) attributes {cuesta.mutates = [0, 1]} {
  %0 = "cuesta.exp"(%b) : (tensor<8xf32>) -> tensor<8xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.sin"(%a) : (tensor<8xf32>) -> tensor<8xf32> loc("sin"("m.py":1:1))
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// CHECK: // -----
// -----

// Nothing reads the old value: it is overwritten.
// CHECK: func.func @graph(%[[X:.*]]: memref<8xf32> {{.*}}, %[[M:.*]]: memref<8xf32> {
// CHECK-NEXT: "host.launch"(%[[X]], %[[M]]) {{.*}}ops = ["exp"]
// CHECK-NEXT: return
func.func @graph(%x: tensor<8xf32> {cuesta.strides = [1]}, %m: tensor<8xf32> {cuesta.strides = [1]}) -> (tensor<8xf32> {cuesta.strides = [1]}) attributes {cuesta.mutates = [1]} {
  %0 = "cuesta.exp"(%x) : (tensor<8xf32>) -> tensor<8xf32> loc("exp"("m.py":1:1))
  return %0 : tensor<8xf32>
}
