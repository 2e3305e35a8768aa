// RUN: cuesta-opt --pass-pipeline='builtin.module(split-reductions)' %s | filecheck %s

// A pool's result lies as its images do, here with channels side by side, of which few programs would reduce all pixels.
// The parts are of the pool's result: of its four places, each would be in memory.
// CHECK-LABEL: func.func @pool
// CHECK-COUNT-2: "cuesta.add"
// CHECK: %[[P:.*]] = "cuesta.add"
// CHECK-NEXT: "cuesta.reshape"(%[[P]]) : (tensor<64x256x14x14xf32>) -> tensor<64x256x{{.*}}xf32>
// CHECK-NOT: "cuesta.add"
func.func @pool(%x: tensor<64x256x28x28xf32> {cuesta.strides = [200704, 1, 7168, 256]}) -> tensor<256xf32> {
  %0 = "cuesta.window"(%x) {starts = [0, 0, 0, 0], steps = [1, 1, 2, 2], divisors = [1, 1, 1, 1], outside = 0.0} : (tensor<64x256x28x28xf32>) -> tensor<64x256x14x14xf32>
  %1 = "cuesta.window"(%x) {starts = [0, 0, 0, 1], steps = [1, 1, 2, 2], divisors = [1, 1, 1, 1], outside = 0.0} : (tensor<64x256x28x28xf32>) -> tensor<64x256x14x14xf32>
  %2 = "cuesta.window"(%x) {starts = [0, 0, 1, 0], steps = [1, 1, 2, 2], divisors = [1, 1, 1, 1], outside = 0.0} : (tensor<64x256x28x28xf32>) -> tensor<64x256x14x14xf32>
  %3 = "cuesta.window"(%x) {starts = [0, 0, 1, 1], steps = [1, 1, 2, 2], divisors = [1, 1, 1, 1], outside = 0.0} : (tensor<64x256x28x28xf32>) -> tensor<64x256x14x14xf32>
  %4 = "cuesta.add"(%0, %1) : (tensor<64x256x14x14xf32>, tensor<64x256x14x14xf32>) -> tensor<64x256x14x14xf32>
  %5 = "cuesta.add"(%4, %2) : (tensor<64x256x14x14xf32>, tensor<64x256x14x14xf32>) -> tensor<64x256x14x14xf32>
  %6 = "cuesta.add"(%5, %3) : (tensor<64x256x14x14xf32>, tensor<64x256x14x14xf32>) -> tensor<64x256x14x14xf32>
  %7 = "cuesta.sum"(%6) {dims = [0, 2, 3], keepdim = 0} : (tensor<64x256x14x14xf32>) -> tensor<256xf32>
  return %7 : tensor<256xf32>
}

// Channels that are counted by groups of three lie side by side all the same: a program reduces 32 of them.
// CHECK-LABEL: func.func @groups
// CHECK: tensor<32x56x56x32x3xf32>) -> tensor<32x8x7x56x32x3xf32>
// CHECK: "cuesta.sum"{{.*}} {dims = [2, 3], keepdim = 0 : i64} : {{.*}} -> tensor<32x8x32x3xf32>
func.func @groups(%x: tensor<32x56x56x32x3xf32> {cuesta.strides = [401408, 7168, 128, 4, 1]}) -> tensor<32x3xf32> {
  %0 = "cuesta.sum"(%x) {dims = [0, 1, 2], keepdim = 0} : (tensor<32x56x56x32x3xf32>) -> tensor<32x3xf32>
  return %0 : tensor<32x3xf32>
}

// A sum over the two halves of the channels leaves channels side by side, as they were.
// CHECK-LABEL: func.func @halves
// CHECK: "cuesta.sum"{{.*}} {dims = [1], keepdim = 0 : i64} {{.*}} -> tensor<32x64x56x56xf32>
// CHECK: "cuesta.reshape"{{.*}} : (tensor<32x64x56x56xf32>) -> tensor<32x64x14x4x56xf32>
func.func @halves(%x: tensor<32x2x64x56x56xf32> {cuesta.strides = [401408, 64, 1, 7168, 128]}) -> tensor<32x64xf32> {
  %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 0} : (tensor<32x2x64x56x56xf32>) -> tensor<32x64x56x56xf32>
  %1 = "cuesta.sum"(%0) {dims = [2, 3], keepdim = 0} : (tensor<32x64x56x56xf32>) -> tensor<32x64xf32>
  return %1 : tensor<32x64xf32>
}
