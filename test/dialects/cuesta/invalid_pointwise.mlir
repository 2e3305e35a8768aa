// RUN: cuesta-opt --split-input-file --verify-diagnostics %s

func.func @shapes_that_do_not_broadcast(%x0: tensor<4xf32>, %x1: tensor<3xf32>) {
  // expected-error@below {{'cuesta.add' op operand shapes [(4,), (3,)] do not broadcast}}
  %0 = "cuesta.add"(%x0, %x1) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @another_result_than_the_broadcast(%x0: tensor<4x1xf32>, %x1: tensor<3xf32>) {
  // expected-error@below {{operands broadcast to [4, 3], but the result is [4, 4]}}
  %0 = "cuesta.add"(%x0, %x1) : (tensor<4x1xf32>, tensor<3xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @operands_of_two_types(%x0: tensor<4xf32>, %x1: tensor<4xi64>) {
  // expected-error@below {{operands have the element types f32, i64; cuesta.convert makes them one}}
  %0 = "cuesta.mul"(%x0, %x1) : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @result_of_another_type(%x0: tensor<4xi64>) {
  // expected-error@below {{computes i64 from i64, but the result is f32}}
  %0 = "cuesta.neg"(%x0) : (tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @comparison_that_is_no_bool(%x0: tensor<4xf32>, %x1: tensor<4xf32>) {
  // expected-error@below {{computes i1 from f32, but the result is f32}}
  %0 = "cuesta.lt"(%x0, %x1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @condition_that_is_no_bool(%x0: tensor<4xf32>, %x1: tensor<4xf32>, %x2: tensor<4xf32>) {
  // expected-error@below {{takes i1 and two of the result's element type, got f32, f32, f32 → f32}}
  %0 = "cuesta.where"(%x0, %x1, %x2) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @conversion_that_changes_the_shape(%x0: tensor<4xf32>) {
  // expected-error@below {{operands broadcast to [4], but the result is [5]}}
  %0 = "cuesta.convert"(%x0) : (tensor<4xf32>) -> tensor<5xi64>
  return
}

// -----

func.func @lost_parameter(%x0: tensor<4xf32>) {
  // expected-error@below {{'cuesta.leaky_relu' op attribute "negative_slope" is expected but not provided}}
  %0 = "cuesta.leaky_relu"(%x0) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @too_few_operands(%x0: tensor<4xf32>) {
  // expected-error@below {{op expects exactly 2 operands, but got 1}}
  %0 = "cuesta.add"(%x0) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
