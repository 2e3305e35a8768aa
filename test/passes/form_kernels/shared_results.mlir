// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels)' %s | filecheck %s

// A copy and what is a view of it have one memory, which the argument that both values are has not.
// CHECK: func.func @graph(%[[X:.*]]: memref<4x6xf32>
// CHECK: %[[Y:.*]] = "host.alloc"() {{.*}} : () -> memref<24xf32>
// CHECK-COUNT-1: "host.launch"
// CHECK-NOT: "host.launch"
// CHECK: %[[T:.*]] = "host.view"(%[[Y]]) {offset = 0 : i64} : (memref<24xf32>) -> memref<6x4xf32, strided<[1, 6]>>
// CHECK: return %{{.*}}, %[[T]]
func.func @graph(%x: tensor<4x6xf32> {cuesta.strides = [6, 1]})
    -> (tensor<4x6xf32> {cuesta.strides = [6, 1], cuesta.storage = 2 : i64, cuesta.offset = [0]},
        tensor<6x4xf32> {cuesta.strides = [1, 6], cuesta.storage = 2 : i64, cuesta.offset = [0]}) {
  %0 = "cuesta.permute"(%x) {dims = [1, 0]} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  return %x, %0 : tensor<4x6xf32>, tensor<6x4xf32>
}

// CHECK: // -----
// -----

// Halves of a copy that is no result itself lie where its halves would.
// CHECK: func.func @graph
// CHECK: %[[Y:.*]] = "host.alloc"() {{.*}} : () -> memref<24xf32>
// CHECK: %[[A:.*]] = "host.view"(%[[Y]]) {offset = 0 : i64} : (memref<24xf32>) -> memref<4x3xf32, strided<[6, 1]>>
// CHECK: %[[B:.*]] = "host.view"(%[[Y]]) {offset = 12 : i64} : (memref<24xf32>) -> memref<4x3xf32, strided<[6, 1]>>
// CHECK: return %[[A]], %[[B]]
func.func @graph(%x: tensor<4x6xf32> {cuesta.strides = [6, 1]})
    -> (tensor<4x3xf32> {cuesta.strides = [6, 1], cuesta.storage = 2 : i64, cuesta.offset = [0]},
        tensor<4x3xf32> {cuesta.strides = [6, 1], cuesta.storage = 2 : i64, cuesta.offset = [3]}) {
  %0 = "cuesta.slice"(%x) {starts = [0, 0], steps = [1, 1]} : (tensor<4x6xf32>) -> tensor<4x3xf32>
  %1 = "cuesta.slice"(%x) {starts = [0, 3], steps = [1, 1]} : (tensor<4x6xf32>) -> tensor<4x3xf32>
  return %0, %1 : tensor<4x3xf32>, tensor<4x3xf32>
}

// CHECK: // -----
// -----

// A result that begins two elements behind an argument's first one lies there, though its values are gathered.
// CHECK: func.func @graph(%[[X:.*]]: memref<4x6xf32>
// CHECK: %[[D:.*]] = "host.view"(%[[X]]) {offset = 8 : i64} : (memref<4x6xf32>) -> memref<4xf32, strided<[7]>>
// CHECK: return %[[D]]
func.func @graph(%x: tensor<4x6xf32> {cuesta.strides = [6, 1]})
    -> (tensor<4xf32> {cuesta.strides = [7], cuesta.storage = 0 : i64, cuesta.offset = [2]}) {
  %0 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<4xi64>
  %1 = "cuesta.iota"() {start = 2 : i64, step = 1 : i64} : () -> tensor<4xi64>
  %2 = "cuesta.index"(%x, %0, %1) {dims = [0, 1], in_range, operandSegmentSizes = array<i32: 1, 2>}
    : (tensor<4x6xf32>, tensor<4xi64>, tensor<4xi64>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
