// RUN: cuesta-opt --pass-pipeline='builtin.module(interleave-parts)' %s | filecheck %s

// Single elements along the last dim, three of them by two concatenations.
// CHECK-LABEL: func.func @stack
// CHECK-SAME: (%[[X:.*]]: tensor<2048x1xf32>, %[[Y:.*]]: tensor<2048x1xf32>, %[[Z:.*]]: tensor<2048x1xf32>)
// CHECK: "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<3xi64>
// CHECK: %[[L:.*]] = "cuesta.where"(%{{.*}}, %[[Y]], %[[Z]])
// CHECK: %[[R:.*]] = "cuesta.where"(%{{.*}}, %[[X]], %[[L]])
// CHECK-NOT: cuesta.cat
// CHECK: return %[[R]] : tensor<2048x3xf32>
func.func @stack(%x: tensor<2048x1xf32>, %y: tensor<2048x1xf32>, %z: tensor<2048x1xf32>) -> tensor<2048x3xf32> {
  %0 = "cuesta.cat"(%x, %y) {dim = 1 : i64} : (tensor<2048x1xf32>, tensor<2048x1xf32>) -> tensor<2048x2xf32>
  %1 = "cuesta.cat"(%0, %z) {dim = 1 : i64} : (tensor<2048x2xf32>, tensor<2048x1xf32>) -> tensor<2048x3xf32>
  return %1 : tensor<2048x3xf32>
}

// Rows, a column beside others, and what is small stay.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-3: cuesta.cat
// CHECK-NOT: cuesta.where
func.func @others(%x: tensor<1x2048xf32>, %y: tensor<2048x1xf32>, %z: tensor<2048x4xf32>, %s: tensor<8x1xf32>) -> (tensor<2x2048xf32>, tensor<2048x5xf32>, tensor<8x2xf32>) {
  %0 = "cuesta.cat"(%x, %x) {dim = 0 : i64} : (tensor<1x2048xf32>, tensor<1x2048xf32>) -> tensor<2x2048xf32>
  %1 = "cuesta.cat"(%y, %z) {dim = 1 : i64} : (tensor<2048x1xf32>, tensor<2048x4xf32>) -> tensor<2048x5xf32>
  %2 = "cuesta.cat"(%s, %s) {dim = 1 : i64} : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x2xf32>
  return %0, %1, %2 : tensor<2x2048xf32>, tensor<2048x5xf32>, tensor<8x2xf32>
}
