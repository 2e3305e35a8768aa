// RUN: cuesta-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,halve-blocks{times=7},linalg-to-tt)' %s

// Seven rows do not divide into blocks of three: an error, not a sum that lacks a row.
module {
func.func @graph(%x: tensor<264x7x4x16xbf16> {cuesta.strides = [448, 64, 16, 1]}, %g: tensor<264x1x1x7x4x16xbf16> {cuesta.strides = [448, 448, 448, 64, 16, 1]}) -> (tensor<264x1x3x3x16xf32> {cuesta.strides = [144, 144, 48, 16, 1]}) {
  // expected-error@below {{3 windows at once, which does not divide all 7}}
  %0 = "cuesta.depthwise_weight"(%x, %g) {stride = [1, 1], padding = [1, 1], dilation = [1, 1]} : (tensor<264x7x4x16xbf16>, tensor<264x1x1x7x4x16xbf16>) -> tensor<264x1x3x3x16xf32>
  return %0 : tensor<264x1x3x3x16xf32>
}
}

// -----

// Where images' elements lie two apart, a thread has two columns and an even number of rows.
module {
func.func @graph(%x: tensor<1x2x2x2xf32> {cuesta.strides = [8, 4, 2, 1]}, %w: tensor<3x3x2xf32> {cuesta.strides = [6, 2, 1]}) -> (tensor<1x4x4x2xf32> {cuesta.strides = [32, 8, 2, 1]}) {
  // expected-error@below {{1 neighbouring windows, not a multiple of their spread 2}}
  %0 = "cuesta.depthwise"(%x, %w) {stride = [1, 1], padding = [-1, -1], dilation = [-1, -1], spread = [2, 2]} : (tensor<1x2x2x2xf32>, tensor<3x3x2xf32>) -> tensor<1x4x4x2xf32>
  return %0 : tensor<1x4x4x2xf32>
}
}
