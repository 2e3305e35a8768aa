// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(choose-layouts)' %s | filecheck %s

// Convolutions, and pools behind them, in channels_last; a bias stays as it is.
// CHECK-LABEL: func.func @network
// CHECK: "cuesta.convolution"{{.*}}operand_strides = {{\[\[}}192, 1, 24, 3], [27, 1, 9, 3], [1]], {{.*}}result_strides = {{\[\[}}256, 1, 32, 4]]
// CHECK: "aten.call"{{.*}}operand_strides = {{\[\[}}256, 1, 32, 4]]{{.*}}result_strides = {{\[\[}}64, 1, 16, 4], [64, 1, 16, 4]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @network(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>, %s: tensor<4x1x1xf32>) -> tensor<2x4xf32> {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores", operand_strides = [[192, 64, 8, 1], [27, 9, 3, 1], [1]], result_strides = [[256, 64, 8, 1]]} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<2x4x8x8xf32>
  %1 = "cuesta.mul"(%s, %0) : (tensor<4x1x1xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %2 = "cuesta.relu"(%1) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %3:2 = "aten.call"(%2) {args = "[\22%0\22, [2, 2], [2, 2]]", overload = "aten.max_pool2d_with_indices.default", reason = "", operand_strides = [[256, 64, 8, 1]], result_strides = [[64, 16, 4, 1], [64, 16, 4, 1]]} : (tensor<2x4x8x8xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x4x4xi64>)
  %4 = "cuesta.sum"(%3#0) {dims = [2, 3], keepdim = 0 : i64} : (tensor<2x4x4x4xf32>) -> tensor<2x4xf32>
  return %4 : tensor<2x4xf32>
}
}

// CHECK: // -----
// -----

// A call that does not follow its operand's layout, and a pool that no convolution is before, stay as they were traced.
// CHECK-LABEL: func.func @others
// CHECK: "aten.call"{{.*}}operand_strides = {{\[\[}}256, 64, 8, 1]]
// CHECK: "aten.call"{{.*}}operand_strides = {{\[\[}}192, 64, 8, 1]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @others(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> (tensor<2x4xf32>, tensor<2x3xf32>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores", operand_strides = [[192, 64, 8, 1], [27, 9, 3, 1]], result_strides = [[256, 64, 8, 1]]} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
  %1 = "aten.call"(%0) {args = "[\22%0\22, 2]", overload = "aten.pixel_unshuffle.default", reason = "", operand_strides = [[256, 64, 8, 1]], result_strides = [[256, 16, 4, 1]]} : (tensor<2x4x8x8xf32>) -> tensor<2x16x4x4xf32>
  %2 = "cuesta.sum"(%0) {dims = [2, 3], keepdim = 0 : i64} : (tensor<2x4x8x8xf32>) -> tensor<2x4xf32>
  %3 = "aten.call"(%x) {args = "[\22%0\22, [2, 2], [2, 2]]", overload = "aten.avg_pool2d.default", reason = "", operand_strides = [[192, 64, 8, 1]], result_strides = [[48, 16, 4, 1]]} : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  %4 = "cuesta.sum"(%3) {dims = [2, 3], keepdim = 0 : i64} : (tensor<2x3x4x4xf32>) -> tensor<2x3xf32>
  return %2, %4 : tensor<2x4xf32>, tensor<2x3xf32>
}
}

// CHECK: // -----
// -----

// Full f32 is faster row-major; what a training step saves for its backward graph is wanted as it was traced; a
// depthwise convolution is in channels_last; one whose groups would have to be padded by too much is not.
// CHECK-LABEL: func.func @full
// CHECK: result_strides = {{\[\[}}256, 64, 8, 1]]
// CHECK-LABEL: func.func @saved
// CHECK: result_strides = {{\[\[}}256, 64, 8, 1]]
// CHECK-LABEL: func.func @depthwise
// CHECK: result_strides = {{\[\[}}256, 1, 32, 4]]
// CHECK-LABEL: func.func @wide_groups
// CHECK: result_strides = {{\[\[}}4608, 64, 8, 1]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @full(%x: tensor<2x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<2x4xf32> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "full", operand_strides = [[256, 64, 8, 1], [36, 9, 3, 1]], result_strides = [[256, 64, 8, 1]]} : (tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x8x8xf32>
  %1 = "cuesta.sum"(%0) {dims = [2, 3], keepdim = 0 : i64} : (tensor<2x4x8x8xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
func.func @saved(%x: tensor<2x4x8x8xbf16>, %w: tensor<4x4x3x3xbf16>) -> tensor<2x4x8x8xbf16> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores", operand_strides = [[256, 64, 8, 1], [36, 9, 3, 1]], result_strides = [[256, 64, 8, 1]]} : (tensor<2x4x8x8xbf16>, tensor<4x4x3x3xbf16>) -> tensor<2x4x8x8xbf16>
  return %0 : tensor<2x4x8x8xbf16>
}
func.func @depthwise(%x: tensor<2x4x8x8xbf16>, %w: tensor<4x1x3x3xbf16>) -> tensor<2x4xbf16> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 4 : i64, cudnn = "tensor_cores", operand_strides = [[256, 64, 8, 1], [9, 9, 3, 1]], result_strides = [[256, 64, 8, 1]]} : (tensor<2x4x8x8xbf16>, tensor<4x1x3x3xbf16>) -> tensor<2x4x8x8xbf16>
  %1 = "cuesta.sum"(%0) {dims = [2, 3], keepdim = 0 : i64} : (tensor<2x4x8x8xbf16>) -> tensor<2x4xbf16>
  return %1 : tensor<2x4xbf16>
}
func.func @wide_groups(%x: tensor<2x72x8x8xbf16>, %w: tensor<72x36x3x3xbf16>) -> tensor<2x72xbf16> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 2 : i64, cudnn = "tensor_cores", operand_strides = [[4608, 64, 8, 1], [324, 9, 3, 1]], result_strides = [[4608, 64, 8, 1]]} : (tensor<2x72x8x8xbf16>, tensor<72x36x3x3xbf16>) -> tensor<2x72x8x8xbf16>
  %1 = "cuesta.sum"(%0) {dims = [2, 3], keepdim = 0 : i64} : (tensor<2x72x8x8xbf16>) -> tensor<2x72xbf16>
  return %1 : tensor<2x72xbf16>
}
}

// CHECK: // -----
// -----

// Queries and keys that a training step saves have four dims, but no convolution reads or makes them: they are no images.
// CHECK-LABEL: func.func @saved_queries
// CHECK: result_strides = {{\[\[}}256, 1, 32, 4]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @saved_queries(%x: tensor<2x4x8x8xbf16>, %w: tensor<4x4x3x3xbf16>, %p: tensor<2x64x4xbf16>) -> (tensor<2x4x8x8xbf16> {cuesta.strides = [256, 1, 32, 4]}, tensor<2x2x32x4xbf16> {cuesta.strides = [256, 128, 4, 1]}, tensor<2x2x32x4xbf16> {cuesta.strides = [256, 128, 4, 1]}) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores", operand_strides = [[256, 64, 8, 1], [36, 9, 3, 1]], result_strides = [[256, 64, 8, 1]]} : (tensor<2x4x8x8xbf16>, tensor<4x4x3x3xbf16>) -> tensor<2x4x8x8xbf16>
  %1 = "cuesta.permute"(%0) {dims = [0, 2, 3, 1]} : (tensor<2x4x8x8xbf16>) -> tensor<2x8x8x4xbf16>
  %2 = "cuesta.reshape"(%1) : (tensor<2x8x8x4xbf16>) -> tensor<2x64x4xbf16>
  %3 = "cuesta.mul"(%2, %p) : (tensor<2x64x4xbf16>, tensor<2x64x4xbf16>) -> tensor<2x64x4xbf16>
  %4 = "cuesta.reshape"(%3) : (tensor<2x64x4xbf16>) -> tensor<2x2x32x4xbf16>
  %5 = "cuesta.add"(%2, %p) : (tensor<2x64x4xbf16>, tensor<2x64x4xbf16>) -> tensor<2x64x4xbf16>
  %6 = "cuesta.reshape"(%5) : (tensor<2x64x4xbf16>) -> tensor<2x2x32x4xbf16>
  return %0, %4, %6 : tensor<2x4x8x8xbf16>, tensor<2x2x32x4xbf16>, tensor<2x2x32x4xbf16>
}
}

// CHECK: // -----
// -----

// A batch, and images, of any size.
// CHECK-LABEL: func.func @symbolic
// CHECK: "cuesta.convolution"{{.*}}operand_strides = {{\[\[}}"3*s1*s1", 1, "3*s1", 3], [27, 1, 9, 3]], {{.*}}result_strides = {{\[\[}}"4*s1*s1", 1, "4*s1", 4]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @symbolic(%x: tensor<?x3x?x?xf32, ["s0", "s1", "s1"]>, %w: tensor<4x3x3x3xf32>) -> tensor<?x4xf32, ["s0"]> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores", operand_strides = [["3*s1*s1", "s1*s1", "s1", 1], [27, 9, 3, 1]], result_strides = [["4*s1*s1", "s1*s1", "s1", 1]]} : (tensor<?x3x?x?xf32, ["s0", "s1", "s1"]>, tensor<4x3x3x3xf32>) -> tensor<?x4x?x?xf32, ["s0", "s1", "s1"]>
  %1 = "cuesta.sum"(%0) {dims = [2, 3], keepdim = 0 : i64} : (tensor<?x4x?x?xf32, ["s0", "s1", "s1"]>) -> tensor<?x4xf32, ["s0"]>
  return %1 : tensor<?x4xf32, ["s0"]>
}
}

// CHECK: // -----
// -----

// On CPU each convolution has what moves less: images in channels_last, or a large weight as it is.
// CHECK-LABEL: func.func @on_cpu
// CHECK: "cuesta.convolution"{{.*}}result_strides = {{\[\[}}1024, 1, 64, 4]]
// CHECK: "cuesta.convolution"{{.*}}groups = 4 : i64{{.*}}result_strides = {{\[\[}}1024, 1, 64, 4]]
// CHECK: "cuesta.convolution"{{.*}}result_strides = {{\[\[}}256, 4, 2, 1]]
// CHECK: "cuesta.convolution"{{.*}}result_strides = {{\[\[}}256, 1, 128, 64]]
// CHECK-LABEL: func.func @by_another_library
// CHECK: result_strides = {{\[\[}}1024, 256, 16, 1]]
module {
func.func @on_cpu(%x: tensor<2x4x16x16xf32>, %w: tensor<4x4x3x3xf32>, %v: tensor<4x1x3x3xf32>, %y: tensor<2x64x2x2xf32>, %u: tensor<64x64x3x3xf32>, %p: tensor<64x64x1x1xf32>) -> (tensor<2x4xf32>, tensor<2x64xf32>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn, operand_strides = [[1024, 256, 16, 1], [36, 9, 3, 1]], result_strides = [[1024, 256, 16, 1]]} : (tensor<2x4x16x16xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x16x16xf32>
  %1 = "cuesta.convolution"(%0, %v) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 4 : i64, onednn, operand_strides = [[1024, 256, 16, 1], [9, 9, 3, 1]], result_strides = [[1024, 256, 16, 1]]} : (tensor<2x4x16x16xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x16x16xf32>
  %2 = "cuesta.convolution"(%y, %u) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn, operand_strides = [[256, 4, 2, 1], [576, 9, 3, 1]], result_strides = [[256, 4, 2, 1]]} : (tensor<2x64x2x2xf32>, tensor<64x64x3x3xf32>) -> tensor<2x64x2x2xf32>
  %3 = "cuesta.convolution"(%2, %p) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn, operand_strides = [[256, 4, 2, 1], [64, 1, 1, 1]], result_strides = [[256, 4, 2, 1]]} : (tensor<2x64x2x2xf32>, tensor<64x64x1x1xf32>) -> tensor<2x64x2x2xf32>
  %4 = "cuesta.sum"(%1) {dims = [2, 3], keepdim = 0 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4xf32>
  %5 = "cuesta.sum"(%3) {dims = [2, 3], keepdim = 0 : i64} : (tensor<2x64x2x2xf32>) -> tensor<2x64xf32>
  return %4, %5 : tensor<2x4xf32>, tensor<2x64xf32>
}
func.func @by_another_library(%x: tensor<2x4x16x16xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<2x4xf32> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, operand_strides = [[1024, 256, 16, 1], [36, 9, 3, 1]], result_strides = [[1024, 256, 16, 1]]} : (tensor<2x4x16x16xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x16x16xf32>
  %1 = "cuesta.sum"(%0) {dims = [2, 3], keepdim = 0 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
}

// CHECK: // -----
// -----

// What is saved for the other graph is returned as it is asked for: in channels_last, or row-major, where its
// convolution stays so. Gradients are computed in the layout in which their images come.
// CHECK-LABEL: func.func @forward
// CHECK: "cuesta.convolution"{{.*}}result_strides = {{\[\[}}1024, 1, 64, 4]]
// CHECK: "cuesta.convolution"{{.*}}result_strides = {{\[\[}}1024, 256, 16, 1]]
// CHECK-LABEL: func.func @backward
// CHECK: "aten.call"{{.*}}operand_strides = {{\[\[}}1024, 1, 64, 4], [1024, 1, 64, 4], [36, 1, 12, 4]], {{.*}}result_strides = {{\[\[}}1024, 1, 64, 4], [36, 1, 12, 4], [1]]
// CHECK: "aten.call"{{.*}}operand_strides = {{\[\[}}1024, 256, 16, 1], [1024, 256, 16, 1], [36, 9, 3, 1]]
module {
func.func @forward(%x: tensor<2x4x16x16xf32>, %w: tensor<4x4x3x3xf32>) -> (tensor<2x4x16x16xf32> {cuesta.strides = [1024, 1, 64, 4]}, tensor<2x4x16x16xf32> {cuesta.strides = [1024, 256, 16, 1]}) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn, operand_strides = [[1024, 256, 16, 1], [36, 9, 3, 1]], result_strides = [[1024, 256, 16, 1]]} : (tensor<2x4x16x16xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x16x16xf32>
  %1 = "cuesta.convolution"(%0, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn, operand_strides = [[1024, 256, 16, 1], [36, 9, 3, 1]], result_strides = [[1024, 256, 16, 1]]} : (tensor<2x4x16x16xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x16x16xf32>
  return %0, %1 : tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>
}
func.func @backward(%g: tensor<2x4x16x16xf32>, %x: tensor<2x4x16x16xf32> {cuesta.strides = [1024, 1, 64, 4]}, %y: tensor<2x4x16x16xf32> {cuesta.strides = [1024, 256, 16, 1]}, %w: tensor<4x4x3x3xf32>) -> (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) {
  %0:3 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [4], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, true]]", overload = "aten.convolution_backward.default", reason = "", operand_strides = [[1024, 256, 16, 1], [1024, 1, 64, 4], [36, 9, 3, 1]], result_strides = [[1024, 256, 16, 1], [36, 9, 3, 1], [1]]} : (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>, tensor<4x4x3x3xf32>) -> (tensor<2x4x16x16xf32>, tensor<4x4x3x3xf32>, tensor<4xf32>)
  %1:2 = "aten.call"(%g, %y, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [0], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, false]]", overload = "aten.convolution_backward.default", reason = "", operand_strides = [[1024, 256, 16, 1], [1024, 256, 16, 1], [36, 9, 3, 1]], result_strides = [[1024, 256, 16, 1], [36, 9, 3, 1]]} : (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>, tensor<4x4x3x3xf32>) -> (tensor<2x4x16x16xf32>, tensor<4x4x3x3xf32>)
  return %0#0, %1#0 : tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>
}
}

// CHECK: // -----
// -----

// What oneDNN has packed is multiplied in channels_last, whatever moves; a pool behind it follows.
// CHECK-LABEL: func.func @packed
// CHECK: "aten.call"{{.*}}operand_strides = {{\[\[}}64, 1, 8, 4], [1]], {{.*}}result_strides = {{\[\[}}64, 1, 8, 4]]
// CHECK: "aten.call"{{.*}}operand_strides = {{\[\[}}64, 1, 8, 4], [64, 1, 8, 4], [1]], {{.*}}result_strides = {{\[\[}}64, 1, 8, 4]]
// CHECK: "aten.call"{{.*}}operand_strides = {{\[\[}}64, 1, 8, 4]]{{.*}}result_strides = {{\[\[}}16, 1, 4, 4]]
module attributes {cuesta.target = "cpu", cuesta.device = "cpu"} {
func.func @packed(%x: tensor<1x4x8x2xf32>, %w: tensor<2xi64>) -> tensor<1x4xf32> {
  %0 = "aten.call"(%x, %w) {args = "[\22%0\22, \22%1\22, true, [4, 4, 3, 3], [1, 1], [1, 1], [1, 1], 1, {\22str\22: \22relu\22}, true]", overload = "cuesta.packed_convolution.default", reason = "", operand_strides = [[64, 16, 2, 1], [1]], result_strides = [[64, 16, 2, 1]]} : (tensor<1x4x8x2xf32>, tensor<2xi64>) -> tensor<1x4x8x2xf32>
  %1 = "aten.call"(%0, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, true, [4, 4, 3, 3], [1, 1], [1, 1], [1, 1], 1, {\22str\22: \22none\22}, true]", overload = "cuesta.packed_convolution_add.default", reason = "", operand_strides = [[64, 16, 2, 1], [64, 16, 2, 1], [1]], result_strides = [[64, 16, 2, 1]]} : (tensor<1x4x8x2xf32>, tensor<1x4x8x2xf32>, tensor<2xi64>) -> tensor<1x4x8x2xf32>
  %2 = "aten.call"(%1) {args = "[\22%0\22, [2, 2], [2, 2]]", overload = "aten.avg_pool2d.default", reason = "", operand_strides = [[64, 16, 2, 1]], result_strides = [[16, 4, 1, 1]]} : (tensor<1x4x8x2xf32>) -> tensor<1x4x4x1xf32>
  %3 = "cuesta.sum"(%2) {dims = [2, 3], keepdim = 0 : i64} : (tensor<1x4x4x1xf32>) -> tensor<1x4xf32>
  return %3 : tensor<1x4xf32>
}
}

// CHECK: // -----
// -----

// A training step saves the weights that it has converted, which are no images: its convolutions change their layout.
// CHECK-LABEL: func.func @saves_weights
// CHECK: "cuesta.convolution"{{.*}}result_strides = {{\[\[}}1024, 1, 64, 4]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @saves_weights(%x: tensor<2x4x16x16xbf16>, %w: tensor<4x4x3x3xf32>) -> (tensor<2x4x16x16xbf16> {cuesta.strides = [1024, 1, 64, 4]}, tensor<4x4x3x3xbf16> {cuesta.strides = [36, 9, 3, 1]}) {
  %0 = "cuesta.convert"(%w) : (tensor<4x4x3x3xf32>) -> tensor<4x4x3x3xbf16>
  %1 = "cuesta.convolution"(%x, %0) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores", operand_strides = [[1024, 256, 16, 1], [36, 9, 3, 1]], result_strides = [[1024, 256, 16, 1]]} : (tensor<2x4x16x16xbf16>, tensor<4x4x3x3xbf16>) -> tensor<2x4x16x16xbf16>
  return %1, %0 : tensor<2x4x16x16xbf16>, tensor<4x4x3x3xbf16>
}
}

// CHECK: // -----
// -----

// oneDNN writes out of bounds when it computes the weight's gradient of a strided 1x1 convolution of 3 channels in
// channels_last. Such a convolution stays row-major. Its gradient becomes row-major, even if the images are in
// channels_last. A convolution of 16 channels and its gradient are in channels_last.
// CHECK-LABEL: func.func @strided_pixels
// CHECK: "cuesta.convolution"{{.*}}operand_strides = {{\[\[}}192, 64, 8, 1], {{.*}}result_strides = {{\[\[}}64, 16, 4, 1]]
// CHECK: "cuesta.convolution"{{.*}}operand_strides = {{\[\[}}1024, 1, 128, 16], {{.*}}result_strides = {{\[\[}}64, 1, 16, 4]]
// CHECK: "aten.call"{{.*}}operand_strides = {{\[\[}}64, 16, 4, 1], [192, 64, 8, 1], [3, 1, 1, 1]], {{.*}}result_strides = {{\[\[}}3, 1, 1, 1]]
// CHECK: "aten.call"{{.*}}operand_strides = {{\[\[}}64, 1, 16, 4], [1024, 1, 128, 16], [16, 1, 16, 16]]
module attributes {cuesta.target = "cpu", cuesta.device = "cpu"} {
func.func @strided_pixels(%x: tensor<2x3x8x8xf32> {cuesta.strides = [192, 1, 24, 3]}, %w: tensor<4x3x1x1xf32>, %y: tensor<2x16x8x8xf32> {cuesta.strides = [1024, 1, 128, 16]}, %v: tensor<4x16x1x1xf32>, %g: tensor<2x4x4x4xf32> {cuesta.strides = [64, 1, 16, 4]}) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x3x1x1xf32>, tensor<4x16x1x1xf32>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [2, 2], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn, operand_strides = [[192, 64, 8, 1], [3, 1, 1, 1]], result_strides = [[64, 16, 4, 1]]} : (tensor<2x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x4x4xf32>
  %1 = "cuesta.convolution"(%y, %v) {stride = [2, 2], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn, operand_strides = [[1024, 64, 8, 1], [16, 1, 1, 1]], result_strides = [[64, 16, 4, 1]]} : (tensor<2x16x8x8xf32>, tensor<4x16x1x1xf32>) -> tensor<2x4x4x4xf32>
  %2 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [0], [2, 2], [0, 0], [1, 1], false, [0, 0], 1, [false, true, false]]", overload = "aten.convolution_backward.default", positions = [1], reason = "", operand_strides = [[64, 1, 16, 4], [192, 1, 24, 3], [3, 1, 1, 1]], result_strides = [[3, 1, 1, 1]]} : (tensor<2x4x4x4xf32>, tensor<2x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<4x3x1x1xf32>
  %3 = "aten.call"(%g, %y, %v) {args = "[\22%0\22, \22%1\22, \22%2\22, [0], [2, 2], [0, 0], [1, 1], false, [0, 0], 1, [false, true, false]]", overload = "aten.convolution_backward.default", positions = [1], reason = "", operand_strides = [[64, 1, 16, 4], [1024, 1, 128, 16], [16, 1, 1, 1]], result_strides = [[16, 1, 1, 1]]} : (tensor<2x4x4x4xf32>, tensor<2x16x8x8xf32>, tensor<4x16x1x1xf32>) -> tensor<4x16x1x1xf32>
  %4 = "cuesta.sum"(%0) {dims = [2, 3], keepdim = 0 : i64} : (tensor<2x4x4x4xf32>) -> tensor<2x4xf32>
  %5 = "cuesta.sum"(%1) {dims = [2, 3], keepdim = 0 : i64} : (tensor<2x4x4x4xf32>) -> tensor<2x4xf32>
  return %4, %5, %2, %3 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x3x1x1xf32>, tensor<4x16x1x1xf32>
}
}
