// RUN: cuesta-run --compare-reference --int-range=-5:6 %s

// MLIR folds the angle of two zeros that are constants to NaN: a padding's were.
module {
  func.func @graph(%arg0: tensor<16xf32> {cuesta.strides = [1]}) -> (tensor<32xf32> {cuesta.strides = [1]}) {
    %0 = "cuesta.constant"() {value = 0.000000e+00 : f64} : () -> tensor<16xf32>
    %1 = "cuesta.cat"(%0, %arg0) {dim = 0 : i64} : (tensor<16xf32>, tensor<16xf32>) -> tensor<32xf32>
    %2 = "cuesta.atan2"(%1, %1) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
    return %2 : tensor<32xf32>
  }
}
