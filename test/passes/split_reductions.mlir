// RUN: cuesta-opt --pass-pipeline='builtin.module(split-reductions)' %s | filecheck %s

// CHECK-LABEL: func.func @columns
// CHECK: %[[C:.*]] = "cuesta.convert"(%arg0) : (tensor<8192x768xbf16>) -> tensor<8192x768xf32>
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[C]]) : (tensor<8192x768xf32>) -> tensor<32x256x768xf32>
// CHECK: %[[P:.*]] = "cuesta.sum"(%[[R]]) {dims = [1], keepdim = 0 : i64} : (tensor<32x256x768xf32>) -> tensor<32x768xf32>
// CHECK: %[[T:.*]] = "cuesta.sum"(%[[P]]) {dims = [0], keepdim = 0 : i64} : (tensor<32x768xf32>) -> tensor<768xf32>
// CHECK: "cuesta.convert"(%[[T]]) : (tensor<768xf32>) -> tensor<768xbf16>
func.func @columns(%x: tensor<8192x768xbf16>) -> tensor<768xbf16> {
  %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<8192x768xbf16>) -> tensor<768xbf16>
  return %0 : tensor<768xbf16>
}

// The whole of a dim may go to programs, and the next one be cut; keepdim is made up for at the end.
// CHECK-LABEL: func.func @channels
// CHECK: %[[R:.*]] = "cuesta.reshape"(%arg0) : (tensor<8x64x56x56xf32>) -> tensor<8x64x2x28x56xf32>
// CHECK: %[[P:.*]] = "cuesta.amax"(%[[R]]) {dims = [3, 4], keepdim = 0 : i64} {{.*}} -> tensor<8x64x2xf32>
// CHECK: %[[T:.*]] = "cuesta.amax"(%[[P]]) {dims = [0, 2], keepdim = 0 : i64} {{.*}} -> tensor<64xf32>
// CHECK: "cuesta.reshape"(%[[T]]) : (tensor<64xf32>) -> tensor<1x64x1x1xf32>
func.func @channels(%x: tensor<8x64x56x56xf32>) -> tensor<1x64x1x1xf32> {
  %0 = "cuesta.amax"(%x) {dims = [0, 2, 3], keepdim = 1} : (tensor<8x64x56x56xf32>) -> tensor<1x64x1x1xf32>
  return %0 : tensor<1x64x1x1xf32>
}

// Rows enough to go round, short rows, and a size without divisors stay as they are.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: cuesta.reshape
func.func @whole(%x: tensor<4096x4096xf32>, %y: tensor<8x128xf32>, %z: tensor<8191xf32>) -> (tensor<4096xf32>, tensor<8xf32>, tensor<f32>) {
  %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 0} : (tensor<4096x4096xf32>) -> tensor<4096xf32>
  %1 = "cuesta.sum"(%y) {dims = [1], keepdim = 0} : (tensor<8x128xf32>) -> tensor<8xf32>
  %2 = "cuesta.sum"(%z) {dims = [0], keepdim = 0} : (tensor<8191xf32>) -> tensor<f32>
  return %0, %1, %2 : tensor<4096xf32>, tensor<8xf32>, tensor<f32>
}
