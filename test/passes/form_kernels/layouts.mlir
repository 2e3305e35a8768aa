// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(decompose,cuesta-to-linalg,form-kernels)' %s | filecheck %s

// A result is written with the strides that torch expects: no copy after it.
// CHECK: func.func @graph(%[[X:.*]]: memref<8x16xf32>
// CHECK: %[[B:.*]] = "host.alloc"()
// CHECK: "host.launch"(%[[X]], %{{.*}}) {{.*}}ops = ["exp"]
// CHECK-NOT: "host.launch"
// CHECK: return %{{.*}} : memref<8x16xf32, strided<[1, 8]>>
func.func @graph(%x: tensor<8x16xf32> {cuesta.strides = [16, 1]}) -> (tensor<8x16xf32> {cuesta.strides = [1, 8]}) {
  %0 = "cuesta.exp"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("exp"("m.py":1:1))
  return %0 : tensor<8x16xf32>
}

// CHECK: // -----
// -----

// An argument in another memory order is walked in that order, and contiguous dims are one loop.
// CHECK: module @kernels
// CHECK-NEXT: func.func @exp(%{{.*}}: tensor<128xf32>, %{{.*}}: tensor<128xf32>
// CHECK-SAME: cuesta.sizes = [128]
func.func @graph(%x: tensor<8x16xf32> {cuesta.strides = [1, 8]}) -> (tensor<8x16xf32> {cuesta.strides = [1, 8]}) {
  %0 = "cuesta.exp"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("exp"("m.py":1:1))
  return %0 : tensor<8x16xf32>
}

// CHECK: // -----
// -----

// A call gets its operand with the strides that it was traced with, written so by the kernel before it.
// CHECK: func.func @graph
// CHECK-COUNT-1: "host.launch"
// CHECK-NOT: "host.launch"
// CHECK: "host.aten"(%{{.*}}){{.*}} : (memref<8x16xf32, strided<[1, 8]>>) ->
func.func @graph(%x: tensor<8x16xf32> {cuesta.strides = [16, 1]}) -> (tensor<8x16xf32> {cuesta.strides = [16, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = "aten.call"(%0) {
    overload = "aten.roll.default", args = "[\"%0\", [1]]", reason = "-",
    operand_strides = [[1, 8]], result_strides = [[16, 1]]
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// CHECK: // -----
// -----

// A call that asks for even rows gets those that it was traced with, though the graph stretches what it reads.
// CHECK: func.func @graph(%[[X:.*]]: memref<1x3x5x20xf32
// CHECK: %[[P:.*]] = "host.view"(%[[B:.*]]) {offset = 0 : i64} : (memref<468xf32>) -> memref<3x5x20xf32, strided<[160, 32, 1]>>
// CHECK: "host.launch"(%{{.*}}, %[[P]])
// CHECK: %[[W:.*]] = "host.view"(%[[B]]) {{.*}} -> memref<2x3x5x20xf32, strided<[0, 160, 32, 1]>>
// CHECK: "host.aten"(%[[W]])
func.func @graph(%x: tensor<1x3x5x20xf32> {cuesta.strides = [300, 1, 60, 3]}) -> (tensor<2x3x5x20xf32> {cuesta.strides = [300, 100, 20, 1]}) {
  %0 = "cuesta.expand"(%x) : (tensor<1x3x5x20xf32>) -> tensor<2x3x5x20xf32>
  %1 = "aten.call"(%0) {
    overload = "aten.sin.default", args = "[\"%0\"]", reason = "-",
    operand_strides = [[0, 160, 32, 1]], result_strides = [[300, 100, 20, 1]], rows_aligned
  } : (tensor<2x3x5x20xf32>) -> tensor<2x3x5x20xf32>
  return %1 : tensor<2x3x5x20xf32>
}

// CHECK: // -----
// -----

// Rows that are as even as those are taken as they are.
// CHECK: func.func @graph(%[[X:.*]]: memref<3x5x16xf32
// CHECK-NOT: "host.launch"
// CHECK: "host.aten"(%[[X]])
func.func @graph(%x: tensor<3x5x16xf32> {cuesta.strides = [80, 16, 1]}) -> (tensor<3x5x16xf32> {cuesta.strides = [80, 16, 1]}) {
  %0 = "aten.call"(%x) {
    overload = "aten.sin.default", args = "[\"%0\"]", reason = "-",
    operand_strides = [[160, 32, 1]], result_strides = [[80, 16, 1]], rows_aligned
  } : (tensor<3x5x16xf32>) -> tensor<3x5x16xf32>
  return %0 : tensor<3x5x16xf32>
}

// CHECK: // -----
// -----

// A view of an argument is a layout: slices and permutes are offsets and strides, in bytes and elements.
// CHECK: func.func @graph(%[[X:.*]]: memref<8x16xf32>
// CHECK: %[[V:.*]] = "host.view"(%[[X]]) {offset = 12 : i64} : (memref<8x16xf32>) -> memref<8x4xf32, strided<[16, 2]>>
// CHECK-NEXT: return %[[V]]
func.func @graph(%x: tensor<8x16xf32> {cuesta.strides = [16, 1]}) -> (tensor<8x4xf32> {cuesta.strides = [16, 2]}) {
  %0 = "cuesta.slice"(%x) {starts = [0, 3], steps = [1, 2]} : (tensor<8x16xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// CHECK: // -----
// -----

// Windows that overlap are strides too.
// CHECK: func.func @graph(%[[X:.*]]: memref<8x16xf32>
// CHECK: %[[V:.*]] = "host.view"(%[[X]]) {offset = 0 : i64} : (memref<8x16xf32>) -> memref<8x5x4xf32, strided<[16, 3, 1]>>
// CHECK: "host.launch"(%[[V]], {{.*}}ops = ["exp"]
func.func @graph(%x: tensor<8x16xf32> {cuesta.strides = [16, 1]}) -> (tensor<8x5x4xf32> {cuesta.strides = [20, 4, 1]}) {
  %0 = "cuesta.unfold"(%x) {dim = 1, step = 3} : (tensor<8x16xf32>) -> tensor<8x5x4xf32>
  %1 = "cuesta.exp"(%0) : (tensor<8x5x4xf32>) -> tensor<8x5x4xf32> loc("exp"("m.py":1:1))
  return %1 : tensor<8x5x4xf32>
}

// CHECK: // -----
// -----

// A reshape that no strides express copies.
// CHECK: func.func @graph
// CHECK-COUNT-1: "host.launch"{{.*}}ops = ["copy"]
// CHECK-NOT: "host.launch"
// CHECK: return
func.func @graph(%x: tensor<8x16xf32> {cuesta.strides = [1, 8]}) -> (tensor<128xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.reshape"(%x) : (tensor<8x16xf32>) -> tensor<128xf32>
  return %0 : tensor<128xf32>
}

// CHECK: // -----
// -----

// The graph's writes to its arguments come last; what it returns of the old value is copied before.
// CHECK: func.func @graph(%[[X:.*]]: memref<8xf32>
// CHECK: "host.launch"(%[[X]], %[[OLD:.*]]) {{.*}}ops = ["copy"]
// CHECK: "host.launch"{{.*}}(memref<8xf32>, memref<8xf32>) -> ()
// CHECK: return
func.func @graph(%x: tensor<8xf32> {cuesta.strides = [1]}) -> (tensor<8xf32> {cuesta.strides = [1]}, tensor<8xf32> {cuesta.strides = [1]})
    attributes {cuesta.mutates = [0]} {
  %0 = "cuesta.exp"(%x) : (tensor<8xf32>) -> tensor<8xf32> loc("exp"("m.py":1:1))
  return %x, %0 : tensor<8xf32>, tensor<8xf32>
}

// CHECK: // -----
// -----

// What an argument held before it is written is a result of its own, with the strides that torch expects.
// CHECK: func.func @graph(%[[X:.*]]: memref<4x3xf32, strided<[1, 4]>>
// CHECK: ops = ["copy"]
// CHECK: return %{{.*}} : memref<4x3xf32, strided<[1, 4]>>
func.func @graph(%x: tensor<4x3xf32> {cuesta.strides = [1, 4]})
    -> (tensor<4x3xf32> {cuesta.strides = [1, 4]}, tensor<4x3xf32> {cuesta.strides = [1, 4]})
    attributes {cuesta.mutates = [0]} {
  %0 = "cuesta.exp"(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32> loc("exp"("m.py":1:1))
  return %x, %0 : tensor<4x3xf32>, tensor<4x3xf32>
}

// CHECK: // -----
// -----

// A result that repeats is computed with the strides of what it repeats, behind a view ...
// CHECK: func.func @graph
// CHECK: "host.launch"{{.*}}ops = ["exp"]
// CHECK-NOT: "host.launch"
// CHECK: return %{{.*}} : memref<2x4x3xf32, strided<[0, 3, 1]>>
func.func @graph(%x: tensor<4x3xf32> {cuesta.strides = [1, 4]}) -> (tensor<2x4x3xf32> {cuesta.strides = [0, 3, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.expand"(%0) : (tensor<4x3xf32>) -> tensor<2x4x3xf32>
  return %1 : tensor<2x4x3xf32>
}

// CHECK: // -----
// -----

// ... or, once, copied: here another result has it in another order.
// CHECK: func.func @graph
// CHECK: "host.launch"{{.*}}ops = ["exp"]
// CHECK: "host.launch"{{.*}}ops = ["copy"]
// CHECK: return %{{.*}}, %{{.*}} : memref<4x3xf32, strided<[1, 4]>>, memref<2x4x3xf32, strided<[0, 3, 1]>>
func.func @graph(%x: tensor<4x3xf32> {cuesta.strides = [1, 4]})
    -> (tensor<4x3xf32> {cuesta.strides = [1, 4]}, tensor<2x4x3xf32> {cuesta.strides = [0, 3, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.expand"(%0) : (tensor<4x3xf32>) -> tensor<2x4x3xf32>
  return %0, %1 : tensor<4x3xf32>, tensor<2x4x3xf32>
}

// CHECK: // -----
// -----

// Heads that are put side by side are written so: the reshape is a view.
// CHECK: func.func @graph
// CHECK: "host.launch"{{.*}}ops = ["exp"]
// CHECK-NOT: "host.launch"
// CHECK: return %{{.*}} : memref<4x15xf32>
func.func @graph(%x: tensor<3x4x5xf32> {cuesta.strides = [20, 5, 1]}) -> (tensor<4x15xf32> {cuesta.strides = [15, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<3x4x5xf32>) -> tensor<3x4x5xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.permute"(%0) {dims = [1, 0, 2]} : (tensor<3x4x5xf32>) -> tensor<4x3x5xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<4x3x5xf32>) -> tensor<4x15xf32>
  return %2 : tensor<4x15xf32>
}

// CHECK: // -----
// -----

// A call that takes the heads in another order comes before a reshape that would do without a copy. The dim of size 1 has
// the stride that the call was traced with: by all strides, ATen decides whether images are channels-last.
// CHECK: func.func @graph
// CHECK: "host.launch"{{.*}}ops = ["exp"]
// CHECK-NOT: "host.launch"
// CHECK: "host.aten"(%{{.*}}){{.*}} : (memref<1x3x4x5xf32, strided<[60, 5, 15, 1]>>) ->
func.func @graph(%x: tensor<3x4x5xf32> {cuesta.strides = [20, 5, 1]}) -> (tensor<1x3x4x5xf32> {cuesta.strides = [60, 20, 5, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<3x4x5xf32>) -> tensor<3x4x5xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.reshape"(%0) : (tensor<3x4x5xf32>) -> tensor<1x3x4x5xf32>
  %2 = "aten.call"(%1) {
    overload = "aten.roll.default", args = "[\"%0\", [1]]", reason = "-",
    operand_strides = [[60, 5, 15, 1]], result_strides = [[60, 20, 5, 1]]
  } : (tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32>
  return %2 : tensor<1x3x4x5xf32>
}
