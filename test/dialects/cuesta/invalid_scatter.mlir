// RUN: cuesta-opt --split-input-file --verify-diagnostics %s

func.func @unknown_way(%x: tensor<4xf32>, %v: tensor<3xf32>, %i: tensor<3xi64>) {
  // expected-error@below {{combine is one of set, add, mul, max, min, not sum}}
  %0 = "cuesta.scatter"(%x, %v, %i) {walks = [-1], combine = "sum"} : (tensor<4xf32>, tensor<3xf32>, tensor<3xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @a_dim_that_nothing_walks(%x: tensor<4x5xf32>, %v: tensor<3x5xf32>, %i: tensor<3x5xi64>) {
  // expected-error@below {{walks has 1 entries for 2 dims}}
  %0 = "cuesta.scatter"(%x, %v, %i) {walks = [-1], combine = "set"} : (tensor<4x5xf32>, tensor<3x5xf32>, tensor<3x5xi64>) -> tensor<4x5xf32>
  return
}

// -----

func.func @an_index_twice(%x: tensor<4x5xf32>, %v: tensor<3xf32>, %i: tensor<3xi64>) {
  // expected-error@below {{walks [-1, -1] must name each of 1 indices once}}
  %0 = "cuesta.scatter"(%x, %v, %i) {walks = [-1, -1], combine = "set"} : (tensor<4x5xf32>, tensor<3xf32>, tensor<3xi64>) -> tensor<4x5xf32>
  return
}

// -----

func.func @a_dim_of_another_size(%x: tensor<4x5xf32>, %v: tensor<3x6xf32>, %i: tensor<3x6xi64>) {
  // expected-error@below {{dim 1 has size 5, and the value's dim along it 6}}
  %0 = "cuesta.scatter"(%x, %v, %i) {walks = [-1, 1], combine = "set"} : (tensor<4x5xf32>, tensor<3x6xf32>, tensor<3x6xi64>) -> tensor<4x5xf32>
  return
}

// -----

func.func @an_index_of_another_shape(%x: tensor<4x5xf32>, %v: tensor<3x5xf32>, %i: tensor<3x1xi64>) {
  // expected-error@below {{the indices must have the shape [3, 5] of what is written}}
  %0 = "cuesta.scatter"(%x, %v, %i) {walks = [-1, 1], combine = "set"} : (tensor<4x5xf32>, tensor<3x5xf32>, tensor<3x1xi64>) -> tensor<4x5xf32>
  return
}

// -----

func.func @another_type(%x: tensor<4xf32>, %v: tensor<3xf64>, %i: tensor<3xi64>) {
  // expected-error@below {{writes f64 into f32}}
  %0 = "cuesta.scatter"(%x, %v, %i) {walks = [-1], combine = "set"} : (tensor<4xf32>, tensor<3xf64>, tensor<3xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @no_index(%x: tensor<4xf32>, %v: tensor<3xf32>, %i: tensor<3xf32>) {
  // expected-error@below {{the indices must be i32 or i64}}
  %0 = "cuesta.scatter"(%x, %v, %i) {walks = [-1], combine = "set"} : (tensor<4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}
