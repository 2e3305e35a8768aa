// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries{gemm=kernel})' %s | filecheck %s

// Four rows by a weight in groups of 16 bytes, which multiply-quantised unpacks at once: a multiplication and a sum. Groups
// of 8 bytes it does not take, so the weight is widened to memory once, and multiplied like any other.
// CHECK-LABEL: func.func @groups
// CHECK: "cuesta.sum"({{.*}}) {dims = [2, 3], keepdim = 0 : i64} : (tensor<4x16x4x16xf32>) -> tensor<4x16xf32>
// CHECK: "cuesta.mm"({{.*}}product = "4x16x64 by
func.func @groups(%x: tensor<4x64xbf16>, %v: tensor<16x4x16xi8>, %s: tensor<16x4x1xbf16>, %w: tensor<16x8x8xi8>, %t: tensor<16x8x1xbf16>)
    -> (tensor<4x16xbf16>, tensor<4x16xbf16>) {
  %0 = "cuesta.convert"(%v) : (tensor<16x4x16xi8>) -> tensor<16x4x16xbf16>
  %1 = "cuesta.mul"(%0, %s) : (tensor<16x4x16xbf16>, tensor<16x4x1xbf16>) -> tensor<16x4x16xbf16>
  %2 = "cuesta.reshape"(%1) : (tensor<16x4x16xbf16>) -> tensor<16x64xbf16>
  %3 = "cuesta.permute"(%2) {dims = [1, 0]} : (tensor<16x64xbf16>) -> tensor<64x16xbf16>
  %4 = "cuesta.mm"(%x, %3) : (tensor<4x64xbf16>, tensor<64x16xbf16>) -> tensor<4x16xbf16>
  %5 = "cuesta.convert"(%w) : (tensor<16x8x8xi8>) -> tensor<16x8x8xbf16>
  %6 = "cuesta.mul"(%5, %t) : (tensor<16x8x8xbf16>, tensor<16x8x1xbf16>) -> tensor<16x8x8xbf16>
  %7 = "cuesta.reshape"(%6) : (tensor<16x8x8xbf16>) -> tensor<16x64xbf16>
  %8 = "cuesta.permute"(%7) {dims = [1, 0]} : (tensor<16x64xbf16>) -> tensor<64x16xbf16>
  %9 = "cuesta.mm"(%x, %8) : (tensor<4x64xbf16>, tensor<64x16xbf16>) -> tensor<4x16xbf16>
  return %4, %9 : tensor<4x16xbf16>, tensor<4x16xbf16>
}
