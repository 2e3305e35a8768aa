// RUN: cuesta-opt --pass-pipeline='builtin.module(cut-rows)' %s | filecheck %s

// What a norm's gradients are made of: sums along rows and down columns of one product. The columns' parts come where
// the sum was, what joins them behind all else, with the reshape of it.
// CHECK-LABEL: func.func @both
// CHECK-SAME: (%[[ARG_X:.*]]: tensor<1024x768xf32>, %[[ARG_S:.*]]: tensor<1024x1xf32>, %[[ARG_W:.*]]: tensor<768xf32>)
// CHECK: %[[X:.*]] = "cuesta.reshape"(%[[ARG_X]]) : (tensor<1024x768xf32>) -> tensor<64x16x768xf32>
// CHECK: %[[S:.*]] = "cuesta.reshape"(%[[ARG_S]]) : (tensor<1024x1xf32>) -> tensor<64x16x1xf32>
// CHECK: %[[P:.*]] = "cuesta.mul"(%[[X]], %[[S]])
// CHECK: %[[W:.*]] = "cuesta.mul"(%[[P]], %[[ARG_W]]) : (tensor<64x16x768xf32>, tensor<768xf32>) -> tensor<64x16x768xf32>
// CHECK: %[[PARTS:.*]] = "cuesta.sum"(%[[W]]) {dims = [1], keepdim = 0 : i64} : (tensor<64x16x768xf32>) -> tensor<64x768xf32>
// CHECK: %[[ROWS:.*]] = "cuesta.sum"(%[[W]]) {dims = [2], keepdim = 1 : i64} : (tensor<64x16x768xf32>) -> tensor<64x16x1xf32>
// CHECK: %[[R:.*]] = "cuesta.sub"(%[[P]], %[[ROWS]])
// CHECK: %[[OUT:.*]] = "cuesta.reshape"(%[[R]]) : (tensor<64x16x768xf32>) -> tensor<1024x768xf32>
// CHECK: %[[TOTAL:.*]] = "cuesta.sum"(%[[PARTS]]) {dims = [0], keepdim = 0 : i64} : (tensor<64x768xf32>) -> tensor<768xf32>
// CHECK: "cuesta.reshape"({{.*}}) : (tensor<1x768xf32>) -> tensor<3x256xf32>
func.func @both(%x: tensor<1024x768xf32>, %s: tensor<1024x1xf32>, %w: tensor<768xf32>) -> (tensor<1024x768xf32>, tensor<3x256xf32>) {
  %0 = "cuesta.mul"(%x, %s) : (tensor<1024x768xf32>, tensor<1024x1xf32>) -> tensor<1024x768xf32>
  %1 = "cuesta.mul"(%0, %w) : (tensor<1024x768xf32>, tensor<768xf32>) -> tensor<1024x768xf32>
  %2 = "cuesta.sum"(%1) {dims = [0], keepdim = 1} : (tensor<1024x768xf32>) -> tensor<1x768xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<1x768xf32>) -> tensor<3x256xf32>
  %4 = "cuesta.sum"(%1) {dims = [1], keepdim = 1} : (tensor<1024x768xf32>) -> tensor<1024x1xf32>
  %5 = "cuesta.sub"(%0, %4) : (tensor<1024x768xf32>, tensor<1024x1xf32>) -> tensor<1024x768xf32>
  return %5, %3 : tensor<1024x768xf32>, tensor<3x256xf32>
}

// Of several dims the last is cut; parts of narrow floats are joined in f32.
// CHECK-LABEL: func.func @batches
// CHECK-SAME: (%[[X:.*]]: tensor<4x512x768xbf16>)
// CHECK: "cuesta.reshape"(%[[X]]) : (tensor<4x512x768xbf16>) -> tensor<4x16x32x768xbf16>
// CHECK: "cuesta.sum"({{.*}}) {dims = [2], keepdim = 0 : i64} : (tensor<4x16x32x768xf32>) -> tensor<4x16x768xf32>
// CHECK: "cuesta.sum"({{.*}}) {dims = [0, 1], keepdim = 0 : i64} : (tensor<4x16x768xf32>) -> tensor<768xf32>
// CHECK: "cuesta.convert"({{.*}}) : (tensor<768xf32>) -> tensor<768xbf16>
func.func @batches(%x: tensor<4x512x768xbf16>) -> (tensor<4x512x1xbf16>, tensor<768xbf16>) {
  %0 = "cuesta.neg"(%x) : (tensor<4x512x768xbf16>) -> tensor<4x512x768xbf16>
  %1 = "cuesta.amax"(%0) {dims = [2], keepdim = 1} : (tensor<4x512x768xbf16>) -> tensor<4x512x1xbf16>
  %2 = "cuesta.sum"(%0) {dims = [0, 1], keepdim = 0} : (tensor<4x512x768xbf16>) -> tensor<768xbf16>
  return %1, %2 : tensor<4x512x1xbf16>, tensor<768xbf16>
}

// A total that its own rows are computed with cannot come behind them.
// CHECK-LABEL: func.func @needed
// CHECK: "cuesta.sum"({{.*}}) {dims = [0], keepdim = 0 : i64} : (tensor<64x768xf32>) -> tensor<768xf32>
// CHECK: "cuesta.sub"
// CHECK: "cuesta.sum"({{.*}}) {dims = [2], keepdim = 1 : i64}
func.func @needed(%x: tensor<1024x768xf32>) -> tensor<1024x1xf32> {
  %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<1024x768xf32>) -> tensor<768xf32>
  %1 = "cuesta.sub"(%x, %0) : (tensor<1024x768xf32>, tensor<768xf32>) -> tensor<1024x768xf32>
  %2 = "cuesta.sum"(%1) {dims = [1], keepdim = 1} : (tensor<1024x768xf32>) -> tensor<1024x1xf32>
  return %2 : tensor<1024x1xf32>
}

// Nothing is cut where no sum runs along rows, where the tensor is small, or rows are a prime number.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: cuesta.reshape
func.func @whole(%x: tensor<1024x768xf32>, %y: tensor<64x64xf32>, %z: tensor<1021x768xf32>) -> (tensor<768xf32>, tensor<64xf32>, tensor<64x1xf32>, tensor<768xf32>, tensor<1021x1xf32>) {
  %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<1024x768xf32>) -> tensor<768xf32>
  %1 = "cuesta.sum"(%y) {dims = [0], keepdim = 0} : (tensor<64x64xf32>) -> tensor<64xf32>
  %2 = "cuesta.sum"(%y) {dims = [1], keepdim = 1} : (tensor<64x64xf32>) -> tensor<64x1xf32>
  %3 = "cuesta.sum"(%z) {dims = [0], keepdim = 0} : (tensor<1021x768xf32>) -> tensor<768xf32>
  %4 = "cuesta.sum"(%z) {dims = [1], keepdim = 1} : (tensor<1021x768xf32>) -> tensor<1021x1xf32>
  return %0, %1, %2, %3, %4 : tensor<768xf32>, tensor<64xf32>, tensor<64x1xf32>, tensor<768xf32>, tensor<1021x1xf32>
}

// A norm that is called twice: what adds up the totals of both calls comes before the last rows, and so do the totals.
// CHECK-LABEL: func.func @calls
// CHECK-COUNT-2: "cuesta.sum"({{.*}}) {dims = [0], keepdim = 0 : i64} : (tensor<64x768xf32>) -> tensor<768xf32>
// CHECK: "cuesta.add"
// CHECK-COUNT-2: "cuesta.sum"({{.*}}) {dims = [2], keepdim = 1 : i64}
func.func @calls(%x: tensor<1024x768xf32>, %y: tensor<1024x768xf32>) -> (tensor<1024x768xf32>, tensor<1024x768xf32>, tensor<768xf32>) {
  %0 = "cuesta.neg"(%x) : (tensor<1024x768xf32>) -> tensor<1024x768xf32>
  %1 = "cuesta.sum"(%0) {dims = [0], keepdim = 0} : (tensor<1024x768xf32>) -> tensor<768xf32>
  %2 = "cuesta.neg"(%y) : (tensor<1024x768xf32>) -> tensor<1024x768xf32>
  %3 = "cuesta.sum"(%2) {dims = [0], keepdim = 0} : (tensor<1024x768xf32>) -> tensor<768xf32>
  %4 = "cuesta.add"(%1, %3) : (tensor<768xf32>, tensor<768xf32>) -> tensor<768xf32>
  %5 = "cuesta.sum"(%0) {dims = [1], keepdim = 1} : (tensor<1024x768xf32>) -> tensor<1024x1xf32>
  %6 = "cuesta.sub"(%0, %5) : (tensor<1024x768xf32>, tensor<1024x1xf32>) -> tensor<1024x768xf32>
  %7 = "cuesta.sum"(%2) {dims = [1], keepdim = 1} : (tensor<1024x768xf32>) -> tensor<1024x1xf32>
  %8 = "cuesta.sub"(%2, %7) : (tensor<1024x768xf32>, tensor<1024x1xf32>) -> tensor<1024x768xf32>
  return %6, %8, %4 : tensor<1024x768xf32>, tensor<1024x768xf32>, tensor<768xf32>
}
