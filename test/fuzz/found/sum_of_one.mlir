// RUN: cuesta-run --compare-reference %s

// A sum of a sum: the second is over a dim of size 1, which has no loop.
func.func @graph(%x: tensor<3xf32> {cuesta.strides = [1]}) -> (tensor<2x1xf32> {cuesta.strides = [1, 1]}) {
  %0 = "cuesta.tanh"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "cuesta.sum"(%0) {dims = [0], keepdim = 1 : i64} : (tensor<3xf32>) -> tensor<1xf32>
  %2 = "cuesta.sum"(%1) {dims = [0], keepdim = 1 : i64} : (tensor<1xf32>) -> tensor<1xf32>
  %3 = "cuesta.expand"(%2) : (tensor<1xf32>) -> tensor<2x1xf32>
  %4 = "cuesta.tanh"(%3) : (tensor<2x1xf32>) -> tensor<2x1xf32>
  return %4 : tensor<2x1xf32>
}
