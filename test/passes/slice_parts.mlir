// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(slice-parts)' %s | filecheck %s

// Two writes to parts of a tensor: what is left of it is taken from its parts.
// CHECK-LABEL: func.func @graph
// CHECK: %[[B:.*]] = "cuesta.slice"(%arg1) {starts = [0, 1]{{.*}} -> tensor<4x2xf32>
// CHECK-NOT: cuesta.slice
// CHECK: %[[R:.*]] = "cuesta.cat"(%arg0, %[[B]])
// CHECK: "cuesta.cat"(%arg2, %[[R]])
func.func @graph(%a: tensor<4x5xf32>, %b: tensor<4x3xf32>, %c: tensor<4x1xf32>) -> tensor<4x8xf32> {
  %0 = "cuesta.cat"(%b, %a) {dim = 1 : i64} : (tensor<4x3xf32>, tensor<4x5xf32>) -> tensor<4x8xf32>
  %1 = "cuesta.slice"(%0) {starts = [0, 3], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x5xf32>
  %2 = "cuesta.slice"(%0) {starts = [0, 1], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x2xf32>
  %3 = "cuesta.cat"(%1, %2) {dim = 1 : i64} : (tensor<4x5xf32>, tensor<4x2xf32>) -> tensor<4x7xf32>
  %4 = "cuesta.cat"(%c, %3) {dim = 1 : i64} : (tensor<4x1xf32>, tensor<4x7xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// CHECK: // -----
// -----

// Through a permute and a reshape that parts a dim; of one number a smaller one is made.
// CHECK-LABEL: func.func @graph
// CHECK-DAG: "cuesta.constant"() {{.*}} -> tensor<2x4xf32>
// CHECK-DAG: "cuesta.slice"(%arg0) {starts = [2, 0]{{.*}} -> tensor<2x4xf32>
// CHECK-NOT: cuesta.cat
// CHECK: return
func.func @graph(%a: tensor<4x4xf32>) -> (tensor<4x1x2xf32>, tensor<4x2xf32>) {
  %z = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<4x4xf32>
  %0 = "cuesta.cat"(%a, %z) {dim = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = "cuesta.permute"(%0) {dims = [1, 0]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<4x8xf32>) -> tensor<4x4x2xf32>
  %3 = "cuesta.slice"(%2) {starts = [0, 1, 0], steps = [1, 1, 1]} : (tensor<4x4x2xf32>) -> tensor<4x1x2xf32>
  %4 = "cuesta.slice"(%1) {starts = [0, 6], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x2xf32>
  return %3, %4 : tensor<4x1x2xf32>, tensor<4x2xf32>
}

// CHECK: // -----
// -----

// A concatenation that somebody else reads is in memory anyway.
// CHECK-LABEL: func.func @graph
// CHECK: %[[C:.*]] = "cuesta.cat"
// CHECK: "cuesta.slice"(%[[C]])
func.func @graph(%a: tensor<4x5xf32>, %b: tensor<4x3xf32>) -> (tensor<4x8xf32>, tensor<4x6xf32>) {
  %0 = "cuesta.cat"(%b, %a) {dim = 1 : i64} : (tensor<4x3xf32>, tensor<4x5xf32>) -> tensor<4x8xf32>
  %1 = "cuesta.slice"(%0) {starts = [0, 1], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x6xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x6xf32>
}

// -----

// A dim is parted where the parts meet, in runs of four.
// CHECK-LABEL: func.func @runs
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x3xf32>, %[[Y:.*]]: tensor<2x4x3xf32>, %[[Z:.*]]: tensor<2x4x3xf32>)
// CHECK-DAG: %[[X2:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<2x8x3xf32>) -> tensor<2x2x4x3xf32>
// CHECK-DAG: %[[Y1:.*]] = "cuesta.reshape"(%[[Y]]) : (tensor<2x4x3xf32>) -> tensor<2x1x4x3xf32>
// CHECK: %[[C:.*]] = "cuesta.cat"(%[[X2]], %[[Y1]]) {dim = 1 : i64} : (tensor<2x2x4x3xf32>, tensor<2x1x4x3xf32>) -> tensor<2x3x4x3xf32>
// CHECK-NEXT: return %[[C]]
func.func @runs(%x: tensor<2x8x3xf32>, %y: tensor<2x4x3xf32>, %z: tensor<2x4x3xf32>) -> tensor<2x3x4x3xf32> {
  %0 = "cuesta.cat"(%x, %y) {dim = 1 : i64} : (tensor<2x8x3xf32>, tensor<2x4x3xf32>) -> tensor<2x12x3xf32>
  %1 = "cuesta.cat"(%0, %z) {dim = 1 : i64} : (tensor<2x12x3xf32>, tensor<2x4x3xf32>) -> tensor<2x16x3xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<2x16x3xf32>) -> tensor<2x4x4x3xf32>
  %3 = "cuesta.slice"(%2) {starts = [0, 0, 0, 0], steps = [1, 1, 1, 1]} : (tensor<2x4x4x3xf32>) -> tensor<2x3x4x3xf32>
  return %3 : tensor<2x3x4x3xf32>
}
