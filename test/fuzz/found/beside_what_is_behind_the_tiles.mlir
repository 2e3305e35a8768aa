// RUN: cuesta-run --compare-reference --int-range=-5:6 %s

// A kernel that reads what another has behind its tiles must not join it beside them.
module {
  func.func @graph(%arg0: tensor<bf16> {cuesta.strides = []}, %arg1: tensor<16x8x4x70xf32> {cuesta.strides = [0, 280, 70, 1]}) -> (tensor<16x8x4x70xi1> {cuesta.storage = 3 : i64, cuesta.strides = [2240, 280, 70, 1]}, tensor<i1> {cuesta.storage = 4 : i64, cuesta.strides = []}) {
    %0 = "cuesta.ge"(%arg0, %arg0) : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
    %1 = "cuesta.convert"(%arg1) : (tensor<16x8x4x70xf32>) -> tensor<16x8x4x70xi64>
    %2 = "cuesta.gather"(%arg1, %1) {dim = 3 : i64} : (tensor<16x8x4x70xf32>, tensor<16x8x4x70xi64>) -> tensor<16x8x4x70xf32>
    %3 = "cuesta.convert"(%2) : (tensor<16x8x4x70xf32>) -> tensor<16x8x4x70xi1>
    %4 = "cuesta.add"(%0, %3) : (tensor<i1>, tensor<16x8x4x70xi1>) -> tensor<16x8x4x70xi1>
    return %4, %0 : tensor<16x8x4x70xi1>, tensor<i1>
  }
}
