// RUN: cuesta-run --compare-reference --int-range=-5:6 %s

// `where(c, x, x)` is x, which is seen only when it was decided that tanh takes the place of x (seed 9802771).
module {
  func.func @graph(%arg0: tensor<f32> {cuesta.strides = []}, %arg1: tensor<i1> {cuesta.strides = []}) -> (tensor<1xf32> {cuesta.storage = 2 : i64, cuesta.strides = [1]}, tensor<f32> {cuesta.storage = 0 : i64, cuesta.strides = []}) attributes {cuesta.mutates = [0]} {
    %0 = "cuesta.where"(%arg1, %arg0, %arg0) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = "cuesta.minimum"(%arg0, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %2 = "cuesta.tanh"(%1) : (tensor<f32>) -> tensor<f32>
    %3 = "cuesta.reshape"(%0) : (tensor<f32>) -> tensor<1xf32>
    %4 = "cuesta.fmin"(%0, %3) : (tensor<f32>, tensor<1xf32>) -> tensor<1xf32>
    return %4, %2 : tensor<1xf32>, tensor<f32>
  }
}
