// RUN: cuesta-run --compare-reference %s

// LLVM could not select the copies of bf16 that it had vectorised, and ended the process.
func.func @graph(%x: tensor<8x4xbf16> {cuesta.strides = [4, 1]}) -> (tensor<8x5xbf16> {cuesta.strides = [5, 1]}) {
  %0 = "cuesta.constant"() {value = 1.000000e+00 : f64} : () -> tensor<8x1xbf16>
  %1 = "cuesta.cat"(%x, %0) {dim = 1 : i64} : (tensor<8x4xbf16>, tensor<8x1xbf16>) -> tensor<8x5xbf16>
  return %1 : tensor<8x5xbf16>
}
