// RUN: cuesta-run --compare-reference --int-range=-5:6 %s

// The f16 is stored as well: LLVM reads the sign from the f64, and rounds that to f16 by a function that nothing has.
module {
  func.func @graph(%arg0: tensor<1xf64> {cuesta.strides = [1]}) -> (tensor<1xf16> {cuesta.storage = 3 : i64, cuesta.strides = [1]}, tensor<1xf16> {cuesta.storage = 4 : i64, cuesta.strides = [1]}) {
    %0 = "cuesta.convert"(%arg0) : (tensor<1xf64>) -> tensor<1xf16>
    %1 = "cuesta.asin"(%0) : (tensor<1xf16>) -> tensor<1xf16>
    return %0, %1 : tensor<1xf16>, tensor<1xf16>
  }
}
