// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(widen-convolutions)' %s | filecheck %s

// Every list of the convolution gets an entry for the dim of size 1, and so do the strides; the bias has none.
// CHECK-LABEL: func.func @one_dim
// CHECK: %[[X:.*]] = "cuesta.reshape"(%{{.*}}) : (tensor<2x4x9xbf16>) -> tensor<2x4x1x9xbf16>
// CHECK: %[[W:.*]] = "cuesta.reshape"(%{{.*}}) : (tensor<6x2x3xbf16>) -> tensor<6x2x1x3xbf16>
// CHECK: %[[Y:.*]] = "cuesta.convolution"(%[[X]], %[[W]], %{{.*}}) {cudnn = "tensor_cores", dilation = [1, 1], groups = 2 : i64, {{.*}}operand_strides = {{\[\[}}36, 9, 9, 1], [6, 3, 3, 1], [1]], output_padding = [0, 0], padding = [0, 1], result_strides = {{\[\[}}30, 5, 5, 1]], stride = [1, 2], transposed = 0 : i64}
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[Y]]) : (tensor<2x6x1x5xbf16>) -> tensor<2x6x5xbf16>
// CHECK: return %[[R]]
// Full f32, which stays row-major, and two dims.
// CHECK-LABEL: func.func @others
// CHECK-NOT: cuesta.reshape
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @one_dim(%x: tensor<2x4x9xbf16>, %w: tensor<6x2x3xbf16>, %b: tensor<6xbf16>) -> tensor<2x6x5xbf16> {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [2], padding = [1], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 2 : i64, cudnn = "tensor_cores", operand_strides = [[36, 9, 1], [6, 3, 1], [1]], result_strides = [[30, 5, 1]]} : (tensor<2x4x9xbf16>, tensor<6x2x3xbf16>, tensor<6xbf16>) -> tensor<2x6x5xbf16>
  return %0 : tensor<2x6x5xbf16>
}
func.func @others(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %y: tensor<2x4x9x9xbf16>, %v: tensor<6x4x3x3xbf16>) -> (tensor<2x6x7xf32>, tensor<2x6x7x7xbf16>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 1 : i64, cudnn = "full", operand_strides = [[36, 9, 1], [12, 3, 1]], result_strides = [[42, 7, 1]]} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
  %1 = "cuesta.convolution"(%y, %v) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores", operand_strides = [[324, 81, 9, 1], [36, 9, 3, 1]], result_strides = [[294, 49, 7, 1]]} : (tensor<2x4x9x9xbf16>, tensor<6x4x3x3xbf16>) -> tensor<2x6x7x7xbf16>
  return %0, %1 : tensor<2x6x7xf32>, tensor<2x6x7x7xbf16>
}
}

// CHECK: // -----
// -----

// oneDNN's as well, in f32 too, unless the result is returned, whose layout is asked for, or the weight is large.
// CHECK-LABEL: func.func @by_onednn
// CHECK: "cuesta.convolution"{{.*}}onednn, {{.*}}operand_strides = {{\[\[}}36, 9, 9, 1], [12, 3, 3, 1]]{{.*}} : (tensor<2x4x1x9xf32>, tensor<6x4x1x3xf32>) -> tensor<2x6x1x7xf32>
// CHECK: "cuesta.convolution"{{.*}} : (tensor<2x6x7xf32>, tensor<6x6x3xf32>) -> tensor<2x6x5xf32>
// CHECK: "cuesta.convolution"{{.*}} : (tensor<2x6x7xf32>, tensor<6x6x7xf32>) -> tensor<2x6x1xf32>
module attributes {cuesta.target = "cpu"} {
func.func @by_onednn(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %v: tensor<6x6x3xf32>, %u: tensor<6x6x7xf32>) -> (tensor<2x6x5xf32>, tensor<2x6x1xf32>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 1 : i64, onednn, operand_strides = [[36, 9, 1], [12, 3, 1]], result_strides = [[42, 7, 1]]} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
  %1 = "cuesta.relu"(%0) : (tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  %2 = "cuesta.convolution"(%1, %v) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 1 : i64, onednn, operand_strides = [[42, 7, 1], [18, 3, 1]], result_strides = [[30, 5, 1]]} : (tensor<2x6x7xf32>, tensor<6x6x3xf32>) -> tensor<2x6x5xf32>
  %3 = "cuesta.convolution"(%1, %u) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 1 : i64, onednn, operand_strides = [[42, 7, 1], [42, 7, 1]], result_strides = [[6, 1, 1]]} : (tensor<2x6x7xf32>, tensor<6x6x7xf32>) -> tensor<2x6x1xf32>
  %4 = "cuesta.relu"(%3) : (tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  return %2, %4 : tensor<2x6x5xf32>, tensor<2x6x1xf32>
}
}
