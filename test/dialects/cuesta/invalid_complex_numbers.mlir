// RUN: cuesta-opt --split-input-file --verify-diagnostics %s

func.func @part_of_another_type(%z: tensor<3xcomplex<f32>>) {
  // expected-error@below {{got complex<f32> → f64}}
  %0 = "cuesta.real"(%z) : (tensor<3xcomplex<f32>>) -> tensor<3xf64>
  return
}

// -----

func.func @part_of_a_real_number(%x: tensor<3xf32>) {
  // expected-error@below {{got f32 → f32}}
  %0 = "cuesta.imag"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @parts_of_two_types(%x: tensor<3xf32>, %y: tensor<3xf64>) {
  // expected-error@below {{takes two floats of one type and gives the complex type of both, got f32, f64 → complex<f64>}}
  %0 = "cuesta.complex"(%x, %y) : (tensor<3xf32>, tensor<3xf64>) -> tensor<3xcomplex<f64>>
  return
}

// -----

func.func @parts_that_do_not_broadcast(%x: tensor<3xf32>, %y: tensor<4xf32>) {
  // expected-error@below {{operands do not broadcast}}
  %0 = "cuesta.complex"(%x, %y) : (tensor<3xf32>, tensor<4xf32>) -> tensor<3xcomplex<f32>>
  return
}

// -----

func.func @no_dim_for_the_parts(%z: tensor<3xcomplex<f32>>) {
  // expected-error@below {{gives [3, 2], but the result is [6]}}
  %0 = "cuesta.view_as_real"(%z) : (tensor<3xcomplex<f32>>) -> tensor<6xf32>
  return
}

// -----

func.func @three_parts(%x: tensor<4x3xf32>) {
  // expected-error@below {{needs a last dim of size 2, of a real and an imaginary part}}
  %0 = "cuesta.view_as_complex"(%x) : (tensor<4x3xf32>) -> tensor<4xcomplex<f32>>
  return
}

// -----

func.func @whole_numbers(%x: tensor<4x2xi32>) {
  // expected-error@below {{not complex<f32>}}
  %0 = "cuesta.view_as_complex"(%x) : (tensor<4x2xi32>) -> tensor<4xcomplex<f32>>
  return
}
