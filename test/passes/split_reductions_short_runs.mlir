// RUN: cuesta-opt --pass-pipeline='builtin.module(split-reductions{cut=528})' %s | filecheck %s

// Of each pixel a group has four channels, and the next group those beside them: sums of each channel come first.
// CHECK-LABEL: func.func @groups
// CHECK: %[[P:.*]] = "cuesta.sum"(%{{.*}}) {dims = [3], keepdim = 0 : i64} : (tensor<64x32x4x1024xf32>) -> tensor<64x32x4xf32>
// CHECK: "cuesta.sum"(%[[P]]) {dims = [2], keepdim = 0 : i64} : (tensor<64x32x4xf32>) -> tensor<64x32xf32>
func.func @groups(%x: tensor<64x32x4x1024xf32> {cuesta.strides = [131072, 4, 1, 128]}) -> tensor<64x32xf32> {
  %0 = "cuesta.sum"(%x) {dims = [2, 3], keepdim = 0} : (tensor<64x32x4x1024xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}

// Where few images give few strips of channels, these have parts, too.
// CHECK-LABEL: func.func @few_images
// CHECK: "cuesta.sum"(%{{.*}}) {dims = [4], keepdim = 0 : i64} : (tensor<2x32x4x128x256xf32>) -> tensor<2x32x4x128xf32>
// CHECK: "cuesta.sum"(%{{.*}}) {dims = [2, 3], keepdim = 0 : i64} : (tensor<2x32x4x128xf32>) -> tensor<2x32xf32>
func.func @few_images(%x: tensor<2x32x4x32768xf32> {cuesta.strides = [4194304, 4, 1, 128]}) -> tensor<2x32xf32> {
  %0 = "cuesta.sum"(%x) {dims = [2, 3], keepdim = 0} : (tensor<2x32x4x32768xf32>) -> tensor<2x32xf32>
  return %0 : tensor<2x32xf32>
}

// Groups of channels that a sector holds, rows of pixels, and small images stay whole.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: tensor<{{.*}}xf32>) -> tensor<64x32x{{.*}}x{{.*}}xf32>
func.func @whole(%x: tensor<64x32x16x1024xf32> {cuesta.strides = [524288, 16, 1, 512]}, %y: tensor<64x32x4x1024xf32>, %z: tensor<64x32x4x64xf32> {cuesta.strides = [8192, 4, 1, 128]}) -> (tensor<64x32xf32>, tensor<64x32xf32>, tensor<64x32xf32>) {
  %0 = "cuesta.sum"(%x) {dims = [2, 3], keepdim = 0} : (tensor<64x32x16x1024xf32>) -> tensor<64x32xf32>
  %1 = "cuesta.sum"(%y) {dims = [2, 3], keepdim = 0} : (tensor<64x32x4x1024xf32>) -> tensor<64x32xf32>
  %2 = "cuesta.sum"(%z) {dims = [2, 3], keepdim = 0} : (tensor<64x32x4x64xf32>) -> tensor<64x32xf32>
  return %0, %1, %2 : tensor<64x32xf32>, tensor<64x32xf32>, tensor<64x32xf32>
}
