// RUN: cuesta-opt --split-input-file --verify-diagnostics %s

func.func @dim_out_of_range(%x0: tensor<2x3xf32>) {
  // expected-error@below {{dims [2] must be distinct and within [0, 2)}}
  %0 = "cuesta.sum"(%x0) {dims = [2], keepdim = 0} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @dim_twice(%x0: tensor<2x3xf32>) {
  // expected-error@below {{dims [1, 1] must be distinct and within [0, 2)}}
  %0 = "cuesta.sum"(%x0) {dims = [1, 1], keepdim = 0} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @dim_that_should_be_kept(%x0: tensor<2x3xf32>) {
  // expected-error@below {{reduces to [2, 1], but the result is [2]}}
  %0 = "cuesta.amax"(%x0) {dims = [1], keepdim = 1} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @sum_in_another_type(%x0: tensor<2x3xf32>) {
  // expected-error@below {{keeps the element type f32, got f64}}
  %0 = "cuesta.sum"(%x0) {dims = [1], keepdim = 0} : (tensor<2x3xf32>) -> tensor<2xf64>
  return
}

// -----

func.func @position_along_no_dim(%x0: tensor<2x3xf32>) {
  // expected-error@below {{dim -1 is outside [0, 2)}}
  %0 = "cuesta.argmax"(%x0) {dim = -1} : (tensor<2x3xf32>) -> tensor<2xi64>
  return
}

// -----

func.func @position_as_a_float(%x0: tensor<2x3xf32>) {
  // expected-error@below {{gives positions as i64, not f32}}
  %0 = "cuesta.argmin"(%x0) {dim = 1} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @positions_of_another_shape(%x0: tensor<2x3xf32>) {
  // expected-error@below {{reduces to [2], but the result is [3]}}
  %0 = "cuesta.argmax"(%x0) {dim = 1} : (tensor<2x3xf32>) -> tensor<3xi64>
  return
}

// -----

func.func @running_sum_along_no_dim(%x0: tensor<2x3xf32>) {
  // expected-error@below {{dim 2 is outside [0, 2)}}
  %0 = "cuesta.cumsum"(%x0) {dim = 2} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @running_sum_of_another_shape(%x0: tensor<2x3xf32>) {
  // expected-error@below {{the result must have the operand's shape}}
  %0 = "cuesta.cumsum"(%x0) {dim = 1} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}
