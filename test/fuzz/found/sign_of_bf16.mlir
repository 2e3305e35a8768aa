// RUN: cuesta-run --compare-reference --int-range=-5:6 %s

// bf16 has its sign from an f32, on its way to f16 as well: no f64 is rounded there.
module {
  func.func @graph(%arg0: tensor<33x2x70xbf16> {cuesta.strides = [146, 73, 1]}) -> (tensor<33x2x70xbf16> {cuesta.storage = 0 : i64, cuesta.strides = [146, 73, 1]}) attributes {cuesta.mutates = [0]} {
    %0 = "cuesta.tanh"(%arg0) : (tensor<33x2x70xbf16>) -> tensor<33x2x70xbf16>
    %1 = "cuesta.convert"(%0) : (tensor<33x2x70xbf16>) -> tensor<33x2x70xf16>
    %2 = "cuesta.convert"(%1) : (tensor<33x2x70xf16>) -> tensor<33x2x70xbf16>
    return %2 : tensor<33x2x70xbf16>
  }
}
