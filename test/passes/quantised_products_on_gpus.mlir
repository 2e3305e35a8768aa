// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries)' %s | filecheck %s

// On a GPU each group's sums are finished first. Halves of bytes are taken 128 higher, and so are their zeros. They stand
// beside each other in a last dim, as those of x do, which is read where it lies. The sums of x are written for each row
// of the weight, so that they are in the kernel of the others, and are subtracted at the end.
// CHECK-LABEL: func.func @groups
// CHECK-SAME: (%[[X:.*]]: tensor<1x64xbf16>, %[[B:.*]]: tensor<8x32xui8>, %[[S:.*]]: tensor<8x4x1xbf16>, %[[Z:.*]]: tensor<8x4x1xbf16>)
// CHECK: %[[LOW:.*]] = "cuesta.add"(%{{.*}}, %{{.*}}) : (tensor<1x8x4x8x1xf32>, tensor<f32>) -> tensor<1x8x4x8x1xf32>
// CHECK: %[[HIGH:.*]] = "cuesta.add"(%{{.*}}, %{{.*}}) : (tensor<1x8x4x8x1xf32>, tensor<f32>) -> tensor<1x8x4x8x1xf32>
// CHECK: %[[V:.*]] = "cuesta.cat"(%[[LOW]], %[[HIGH]]) {dim = 4 : i64} : (tensor<1x8x4x8x1xf32>, tensor<1x8x4x8x1xf32>) -> tensor<1x8x4x8x2xf32>
// CHECK: %[[PAIRS:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<1x64xbf16>) -> tensor<1x1x4x8x2xbf16>
// CHECK: %[[E:.*]] = "cuesta.expand"(%[[PAIRS]]) : (tensor<1x1x4x8x2xbf16>) -> tensor<1x8x4x8x2xbf16>
// CHECK: %[[WIDE:.*]] = "cuesta.convert"(%[[E]]) : (tensor<1x8x4x8x2xbf16>) -> tensor<1x8x4x8x2xf32>
// CHECK: %[[P:.*]] = "cuesta.mul"(%[[WIDE]], %[[V]]) : (tensor<1x8x4x8x2xf32>, tensor<1x8x4x8x2xf32>) -> tensor<1x8x4x8x2xf32>
// CHECK: %[[SUMS:.*]] = "cuesta.sum"(%[[P]]) {dims = [3, 4], keepdim = 0 : i64} : (tensor<1x8x4x8x2xf32>) -> tensor<1x8x4xf32>
// CHECK: %[[OFX:.*]] = "cuesta.sum"(%[[WIDE]]) {dims = [3, 4], keepdim = 0 : i64} : (tensor<1x8x4x8x2xf32>) -> tensor<1x8x4xf32>
// CHECK: %[[HIGHER:.*]] = "cuesta.add"(%{{.*}}, %{{.*}}) : (tensor<1x8x4xf32>, tensor<f32>) -> tensor<1x8x4xf32>
// CHECK: %[[SCALED:.*]] = "cuesta.mul"(%[[SUMS]], %[[SCALE:.*]]) : (tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<1x8x4xf32>
// CHECK: %[[ZEROS:.*]] = "cuesta.mul"(%[[HIGHER]], %[[SCALE]])
// CHECK: %[[ALL:.*]] = "cuesta.sum"(%[[SCALED]]) {dims = [2], keepdim = 0 : i64} : (tensor<1x8x4xf32>) -> tensor<1x8xf32>
// CHECK: %[[OFF:.*]] = "cuesta.mul"(%[[ZEROS]], %[[OFX]])
// CHECK: %[[OFFS:.*]] = "cuesta.sum"(%[[OFF]]) {dims = [2], keepdim = 0 : i64} : (tensor<1x8x4xf32>) -> tensor<1x8xf32>
// CHECK: "cuesta.sub"(%[[ALL]], %[[OFFS]])
module attributes {cuesta.target = "cuda:90"} {
func.func @groups(%x: tensor<1x64xbf16>, %b: tensor<8x32xui8>, %s: tensor<8x4x1xbf16>, %z: tensor<8x4x1xbf16>) -> tensor<1x8xbf16> {
  %four = "cuesta.constant"() {value = 4 : i64} : () -> tensor<ui8>
  %fifteen = "cuesta.constant"() {value = 15 : i64} : () -> tensor<ui8>
  %0 = "cuesta.bitwise_and"(%b, %fifteen) : (tensor<8x32xui8>, tensor<ui8>) -> tensor<8x32xui8>
  %1 = "cuesta.bitwise_right_shift"(%b, %four) : (tensor<8x32xui8>, tensor<ui8>) -> tensor<8x32xui8>
  %2 = "cuesta.reshape"(%0) : (tensor<8x32xui8>) -> tensor<8x32x1xui8>
  %3 = "cuesta.reshape"(%1) : (tensor<8x32xui8>) -> tensor<8x32x1xui8>
  %4 = "cuesta.cat"(%2, %3) {dim = 2 : i64} : (tensor<8x32x1xui8>, tensor<8x32x1xui8>) -> tensor<8x32x2xui8>
  %5 = "cuesta.reshape"(%4) : (tensor<8x32x2xui8>) -> tensor<8x4x16xui8>
  %6 = "cuesta.convert"(%5) : (tensor<8x4x16xui8>) -> tensor<8x4x16xbf16>
  %7 = "cuesta.sub"(%6, %z) : (tensor<8x4x16xbf16>, tensor<8x4x1xbf16>) -> tensor<8x4x16xbf16>
  %8 = "cuesta.mul"(%7, %s) : (tensor<8x4x16xbf16>, tensor<8x4x1xbf16>) -> tensor<8x4x16xbf16>
  %9 = "cuesta.reshape"(%8) : (tensor<8x4x16xbf16>) -> tensor<8x64xbf16>
  %10 = "cuesta.permute"(%9) {dims = [1, 0]} : (tensor<8x64xbf16>) -> tensor<64x8xbf16>
  %11 = "cuesta.mm"(%x, %10) {route = "rows"} : (tensor<1x64xbf16>, tensor<64x8xbf16>) -> tensor<1x8xbf16>
  return %11 : tensor<1x8xbf16>
}
}
