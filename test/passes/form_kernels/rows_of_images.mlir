// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// A gate of each image is multiplied in the product's kernel. Rows of a block, M, are then the pixels of an image, though
// there are more images than pixels down or across.
// CHECK: func.func @kernel({{.*}}cuesta.sizes = [64, 196, 16, 32]
// CHECK: cuesta.product = [1, 2, 3]
func.func @graph(%x: tensor<64x14x14x32xbf16> {cuesta.strides = [6272, 448, 32, 1]}, %g: tensor<64x1x1x32xbf16> {cuesta.strides = [32, 32, 32, 1]}, %w: tensor<32x16xbf16> {cuesta.strides = [16, 1]}) -> (tensor<64x14x14x16xf32> {cuesta.strides = [3136, 224, 16, 1]}) {
  %0 = "cuesta.mul"(%x, %g) : (tensor<64x14x14x32xbf16>, tensor<64x1x1x32xbf16>) -> tensor<64x14x14x32xbf16>
  %1 = "cuesta.mm"(%0, %w) {product = "128x16x32/4/2"} : (tensor<64x14x14x32xbf16>, tensor<32x16xbf16>) -> tensor<64x14x14x16xf32>
  return %1 : tensor<64x14x14x16xf32>
}

// CHECK: // -----
// -----

// Without a gate all pixels are rows alike.
// CHECK: func.func @kernel({{.*}}cuesta.sizes = [12544, 16, 32]
// CHECK: cuesta.product = [0, 1, 2]
func.func @graph(%x: tensor<64x14x14x32xbf16> {cuesta.strides = [6272, 448, 32, 1]}, %w: tensor<32x16xbf16> {cuesta.strides = [16, 1]}) -> (tensor<64x14x14x16xf32> {cuesta.strides = [3136, 224, 16, 1]}) {
  %0 = "cuesta.mm"(%x, %w) {product = "128x16x32/4/2"} : (tensor<64x14x14x32xbf16>, tensor<32x16xbf16>) -> tensor<64x14x14x16xf32>
  return %0 : tensor<64x14x14x16xf32>
}
