// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' --split-input-file %s | filecheck %s

// The sums of a group's channels are a kernel of their own: one for each group that also scales the pixels would read
// four channels of each.
// CHECK: cuesta.sizes = [2048, 4]
// CHECK: cuesta.parallel = [0, 1, 2, 3]
// CHECK-COUNT-2: "host.launch"
func.func @graph(%x: tensor<64x32x4x1024xf32> {cuesta.strides = [131072, 4, 1, 128]}, %p: tensor<64x32x4xf32> {cuesta.strides = [128, 4, 1]}) -> (tensor<64x32x4x1024xf32> {cuesta.strides = [131072, 4, 1, 128]}) {
  %0 = "cuesta.sum"(%p) {dims = [2], keepdim = 1} : (tensor<64x32x4xf32>) -> tensor<64x32x1xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<64x32x1xf32>) -> tensor<64x32x1x1xf32>
  %2 = "cuesta.mul"(%x, %1) : (tensor<64x32x4x1024xf32>, tensor<64x32x1x1xf32>) -> tensor<64x32x4x1024xf32>
  return %2 : tensor<64x32x4x1024xf32>
}

// -----

// Nor where the sums of parts lie as the pixels do: what adds these up has tiles of four channels, and the pixels, of
// which there are many times more, have none.
// CHECK: cuesta.sizes = [64, 8, 32, 4]
// CHECK: cuesta.parallel = [0, 1, 2, 3]
// CHECK-COUNT-2: "host.launch"
func.func @graph(%x: tensor<64x32x4x1024xf32> {cuesta.strides = [131072, 4, 1, 128]}, %p: tensor<64x32x4x8xf32> {cuesta.strides = [1024, 4, 1, 128]}) -> (tensor<64x32x4x1024xf32> {cuesta.strides = [131072, 4, 1, 128]}) {
  %0 = "cuesta.sum"(%p) {dims = [2, 3], keepdim = 1} : (tensor<64x32x4x8xf32>) -> tensor<64x32x1x1xf32>
  %1 = "cuesta.mul"(%x, %0) : (tensor<64x32x4x1024xf32>, tensor<64x32x1x1xf32>) -> tensor<64x32x4x1024xf32>
  return %1 : tensor<64x32x4x1024xf32>
}
