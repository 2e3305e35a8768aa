// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,halve-blocks{times=4},linalg-to-tt)' %s | filecheck %s

// A smaller block has fewer channels, then fewer places of a window: here one row of places, of which it stores three.
// CHECK: "tt.reduce"(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}})
// CHECK-COUNT-3: "tt.store"
// CHECK-NOT: "tt.store"
module {
func.func @graph(%x: tensor<264x7x4x16xbf16> {cuesta.strides = [448, 64, 16, 1]}, %g: tensor<264x1x1x7x4x16xbf16> {cuesta.strides = [448, 448, 448, 64, 16, 1]}) -> (tensor<264x1x3x3x16xf32> {cuesta.strides = [144, 144, 48, 16, 1]}) {
  %0 = "cuesta.depthwise_weight"(%x, %g) {stride = [1, 1], padding = [1, 1], dilation = [1, 1]} : (tensor<264x7x4x16xbf16>, tensor<264x1x1x7x4x16xbf16>) -> tensor<264x1x3x3x16xf32>
  return %0 : tensor<264x1x3x3x16xf32>
}
}
