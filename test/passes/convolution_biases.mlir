// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(convolution-biases)' %s | filecheck %s

// The bias is added behind cuDNN's convolution, and its gradient summed beside the call for the others.
// CHECK-LABEL: func.func @both
// CHECK-SAME: (%[[X:[^:]*]]: tensor<2x3x8xbf16>, %[[W:[^:]*]]: tensor<4x3x3xbf16>, %[[B:[^:]*]]: tensor<4xbf16>, %[[G:[^:]*]]: tensor<2x4x6xbf16>)
// CHECK: %[[SUM:.*]] = "cuesta.convolution"(%[[X]], %[[W]]){{.*}}result_strides = {{\[\[}}24, 6, 1]]
// CHECK: %[[ALONG:.*]] = "cuesta.reshape"(%[[B]]) : (tensor<4xbf16>) -> tensor<1x4x1xbf16>
// CHECK: %[[Y:.*]] = "cuesta.add"(%[[SUM]], %[[ALONG]])
// CHECK: %[[DB:.*]] = "cuesta.sum"(%[[G]]) {dims = [0, 2], keepdim = 0 : i64}
// CHECK: %[[DW:.*]] = "aten.call"{{.*}}[false, true, false]{{.*}}positions = [1]
// CHECK: return %[[Y]], %[[DW]], %[[DB]]
// Without cuDNN the bias is the library's.
// CHECK-LABEL: func.func @elsewhere
// CHECK: "cuesta.convolution"(%{{.*}}, %{{.*}}, %{{.*}})
// CHECK-NOT: cuesta.add
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @both(%x: tensor<2x3x8xbf16>, %w: tensor<4x3x3xbf16>, %b: tensor<4xbf16>, %g: tensor<2x4x6xbf16>) -> (tensor<2x4x6xbf16>, tensor<4x3x3xbf16>, tensor<4xbf16>) {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 1 : i64, cudnn = "tensor_cores", result_strides = [[24, 6, 1]]} : (tensor<2x3x8xbf16>, tensor<4x3x3xbf16>, tensor<4xbf16>) -> tensor<2x4x6xbf16>
  %1:2 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [4], [1], [0], [1], false, [0], 1, [false, true, true]]", overload = "aten.convolution_backward.default", positions = [1, 2], reason = "", result_strides = [[9, 3, 1], [1]]} : (tensor<2x4x6xbf16>, tensor<2x3x8xbf16>, tensor<4x3x3xbf16>) -> (tensor<4x3x3xbf16>, tensor<4xbf16>)
  return %0, %1#0, %1#1 : tensor<2x4x6xbf16>, tensor<4x3x3xbf16>, tensor<4xbf16>
}
func.func @elsewhere(%x: tensor<2x3x8xf64>, %w: tensor<4x3x3xf64>, %b: tensor<4xf64>) -> tensor<2x4x6xf64> {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 1 : i64} : (tensor<2x3x8xf64>, tensor<4x3x3xf64>, tensor<4xf64>) -> tensor<2x4x6xf64>
  return %0 : tensor<2x4x6xf64>
}
}
