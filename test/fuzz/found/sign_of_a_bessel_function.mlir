// RUN: cuesta-run --compare-reference %s

// ATen's I1 of -0 is 0.
func.func @graph(%x: tensor<35xf32> {cuesta.strides = [1]}) -> (tensor<35xi1> {cuesta.strides = [1]}) {
  %0 = "cuesta.sub"(%x, %x) : (tensor<35xf32>, tensor<35xf32>) -> tensor<35xf32>
  %1 = "cuesta.neg"(%0) : (tensor<35xf32>) -> tensor<35xf32>
  %2 = "cuesta.special_i1"(%1) : (tensor<35xf32>) -> tensor<35xf32>
  %3 = "cuesta.signbit"(%2) : (tensor<35xf32>) -> tensor<35xi1>
  return %3 : tensor<35xi1>
}
