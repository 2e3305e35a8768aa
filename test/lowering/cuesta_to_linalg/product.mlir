// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg)' %s | filecheck %s

// The rows are the longest of several dims before K: the other one, of size 1, is no broadcast, and nothing is copied.
// CHECK-LABEL: func.func @rows_of_several_dims
// CHECK-SAME: (%[[A:.*]]: tensor<8x1x64xbf16>, %[[B:.*]]: tensor<64x32xbf16>)
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[A]])
// CHECK-NOT: linalg.generic
// CHECK: linalg.fill
// CHECK: linalg.generic {{.*}} ins(%[[R]], %[[B]] : tensor<8x64xbf16>, tensor<64x32xbf16>)
// CHECK-SAME: cuesta.product = [0, 2, 1]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @rows_of_several_dims(%a: tensor<8x1x64xbf16>, %b: tensor<64x32xbf16>) -> tensor<8x1x32xf32> {
  %0 = "cuesta.mm"(%a, %b) {product = "16x16x64/4/3"} : (tensor<8x1x64xbf16>, tensor<64x32xbf16>) -> tensor<8x1x32xf32>
  return %0 : tensor<8x1x32xf32>
}
