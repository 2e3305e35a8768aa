// RUN: cuesta-opt --pass-pipeline='builtin.module(fuse-cudnn-convolution)' %s | filecheck %s

module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {

// CHECK-LABEL: func.func @relu
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x8x8xbf16>, %[[W:.*]]: tensor<4x3x3x3xbf16>, %[[B:.*]]: tensor<4xbf16>)
// CHECK-NEXT: %[[R:.*]] = "aten.call"(%[[X]], %[[W]], %[[B]]) {args = "[\22%0\22, \22%1\22, \22%2\22, [2, 2], [1, 1], [1, 1], 1]",
// CHECK-SAME: operand_strides = {{\[\[}}192, 1, 24, 3], [27, 1, 9, 3], [1]], overload = "aten.cudnn_convolution_relu.default", {{.*}}result_strides = {{\[\[}}64, 1, 16, 4]]
// CHECK-NEXT: return %[[R]]
func.func @relu(%x: tensor<2x3x8x8xbf16>, %w: tensor<4x3x3x3xbf16>, %b: tensor<4xbf16>) -> tensor<2x4x4x4xbf16> {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [2, 2], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores", operand_strides = [[192, 1, 24, 3], [27, 1, 9, 3], [1]], result_strides = [[64, 1, 16, 4]]} : (tensor<2x3x8x8xbf16>, tensor<4x3x3x3xbf16>, tensor<4xbf16>) -> tensor<2x4x4x4xbf16>
  %1 = "cuesta.relu"(%0) : (tensor<2x4x4x4xbf16>) -> tensor<2x4x4x4xbf16>
  return %1 : tensor<2x4x4x4xbf16>
}

// The residual is wanted as the result lies; no bias is a null.
// CHECK-LABEL: func.func @residual
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x8x8xf32>, %[[W:.*]]: tensor<4x3x1x1xf32>, %[[Z:.*]]: tensor<2x4x8x8xf32>)
// CHECK-NEXT: %[[R:.*]] = "aten.call"(%[[X]], %[[W]], %[[Z]]) {args = "[\22%0\22, \22%1\22, \22%2\22, null, null, [1, 1], [0, 0], [1, 1], 1]",
// CHECK-SAME: operand_strides = {{\[\[}}192, 64, 8, 1], [3, 1, 1, 1], [256, 64, 8, 1]], overload = "aten.cudnn_convolution_add_relu.default"
// CHECK-NEXT: return %[[R]]
func.func @residual(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x1x1xf32>, %z: tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "full"} : (tensor<2x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x8x8xf32>
  %1 = "cuesta.add"(%z, %0) : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %2 = "cuesta.relu"(%1) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  return %2 : tensor<2x4x8x8xf32>
}

// Two convolutions: the second is the residual and hands over its bias, both before they are rounded.
// CHECK-LABEL: func.func @two_convolutions
// CHECK-SAME: (%{{.*}}: tensor<2x3x8x8xbf16>, %{{.*}}: tensor<4x3x1x1xbf16>, %[[B:.*]]: tensor<4xf32>, %[[C:.*]]: tensor<4xbf16>)
// CHECK: %[[Z:.*]] = "cuesta.convolution"(%{{.*}}, %{{.*}}) {
// CHECK-NEXT: %[[WIDE:.*]] = "cuesta.convert"(%[[C]])
// CHECK-NEXT: %[[SUM:.*]] = "cuesta.add"(%[[B]], %[[WIDE]]) : (tensor<4xf32>
// CHECK-NEXT: %[[BIAS:.*]] = "cuesta.convert"(%[[SUM]])
// CHECK-NEXT: "aten.call"(%{{.*}}, %{{.*}}, %[[Z]], %[[BIAS]]) {args = "[\22%0\22, \22%1\22, \22%2\22, null, \22%3\22,
// CHECK-NEXT: return
func.func @two_convolutions(%x: tensor<2x3x8x8xbf16>, %w: tensor<4x3x1x1xbf16>, %b: tensor<4xf32>, %c: tensor<4xbf16>) -> tensor<2x4x8x8xbf16> {
  %n = "cuesta.convert"(%b) : (tensor<4xf32>) -> tensor<4xbf16>
  %0 = "cuesta.convolution"(%x, %w, %n) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "full"} : (tensor<2x3x8x8xbf16>, tensor<4x3x1x1xbf16>, tensor<4xbf16>) -> tensor<2x4x8x8xbf16>
  %1 = "cuesta.convolution"(%x, %w, %c) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "full"} : (tensor<2x3x8x8xbf16>, tensor<4x3x1x1xbf16>, tensor<4xbf16>) -> tensor<2x4x8x8xbf16>
  %2 = "cuesta.add"(%0, %1) : (tensor<2x4x8x8xbf16>, tensor<2x4x8x8xbf16>) -> tensor<2x4x8x8xbf16>
  %3 = "cuesta.relu"(%2) : (tensor<2x4x8x8xbf16>) -> tensor<2x4x8x8xbf16>
  return %3 : tensor<2x4x8x8xbf16>
}

// CHECK-LABEL: func.func @grouped
// CHECK-SAME: cuesta.remarks = [{bytes = 4096 : i64, consumer = "relu", producer = "convolution", reason = "{{.*}}transposed and grouped {{.*}}"}]
// CHECK-NEXT: "cuesta.convolution"
// CHECK-NEXT: "cuesta.relu"
func.func @grouped(%x: tensor<2x4x8x8xf32>, %w: tensor<4x2x1x1xf32>) -> tensor<2x4x8x8xf32> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 2 : i64, cudnn = "full"} : (tensor<2x4x8x8xf32>, tensor<4x2x1x1xf32>) -> tensor<2x4x8x8xf32>
  %1 = "cuesta.relu"(%0) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  return %1 : tensor<2x4x8x8xf32>
}

// Row-major tensors are left to the kernels that take them, and so is what cuDNN does not compute.
// CHECK-LABEL: func.func @row_major
// CHECK-SAME: reason = "{{.*}}row-major
// CHECK-SAME: reason = "cuDNN does not compute
// CHECK-COUNT-2: "cuesta.relu"
func.func @row_major(%x: tensor<2x4x8x8xbf16>, %w: tensor<4x4x1x1xbf16>) -> tensor<2x4x8x8xbf16> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores", result_strides = [[256, 64, 8, 1]]} : (tensor<2x4x8x8xbf16>, tensor<4x4x1x1xbf16>) -> tensor<2x4x8x8xbf16>
  %1 = "cuesta.relu"(%0) : (tensor<2x4x8x8xbf16>) -> tensor<2x4x8x8xbf16>
  %2 = "cuesta.convolution"(%1, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64} : (tensor<2x4x8x8xbf16>, tensor<4x4x1x1xbf16>) -> tensor<2x4x8x8xbf16>
  %3 = "cuesta.relu"(%2) : (tensor<2x4x8x8xbf16>) -> tensor<2x4x8x8xbf16>
  return %3 : tensor<2x4x8x8xbf16>
}

// Somebody else reads the convolution, or the sum is of another shape.
// CHECK-LABEL: func.func @left_alone
// CHECK-NEXT: "cuesta.convolution"
// CHECK-NEXT: "cuesta.relu"
// CHECK-NEXT: "cuesta.convolution"
// CHECK-NEXT: "cuesta.add"
// CHECK-NEXT: "cuesta.relu"
func.func @left_alone(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x1x1xf32>, %z: tensor<4x1x1xf32>) -> (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "full"} : (tensor<2x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x8x8xf32>
  %1 = "cuesta.relu"(%0) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %2 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "full"} : (tensor<2x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x8x8xf32>
  %3 = "cuesta.add"(%2, %z) : (tensor<2x4x8x8xf32>, tensor<4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %4 = "cuesta.relu"(%3) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  return %0, %1, %4 : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>
}

}
