// RUN: cuesta-opt --pass-pipeline='builtin.module(reduce-outer-first)' %s | filecheck %s

// A kept dim lies between two reduced ones, of which the faster is short: the slower goes first.
// CHECK-LABEL: func.func @pool
// CHECK-SAME: (%[[X:.*]]: tensor<64x8x7x8xbf16>)
// CHECK: %[[W:.*]] = "cuesta.convert"(%[[X]])
// CHECK: %[[A:.*]] = "cuesta.sum"(%[[W]]) {dims = [1], keepdim = 1 : i64} : (tensor<64x8x7x8xf32>) -> tensor<64x1x7x8xf32>
// CHECK: %[[B:.*]] = "cuesta.sum"(%[[A]]) {dims = [3], keepdim = 0 : i64} : (tensor<64x1x7x8xf32>) -> tensor<64x1x7xf32>
// CHECK: %[[C:.*]] = "cuesta.reshape"(%[[B]]) : (tensor<64x1x7xf32>) -> tensor<64x7xf32>
// CHECK: %[[R:.*]] = "cuesta.convert"(%[[C]])
// CHECK: return %[[R]] : tensor<64x7xbf16>
func.func @pool(%x: tensor<64x8x7x8xbf16>) -> tensor<64x7xbf16> {
  %0 = "cuesta.sum"(%x) {dims = [1, 3], keepdim = 0 : i64} : (tensor<64x8x7x8xbf16>) -> tensor<64x7xbf16>
  return %0 : tensor<64x7xbf16>
}

// Long runs, one run, and sums down columns stay.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-3: "cuesta.sum"
// CHECK-NOT: "cuesta.sum"
func.func @others(%x: tensor<8x64x3136xf32>, %y: tensor<64x4x4xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<4xf32>) {
  %0 = "cuesta.sum"(%x) {dims = [0, 2], keepdim = 0 : i64} : (tensor<8x64x3136xf32>) -> tensor<64xf32>
  %1 = "cuesta.sum"(%y) {dims = [1, 2], keepdim = 0 : i64} : (tensor<64x4x4xf32>) -> tensor<64xf32>
  %2 = "cuesta.sum"(%y) {dims = [0, 1], keepdim = 0 : i64} : (tensor<64x4x4xf32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<64xf32>, tensor<64xf32>, tensor<4xf32>
}
