// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels)' %s | filecheck %s

// Of a concatenation and a part of it, which are tensors of their own, all of it stays in its buffer and the part is
// copied out, though it comes first.
// CHECK: func.func @graph
// CHECK: %[[WHOLE:.*]] = "host.alloc"() {{.*}} : () -> memref<24xf32>
// CHECK: %[[PART:.*]] = "host.alloc"() {{.*}} : () -> memref<12xf32>
// CHECK: %[[FROM:.*]] = "host.view"(%[[WHOLE]]) {offset = 0 : i64} : (memref<24xf32>) -> memref<12xf32>
// CHECK: "host.launch"(%[[FROM]], %[[PART]])
// CHECK: %[[ALL:.*]] = "host.view"(%[[WHOLE]]) {offset = 0 : i64} : (memref<24xf32>) -> memref<4x6xf32>
// CHECK: return %[[PART]], %[[ALL]]
func.func @graph(%x: tensor<2x6xf32> {cuesta.strides = [6, 1]}, %y: tensor<2x6xf32> {cuesta.strides = [6, 1]})
    -> (tensor<12xf32> {cuesta.strides = [1], cuesta.storage = 2 : i64},
        tensor<4x6xf32> {cuesta.strides = [6, 1], cuesta.storage = 3 : i64}) {
  %0 = "cuesta.exp"(%x) : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %1 = "cuesta.cat"(%0, %y) {dim = 0 : i64} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
  %2 = "cuesta.reshape"(%0) : (tensor<2x6xf32>) -> tensor<12xf32>
  return %2, %1 : tensor<12xf32>, tensor<4x6xf32>
}

// CHECK: // -----
// -----

// A quarter of a buffer does not hold it,
// CHECK: func.func @graph
// CHECK: %[[WHOLE:.*]] = "host.alloc"() {{.*}} : () -> memref<48xf32>
// CHECK: %[[PART:.*]] = "host.alloc"() {{.*}} : () -> memref<12xf32>
// CHECK: %[[FROM:.*]] = "host.view"(%[[WHOLE]]) {offset = 48 : i64} : (memref<48xf32>) -> memref<12xf32>
// CHECK: "host.launch"(%[[FROM]], %[[PART]])
// CHECK: %[[RESULT:.*]] = "host.view"(%[[PART]])
// CHECK: return %[[RESULT]]
func.func @graph(%x: tensor<8x6xf32> {cuesta.strides = [6, 1]})
    -> (tensor<2x6xf32> {cuesta.strides = [6, 1], cuesta.storage = 2 : i64}) {
  %0 = "cuesta.cumsum"(%x) {dim = 0 : i64} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = "cuesta.slice"(%0) {starts = [2, 0], steps = [1, 1]} : (tensor<8x6xf32>) -> tensor<2x6xf32>
  return %1 : tensor<2x6xf32>
}

// CHECK: // -----
// -----

// half of one is left where it is.
// CHECK: func.func @graph
// CHECK: %[[WHOLE:.*]] = "host.alloc"() {{.*}} : () -> memref<48xf32>
// CHECK-COUNT-1: "host.launch"
// CHECK-NOT: "host.launch"
// CHECK: %[[RESULT:.*]] = "host.view"(%[[WHOLE]]) {offset = 48 : i64} : (memref<48xf32>) -> memref<4x6xf32>
// CHECK: return %[[RESULT]]
func.func @graph(%x: tensor<8x6xf32> {cuesta.strides = [6, 1]})
    -> (tensor<4x6xf32> {cuesta.strides = [6, 1], cuesta.storage = 2 : i64}) {
  %0 = "cuesta.cumsum"(%x) {dim = 0 : i64} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = "cuesta.slice"(%0) {starts = [2, 0], steps = [1, 1]} : (tensor<8x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
