// RUN: cuesta-opt --pass-pipeline='builtin.module(sink-expands)' %s | filecheck %s

// A mean's gradient is divided before it is repeated. Of the dims that a reshape merges, those that are repeated beside
// others are repeated before; the pixels are repeated last.
// CHECK-LABEL: func.func @gradient
// CHECK-SAME: (%[[G:.*]]: tensor<8x1x64x1x1xf32>, %[[N:.*]]: tensor<f32>)
// CHECK: %[[D:.*]] = "cuesta.div"(%[[G]], %[[N]]) : (tensor<8x1x64x1x1xf32>, tensor<f32>)
// CHECK: %[[C:.*]] = "cuesta.convert"(%[[D]]) : (tensor<8x1x64x1x1xf32>) -> tensor<8x1x64x1x1xbf16>
// CHECK: %[[P:.*]] = "cuesta.expand"(%[[C]]) : (tensor<8x1x64x1x1xbf16>) -> tensor<8x2x64x1x1xbf16>
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[P]]) : (tensor<8x2x64x1x1xbf16>) -> tensor<8x128x1x1xbf16>
// CHECK: %[[E:.*]] = "cuesta.expand"(%[[R]]) : (tensor<8x128x1x1xbf16>) -> tensor<8x128x14x14xbf16>
// CHECK: return %[[E]]
func.func @gradient(%g: tensor<8x1x64x1x1xf32>, %n: tensor<f32>) -> tensor<8x128x14x14xbf16> {
  %0 = "cuesta.expand"(%g) : (tensor<8x1x64x1x1xf32>) -> tensor<8x1x64x14x14xf32>
  %1 = "cuesta.div"(%0, %n) : (tensor<8x1x64x14x14xf32>, tensor<f32>) -> tensor<8x1x64x14x14xf32>
  %2 = "cuesta.convert"(%1) : (tensor<8x1x64x14x14xf32>) -> tensor<8x1x64x14x14xbf16>
  %3 = "cuesta.expand"(%2) : (tensor<8x1x64x14x14xbf16>) -> tensor<8x2x64x14x14xbf16>
  %4 = "cuesta.reshape"(%3) : (tensor<8x2x64x14x14xbf16>) -> tensor<8x128x14x14xbf16>
  return %4 : tensor<8x128x14x14xbf16>
}

// A sum computes what it reads in its kernel; positions are counted where they are read; what is repeated along a dim
// that has other elements too is repeated whole.
// CHECK-LABEL: func.func @stays
// CHECK: %[[A:.*]] = "cuesta.expand"(%{{.*}}) : (tensor<8x1xf32>) -> tensor<8x64xf32>
// CHECK: "cuesta.neg"(%[[A]]) : (tensor<8x64xf32>)
// CHECK: %[[B:.*]] = "cuesta.expand"(%{{.*}}) : (tensor<1x64xi64>) -> tensor<8x64xi64>
// CHECK: %[[C:.*]] = "cuesta.neg"(%[[B]]) : (tensor<8x64xi64>)
// CHECK: "cuesta.reshape"(%[[C]])
// CHECK: %[[D:.*]] = "cuesta.expand"(%{{.*}}) : (tensor<8x1xf32>) -> tensor<8x64xf32>
// CHECK: "cuesta.reshape"(%[[D]]) : (tensor<8x64xf32>) -> tensor<512xf32>
func.func @stays(%x: tensor<8x1xf32>, %i: tensor<1x64xi64>) -> (tensor<8xf32>, tensor<8x8x8xi64>, tensor<512xf32>) {
  %0 = "cuesta.expand"(%x) : (tensor<8x1xf32>) -> tensor<8x64xf32>
  %1 = "cuesta.neg"(%0) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = "cuesta.sum"(%1) {dims = [1], keepdim = 0 : i64} : (tensor<8x64xf32>) -> tensor<8xf32>
  %3 = "cuesta.expand"(%i) : (tensor<1x64xi64>) -> tensor<8x64xi64>
  %4 = "cuesta.neg"(%3) : (tensor<8x64xi64>) -> tensor<8x64xi64>
  %5 = "cuesta.reshape"(%4) : (tensor<8x64xi64>) -> tensor<8x8x8xi64>
  %6 = "cuesta.expand"(%x) : (tensor<8x1xf32>) -> tensor<8x64xf32>
  %7 = "cuesta.reshape"(%6) : (tensor<8x64xf32>) -> tensor<512xf32>
  return %2, %5, %7 : tensor<8xf32>, tensor<8x8x8xi64>, tensor<512xf32>
}
