// RUN: cuesta-run --compare-reference --int-range=-5:6 %s

// A comparison of bf16 in vectors: an operand that is read across is transposed in registers.
module {
  func.func @graph(%arg0: tensor<bf16> {cuesta.strides = []}, %arg1: tensor<33x1x3x70xbf16> {cuesta.strides = [210, 210, 70, 1]}) -> (tensor<33x1x3x70xbf16> {cuesta.storage = 2 : i64, cuesta.strides = [1, 33, 2310, 33]}) {
    %0 = "cuesta.constant"() {value = 1.000000e+00 : f64} : () -> tensor<bf16>
    %1 = "cuesta.convert"(%arg1) : (tensor<33x1x3x70xbf16>) -> tensor<33x1x3x70xi1>
    %2 = "cuesta.where"(%1, %arg0, %0) : (tensor<33x1x3x70xi1>, tensor<bf16>, tensor<bf16>) -> tensor<33x1x3x70xbf16>
    return %2 : tensor<33x1x3x70xbf16>
  }
}
