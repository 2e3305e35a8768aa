// RUN: cuesta-run --compare-reference --int-range=-5:6 %s

// A kernel's tail stands behind its tiles. Where it stood before them, each range of tiles ran it as well, and it writes
// its argument in place: softmax was applied twice. Found by the fuzzer.
module {
  func.func @graph(%arg0: tensor<16x1x1x33xbf16> {cuesta.strides = [1, 528, 528, 16]}, %arg1: tensor<3x3x16x5xf32> {cuesta.strides = [1, 240, 3, 48]}) -> (tensor<3x3x16x5xf32> {cuesta.storage = 2 : i64, cuesta.strides = [1, 240, 15, 3]}, tensor<16x1x1x33xbf16> {cuesta.storage = 0 : i64, cuesta.strides = [33, 33, 33, 1]}, tensor<3x3x16x5xf32> {cuesta.storage = 1 : i64, cuesta.strides = [1, 240, 3, 48]}) attributes {cuesta.mutates = [1]} {
    %0 = "cuesta.softmax"(%arg1) {dim = 1 : i64, safe = 1 : i64} : (tensor<3x3x16x5xf32>) -> tensor<3x3x16x5xf32>
    %1 = "cuesta.cos"(%arg1) : (tensor<3x3x16x5xf32>) -> tensor<3x3x16x5xf32>
    %2 = "cuesta.tanh"(%1) : (tensor<3x3x16x5xf32>) -> tensor<3x3x16x5xf32>
    %3 = "cuesta.constant"() {value = 1 : i64} : () -> tensor<3x1x16x5xi64>
    %4 = "cuesta.constant"() {value = 1.000000e+00 : f64} : () -> tensor<3x1x16x5xf32>
    %5 = "cuesta.constant"() {value = 0 : i64} : () -> tensor<i64>
    %6 = "cuesta.maximum"(%3, %5) : (tensor<3x1x16x5xi64>, tensor<i64>) -> tensor<3x1x16x5xi64>
    %7 = "cuesta.constant"() {value = 2 : i64} : () -> tensor<i64>
    %8 = "cuesta.minimum"(%6, %7) : (tensor<3x1x16x5xi64>, tensor<i64>) -> tensor<3x1x16x5xi64>
    %9 = "cuesta.scatter_one"(%0, %8, %4) {dim = 1 : i64} : (tensor<3x3x16x5xf32>, tensor<3x1x16x5xi64>, tensor<3x1x16x5xf32>) -> tensor<3x3x16x5xf32>
    return %9, %arg0, %0 : tensor<3x3x16x5xf32>, tensor<16x1x1x33xbf16>, tensor<3x3x16x5xf32>
  }
}
