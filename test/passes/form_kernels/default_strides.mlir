// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels)' %s | filecheck %s

// A graph written by hand may leave out strides: they are row-major.
// CHECK-LABEL: func.func @graph(
// CHECK-SAME: %{{.*}}: memref<2x3xf32> {cuesta.strides = [3, 1]}) -> (memref<2x3xf32> {cuesta.strides = [3, 1]})
func.func @graph(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "cuesta.tanh"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
