// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(stem-convolutions,cuesta-to-linalg{checks=false},form-kernels{target=gpu})' %s | filecheck %s

// The kernel of the product counts the positions of its windows, and whether they are inside the image. These depend on
// no tensor, so that it makes no difference what they would take in memory: nothing is written for the product to read.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"({{.*}}ops = ["convolution", "relu"]
// CHECK-NOT: host.launch
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<64x3x224x224xbf16> {cuesta.strides = [150528, 50176, 224, 1]}, %w: tensor<32x3x3x3xbf16> {cuesta.strides = [27, 9, 3, 1]})
      -> (tensor<64x32x112x112xbf16> {cuesta.strides = [401408, 1, 3584, 32]}) {
    %0 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, output_padding = [0, 0], padding = [1, 1], stride = [2, 2], transposed = false} : (tensor<64x3x224x224xbf16>, tensor<32x3x3x3xbf16>) -> tensor<64x32x112x112xbf16> loc("convolution")
    %1 = "cuesta.relu"(%0) : (tensor<64x32x112x112xbf16>) -> tensor<64x32x112x112xbf16> loc("relu")
    return %1 : tensor<64x32x112x112xbf16>
  }
}

// CHECK: // -----
// -----

// Of many images, blocks are along the 112 pixels of a row, class 2, whose windows lie side by side in memory.
// CHECK: cuesta.product = [2, 3, 4]
// CHECK-LABEL: func.func @graph
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<256x3x224x224xbf16> {cuesta.strides = [150528, 50176, 224, 1]}, %w: tensor<16x3x3x3xbf16> {cuesta.strides = [27, 9, 3, 1]})
      -> (tensor<256x16x112x112xbf16> {cuesta.strides = [200704, 1, 1792, 16]}) {
    %0 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, output_padding = [0, 0], padding = [1, 1], stride = [2, 2], transposed = false} : (tensor<256x3x224x224xbf16>, tensor<16x3x3x3xbf16>) -> tensor<256x16x112x112xbf16> loc("convolution")
    %1 = "cuesta.relu"(%0) : (tensor<256x16x112x112xbf16>) -> tensor<256x16x112x112xbf16> loc("relu")
    return %1 : tensor<256x16x112x112xbf16>
  }
}
