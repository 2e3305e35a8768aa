// RUN: cuesta-opt --split-input-file --verify-diagnostics %s

func.func @elements_lost(%x0: tensor<2x3xf32>) {
  // expected-error@below {{cannot reshape [2, 3] (6 elements) to [5] (5)}}
  %0 = "cuesta.reshape"(%x0) : (tensor<2x3xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @view_that_converts(%x0: tensor<2x3xf32>) {
  // expected-error@below {{goes from f32 to f64}}
  %0 = "cuesta.reshape"(%x0) : (tensor<2x3xf32>) -> tensor<6xf64>
  return
}

// -----

func.func @no_permutation(%x0: tensor<2x3xf32>) {
  // expected-error@below {{dims [1, 1] are not a permutation}}
  %0 = "cuesta.permute"(%x0) {dims = [1, 1]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @permuted_to_another_shape(%x0: tensor<2x3xf32>) {
  // expected-error@below {{permutes to [3, 2], not [2, 3]}}
  %0 = "cuesta.permute"(%x0) {dims = [1, 0]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @stretch_of_more_than_one(%x0: tensor<2x3xf32>) {
  // expected-error@below {{[2, 3] does not expand to [4, 3]}}
  %0 = "cuesta.expand"(%x0) : (tensor<2x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @slice_of_too_few_entries(%x0: tensor<2x3xf32>) {
  // expected-error@below {{starts, steps and result need 2 entries, as the operand has dims}}
  %0 = "cuesta.slice"(%x0) {starts = [0], steps = [1]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @slice_past_the_end(%x0: tensor<2x3xf32>) {
  // expected-error@below {{dim 1: start 2, step 1, 2 elements leave [0, 3)}}
  %0 = "cuesta.slice"(%x0) {starts = [0, 2], steps = [1, 1]} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @unfold_past_the_end(%x0: tensor<2x3xf32>) {
  // expected-error@below {{2 windows of 2, 2 apart, leave [0, 3)}}
  %0 = "cuesta.unfold"(%x0) {dim = 1, step = 2} : (tensor<2x3xf32>) -> tensor<2x2x2xf32>
  return
}

// -----

func.func @unfold_of_no_dim(%x0: tensor<2x3xf32>) {
  // expected-error@below {{does not unfold to [2, 3, 1]}}
  %0 = "cuesta.unfold"(%x0) {dim = 2, step = 1} : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  return
}

// -----

func.func @unfold_of_other_sizes(%x0: tensor<2x3xf32>) {
  // expected-error@below {{[2, 3] unfolds along dim 1 only}}
  %0 = "cuesta.unfold"(%x0) {dim = 1, step = 1} : (tensor<2x3xf32>) -> tensor<1x2x2xf32>
  return
}

// -----

func.func @slice_backwards(%x0: tensor<2x3xf32>) {
  // expected-error@below {{dim 1: start 2, step -1, 3 elements leave [0, 3)}}
  %0 = "cuesta.slice"(%x0) {starts = [0, 2], steps = [1, -1]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @cat_along_no_dim(%x0: tensor<2x3xf32>, %x1: tensor<2x3xf32>) {
  // expected-error@below {{dim 2 is outside [0, 2)}}
  %0 = "cuesta.cat"(%x0, %x1) {dim = 2} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @cat_of_other_widths(%x0: tensor<2x3xf32>, %x1: tensor<2x4xf32>) {
  // expected-error@below {{operand [2, 4] does not fit [4, 3] outside dim 0}}
  %0 = "cuesta.cat"(%x0, %x1) {dim = 0} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @cat_that_does_not_add_up(%x0: tensor<2x3xf32>, %x1: tensor<2x3xf32>) {
  // expected-error@below {{sizes along dim 0 add to 4, the result has 5}}
  %0 = "cuesta.cat"(%x0, %x1) {dim = 0} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<5x3xf32>
  return
}

// -----

func.func @flip_of_no_dim(%x0: tensor<2x3xf32>) {
  // expected-error@below {{dims [2] must be distinct and within [0, 2)}}
  %0 = "cuesta.flip"(%x0) {dims = [2]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @flip_to_another_shape(%x0: tensor<2x3xf32>) {
  // expected-error@below {{the result must have the operand's type}}
  %0 = "cuesta.flip"(%x0) {dims = [0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @copy_with_too_few_strides(%x0: tensor<2x3xf32>) {
  // expected-error@below {{strides need 2 entries, as the operand has dims}}
  %0 = "cuesta.copy"(%x0) {strides = [1]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @range_in_a_matrix() {
  // expected-error@below {{gives a vector, not a tensor of 2 dims}}
  %0 = "cuesta.iota"() {start = 0, step = 1} : () -> tensor<2x3xi64>
  return
}
