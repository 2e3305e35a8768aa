// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(stem-convolutions)' %s | filecheck %s

// Three channels: the elements of each window are read at computed positions, as the rows of a product.
// CHECK-LABEL: func.func @graph
// CHECK: %[[X:.*]] = "cuesta.index"(%arg0, %{{.*}}, %{{.*}}, %{{.*}}) {dims = [1, 2, 3], in_range
// CHECK: %[[A:.*]] = "cuesta.where"(%{{.*}}, %[[X]], %{{.*}}) : {{.*}} -> tensor<8x16x16x27xbf16>
// CHECK: "cuesta.mm"(%[[A]], %{{.*}}) {product = "{{.*}}"} : (tensor<8x16x16x27xbf16>, tensor<27x16xbf16>) -> tensor<8x16x16x16xf32>
// CHECK-NOT: cuesta.convolution
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<8x3x32x32xbf16> {cuesta.strides = [3072, 1024, 32, 1]}, %w: tensor<16x3x3x3xbf16> {cuesta.strides = [27, 9, 3, 1]})
      -> (tensor<8x16x16x16xbf16> {cuesta.strides = [4096, 256, 16, 1]}) {
    %0 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, output_padding = [0, 0], padding = [1, 1], stride = [2, 2], transposed = false} : (tensor<8x3x32x32xbf16>, tensor<16x3x3x3xbf16>) -> tensor<8x16x16x16xbf16>
    %1 = "cuesta.tanh"(%0) : (tensor<8x16x16x16xbf16>) -> tensor<8x16x16x16xbf16>
    return %1 : tensor<8x16x16x16xbf16>
  }
}

// CHECK: // -----
// -----

// Without a border nothing is outside.
// CHECK-LABEL: func.func @graph
// CHECK-NOT: cuesta.where
// CHECK: "cuesta.mm"
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<8x3x32x32xbf16> {cuesta.strides = [3072, 1024, 32, 1]}, %w: tensor<16x3x3x3xbf16> {cuesta.strides = [27, 9, 3, 1]})
      -> (tensor<8x16x30x30xbf16> {cuesta.strides = [14400, 900, 30, 1]}) {
    %0 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false} : (tensor<8x3x32x32xbf16>, tensor<16x3x3x3xbf16>) -> tensor<8x16x30x30xbf16>
    %1 = "cuesta.tanh"(%0) : (tensor<8x16x30x30xbf16>) -> tensor<8x16x30x30xbf16>
    return %1 : tensor<8x16x30x30xbf16>
  }
}

// CHECK: // -----
// -----

// These stay with the library: f32, a window of 147 elements, and nothing that follows.
// CHECK-COUNT-3: cuesta.convolution
// CHECK-NOT: cuesta.mm
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<8x3x32x32xbf16> {cuesta.strides = [3072, 1024, 32, 1]}, %y: tensor<8x3x32x32xf32> {cuesta.strides = [3072, 1024, 32, 1]}, %w: tensor<16x3x3x3xbf16> {cuesta.strides = [27, 9, 3, 1]}, %v: tensor<16x3x3x3xf32> {cuesta.strides = [27, 9, 3, 1]}, %u: tensor<16x3x7x7xbf16> {cuesta.strides = [147, 49, 7, 1]})
      -> (tensor<8x16x30x30xbf16> {cuesta.strides = [14400, 900, 30, 1]}, tensor<8x16x30x30xf32> {cuesta.strides = [14400, 900, 30, 1]}, tensor<8x16x26x26xbf16> {cuesta.strides = [10816, 676, 26, 1]}) {
    %0 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false} : (tensor<8x3x32x32xbf16>, tensor<16x3x3x3xbf16>) -> tensor<8x16x30x30xbf16>
    %1 = "cuesta.convolution"(%y, %v) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false} : (tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<8x16x30x30xf32>
    %2 = "cuesta.tanh"(%1) : (tensor<8x16x30x30xf32>) -> tensor<8x16x30x30xf32>
    %3 = "cuesta.convolution"(%x, %u) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false} : (tensor<8x3x32x32xbf16>, tensor<16x3x7x7xbf16>) -> tensor<8x16x26x26xbf16>
    %4 = "cuesta.tanh"(%3) : (tensor<8x16x26x26xbf16>) -> tensor<8x16x26x26xbf16>
    return %0, %2, %4 : tensor<8x16x30x30xbf16>, tensor<8x16x30x30xf32>, tensor<8x16x26x26xbf16>
  }
}
