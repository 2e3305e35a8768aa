// RUN: cuesta-opt --pass-pipeline='builtin.module(permute-parts)' %s | filecheck %s

// The reshape would copy the permuted whole: each part is permuted, and put in place.
// CHECK-LABEL: func.func @stack
// CHECK-SAME: (%[[X:.*]]: tensor<1x8x4xf32>, %[[Y:.*]]: tensor<1x8x4xf32>, %[[Z:.*]]: tensor<1x8x4xf32>)
// CHECK-DAG: %[[A:.*]] = "cuesta.permute"(%[[X]]) {dims = [1, 0, 2]} : (tensor<1x8x4xf32>) -> tensor<8x1x4xf32>
// CHECK-DAG: %[[B:.*]] = "cuesta.permute"(%[[Y]])
// CHECK-DAG: %[[C:.*]] = "cuesta.permute"(%[[Z]])
// CHECK: %[[AB:.*]] = "cuesta.cat"(%[[A]], %[[B]]) {dim = 1 : i64} : {{.*}} -> tensor<8x2x4xf32>
// CHECK: %[[ABC:.*]] = "cuesta.cat"(%[[AB]], %[[C]]) {dim = 1 : i64} : {{.*}} -> tensor<8x3x4xf32>
// CHECK-NEXT: "cuesta.reshape"(%[[ABC]]) : (tensor<8x3x4xf32>) -> tensor<8x12xf32>
func.func @stack(%x: tensor<1x8x4xf32>, %y: tensor<1x8x4xf32>, %z: tensor<1x8x4xf32>) -> tensor<8x12xf32> {
  %0 = "cuesta.cat"(%x, %y) {dim = 0 : i64} : (tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<2x8x4xf32>
  %1 = "cuesta.cat"(%0, %z) {dim = 0 : i64} : (tensor<2x8x4xf32>, tensor<1x8x4xf32>) -> tensor<3x8x4xf32>
  %2 = "cuesta.permute"(%1) {dims = [1, 0, 2]} : (tensor<3x8x4xf32>) -> tensor<8x3x4xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<8x3x4xf32>) -> tensor<8x12xf32>
  return %3 : tensor<8x12xf32>
}

// Nothing copies the whole: a reshape that is a view of it, an op that reads it in any order; or others read it as it is.
// CHECK-LABEL: func.func @views
// CHECK: %[[C:.*]] = "cuesta.cat"
// CHECK-NEXT: %[[P:.*]] = "cuesta.permute"(%[[C]])
// CHECK-NEXT: "cuesta.reshape"(%[[P]])
// CHECK-NEXT: "cuesta.exp"(%[[P]])
// CHECK-NEXT: %[[D:.*]] = "cuesta.cat"
// CHECK-NEXT: "cuesta.permute"(%[[D]])
func.func @views(%x: tensor<1x8x4xf32>, %y: tensor<1x8x4xf32>) -> (tensor<4x2x2x4xf32>, tensor<8x2x4xf32>, tensor<8x8xf32>, tensor<2x8x4xf32>) {
  %0 = "cuesta.cat"(%x, %y) {dim = 0 : i64} : (tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<2x8x4xf32>
  %1 = "cuesta.permute"(%0) {dims = [1, 0, 2]} : (tensor<2x8x4xf32>) -> tensor<8x2x4xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<8x2x4xf32>) -> tensor<4x2x2x4xf32>
  %3 = "cuesta.exp"(%1) : (tensor<8x2x4xf32>) -> tensor<8x2x4xf32>
  %4 = "cuesta.cat"(%y, %x) {dim = 0 : i64} : (tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<2x8x4xf32>
  %5 = "cuesta.permute"(%4) {dims = [1, 0, 2]} : (tensor<2x8x4xf32>) -> tensor<8x2x4xf32>
  %6 = "cuesta.reshape"(%5) : (tensor<8x2x4xf32>) -> tensor<8x8xf32>
  return %2, %3, %6, %4 : tensor<4x2x2x4xf32>, tensor<8x2x4xf32>, tensor<8x8xf32>, tensor<2x8x4xf32>
}

// A dim of 1 between the concatenation and the permute.
// CHECK-LABEL: func.func @dims_of_one
// CHECK-SAME: (%[[X:.*]]: tensor<1x8x4xf32>, %[[Y:.*]]: tensor<1x8x4xf32>)
// CHECK-DAG: %[[X1:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<1x8x4xf32>) -> tensor<1x8x1x4xf32>
// CHECK-DAG: %[[A:.*]] = "cuesta.permute"(%[[X1]]) {dims = [2, 1, 0, 3]} : (tensor<1x8x1x4xf32>) -> tensor<1x8x1x4xf32>
// CHECK: %[[AB:.*]] = "cuesta.cat"(%[[A]], %{{.*}}) {dim = 2 : i64} : {{.*}} -> tensor<1x8x2x4xf32>
// CHECK-NEXT: "cuesta.reshape"(%[[AB]]) : (tensor<1x8x2x4xf32>) -> tensor<8x8xf32>
func.func @dims_of_one(%x: tensor<1x8x4xf32>, %y: tensor<1x8x4xf32>) -> tensor<8x8xf32> {
  %0 = "cuesta.cat"(%x, %y) {dim = 0 : i64} : (tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<2x8x4xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<2x8x4xf32>) -> tensor<2x8x1x4xf32>
  %2 = "cuesta.permute"(%1) {dims = [2, 1, 0, 3]} : (tensor<2x8x1x4xf32>) -> tensor<1x8x2x4xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<1x8x2x4xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
