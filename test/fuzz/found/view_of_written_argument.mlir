// RUN: cuesta-run --compare-reference %s

// A result that views an argument holds what the argument held before the graph writes it.
func.func @graph(%x: tensor<16x4xf32> {cuesta.strides = [4, 1]})
    -> (tensor<2x4xf32> {cuesta.strides = [4, 1]}, tensor<16x4xf32> {cuesta.strides = [4, 1]})
    attributes {cuesta.mutates = [0]} {
  %0 = "cuesta.slice"(%x) {starts = [1, 0], steps = [3, 1]} : (tensor<16x4xf32>) -> tensor<2x4xf32>
  %1 = "cuesta.neg"(%x) : (tensor<16x4xf32>) -> tensor<16x4xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<16x4xf32>
}
