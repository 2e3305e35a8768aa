// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels)' %s | filecheck %s
// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck --check-prefix=GPU %s

// A result lies in a donated argument that its kernel is the last to read; a GPU's does not.
// CHECK: func.func @graph(%[[SAVED:[^:]*]]: {{[^%]*}}%[[G:[^:]*]]:
// CHECK-NOT: "host.alloc"
// CHECK: %[[S:.*]] = "host.view"(%[[SAVED]]) {offset = 0 : i64} : (memref<128x128xf32>) -> memref<16384xf32>
// CHECK-NEXT: "host.launch"(%[[G]], %[[S]]) {{.*}}outputs = 1 : i64
// CHECK-NEXT: return %[[SAVED]]
// GPU: func.func @graph
// GPU: "host.alloc"
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.donated}, %g: tensor<f32> {cuesta.strides = []})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.mul"(%saved, %g) : (tensor<128x128xf32>, tensor<f32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// CHECK: // -----
// -----

// In the argument's own order of dims.
// CHECK: func.func @graph(%[[SAVED:[^:]*]]:
// CHECK-NOT: "host.alloc"
// CHECK: return %[[SAVED]]
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [1, 128], cuesta.donated})
    -> (tensor<128x128xf32> {cuesta.strides = [1, 128], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.exp"(%saved) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// CHECK: // -----
// -----

// Rather there than in an intermediate that dies in the kernel as well.
// CHECK: func.func @graph(%[[SAVED:[^:]*]]:
// CHECK: "host.alloc"
// CHECK: "host.aten"
// CHECK-NOT: "host.alloc"
// CHECK: return %[[SAVED]]
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.donated}, %g: tensor<128x128xf32> {cuesta.strides = [128, 1]})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %m = "aten.call"(%g, %g) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "library", dtypes = ["f32", "f32", "f32"], result_strides = [[128, 1]]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %0 = "cuesta.mul"(%m, %saved) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// CHECK: // -----
// -----

// Of two results that are equal, each is a tensor of its own.
// CHECK: func.func @graph(%[[SAVED:[^:]*]]:
// CHECK: %[[OTHER:.*]] = "host.alloc"
// CHECK: return %[[SAVED]], %{{.*}}
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.donated})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 8 : i64}, tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.exp"(%saved) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0, %0 : tensor<128x128xf32>, tensor<128x128xf32>
}

// CHECK: // -----
// -----

// Not where the argument is somebody else's,
// CHECK: func.func @graph
// CHECK: "host.alloc"
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [128, 1]})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.exp"(%saved) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// CHECK: // -----
// -----

// or is returned itself,
// CHECK: func.func @graph(%[[SAVED:[^:]*]]:
// CHECK: %[[OWN:.*]] = "host.alloc"
// CHECK: return %[[SAVED]], %{{.*}}
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.donated})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 0 : i64}, tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.exp"(%saved) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %saved, %0 : tensor<128x128xf32>, tensor<128x128xf32>
}

// CHECK: // -----
// -----

// or is read later,
// CHECK: func.func @graph
// CHECK: %[[OWN:.*]] = "host.alloc"
// CHECK: "host.launch"(%{{.*}}, %[[OWN]])
// CHECK: "host.aten"
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.donated})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 8 : i64}, tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.exp"(%saved) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %m = "aten.call"(%0, %saved) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "library", dtypes = ["f32", "f32", "f32"], result_strides = [[128, 1]]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0, %m : tensor<128x128xf32>, tensor<128x128xf32>
}

// CHECK: // -----
// -----

// or is read elsewhere than where the result is written,
// CHECK: func.func @graph
// CHECK: "host.alloc"
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.donated})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.permute"(%saved) {dims = [1, 0]} : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %1 = "cuesta.add"(%saved, %0) : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %1 : tensor<128x128xf32>
}

// CHECK: // -----
// -----

// or has other elements,
// CHECK: func.func @graph
// CHECK: "host.alloc"
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.donated})
    -> (tensor<128x128xi32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.convert"(%saved) : (tensor<128x128xf32>) -> tensor<128x128xi32>
  return %0 : tensor<128x128xi32>
}

// CHECK: // -----
// -----

// or more of them than the result,
// CHECK: func.func @graph
// CHECK: "host.alloc"
func.func @graph(%saved: tensor<129x128xf32> {cuesta.strides = [128, 1], cuesta.donated})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.slice"(%saved) {starts = [0, 0], steps = [1, 1]} : (tensor<129x128xf32>) -> tensor<128x128xf32>
  %1 = "cuesta.exp"(%0) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %1 : tensor<128x128xf32>
}

// CHECK: // -----
// -----

// or one for several places of the result,
// CHECK: func.func @graph
// CHECK: "host.alloc"
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [0, 1], cuesta.donated})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.exp"(%saved) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// CHECK: // -----
// -----

// or is small, or what lies in it would not be returned.
// CHECK: func.func @graph
// CHECK: "host.alloc"
func.func @graph(%saved: tensor<8xf32> {cuesta.strides = [1], cuesta.donated})
    -> (tensor<8xf32> {cuesta.strides = [1], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.exp"(%saved) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK: // -----
// -----

// CHECK: func.func @graph
// CHECK: %[[OWN:.*]] = "host.alloc"() {{.*}} : () -> memref<16384xf32>
// CHECK: "host.launch"(%{{.*}}, %[[OWN]])
// CHECK: "host.aten"
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.donated})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.exp"(%saved) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %m = "aten.call"(%0, %0) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "library", dtypes = ["f32", "f32", "f32"], result_strides = [[128, 1]]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %m : tensor<128x128xf32>
}
