// RUN: cuesta-opt --split-input-file --verify-diagnostics %s

func.func @no_power_of_two(%x: f32) {
  // expected-error@below {{has a block tensor<48xf32> whose dims are not all powers of two}}
  %0 = "tt.splat"(%x) : (f32) -> tensor<48xf32>
  return
}

// -----

func.func @too_large(%x: f32) {
  // expected-error@below {{tensor<2048x1024xf32> of 2097152 elements; Triton takes at most 1048576}}
  %0 = "tt.splat"(%x) : (f32) -> tensor<2048x1024xf32>
  return
}

// -----

func.func @too_many_operands(%x: f32) {
  // expected-error@below {{takes 1 operands, not 2}}
  %0 = "tt.splat"(%x, %x) : (f32, f32) -> tensor<64xf32>
  return
}

// -----

func.func @no_result(%x: f32) {
  // expected-error@below {{has 1 results, not 0}}
  "tt.splat"(%x) : (f32) -> ()
  return
}

// -----

func.func @empty_range() {
  // expected-error@below {{from 4 to 4 is empty}}
  %0 = "tt.make_range"() {start = 4 : i32, end = 4 : i32} : () -> tensor<1xi32>
  return
}

// -----

func.func @range_of_another_length() {
  // expected-error@below {{gives tensor<64xi32>, not tensor<32xi32>}}
  %0 = "tt.make_range"() {start = 0 : i32, end = 64 : i32} : () -> tensor<32xi32>
  return
}

// -----

func.func @range_without_end() {
  // expected-error@below {{lacks the attribute 'end'; it takes start, end}}
  %0 = "tt.make_range"() {start = 0 : i32} : () -> tensor<32xi32>
  return
}

// -----

func.func @fourth_axis() {
  // expected-error@below {{axis 3 is not within 0..2}}
  %0 = "tt.get_program_id"() {axis = 3 : i32} : () -> i32
  return
}

// -----

func.func @program_id_of_64_bits() {
  // expected-error@below {{gives i32, not i64}}
  %0 = "tt.get_program_id"() {axis = 0 : i32} : () -> i64
  return
}

// -----

func.func @splat_of_a_block(%x: tensor<64xf32>) {
  // expected-error@below {{copies a scalar, not tensor<64xf32>}}
  %0 = "tt.splat"(%x) : (tensor<64xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @splat_that_converts(%x: f32) {
  // expected-error@below {{gives tensor<64xf32>, not tensor<64xf16>}}
  %0 = "tt.splat"(%x) : (f32) -> tensor<64xf16>
  return
}

// -----

func.func @splat_to_a_scalar(%x: f32) {
  // expected-error@below {{makes a block, not f32}}
  %0 = "tt.splat"(%x) : (f32) -> f32
  return
}

// -----

func.func @unsplat_of_many(%x: tensor<64xf32>) {
  // expected-error@below {{takes a block of one element, not tensor<64xf32>}}
  %0 = "tt.unsplat"(%x) : (tensor<64xf32>) -> f32
  return
}

// -----

func.func @expand_two_dims(%x: tensor<64xf32>) {
  // expected-error@below {{gives tensor<64x1xf32>, not tensor<1x64x1xf32>}}
  %0 = "tt.expand_dims"(%x) {axis = 1 : i32} : (tensor<64xf32>) -> tensor<1x64x1xf32>
  return
}

// -----

func.func @expand_past_the_end(%x: tensor<64xf32>) {
  // expected-error@below {{axis 2 is not within 0..1}}
  %0 = "tt.expand_dims"(%x) {axis = 2 : i32} : (tensor<64xf32>) -> tensor<64x1xf32>
  return
}

// -----

func.func @expand_a_scalar(%x: f32) {
  // expected-error@below {{takes a block, not f32}}
  %0 = "tt.expand_dims"(%x) {axis = 0 : i32} : (f32) -> tensor<1xf32>
  return
}

// -----

func.func @stretch_of_more_than_one(%x: tensor<2x4xf32>) {
  // expected-error@below {{only stretches dims of size 1, but dim 0 goes from 2 to 8}}
  %0 = "tt.broadcast"(%x) : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @broadcast_of_another_rank(%x: tensor<4xf32>) {
  // expected-error@below {{keeps the number of dims, but goes from [4] to [8, 4]}}
  %0 = "tt.broadcast"(%x) : (tensor<4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @broadcast_that_converts(%x: tensor<1x4xf32>) {
  // expected-error@below {{gives tensor<8x4xf32>, not tensor<8x4xf16>}}
  %0 = "tt.broadcast"(%x) : (tensor<1x4xf32>) -> tensor<8x4xf16>
  return
}

// -----

func.func @elements_lost(%x: tensor<8x4xf32>) {
  // expected-error@below {{cannot reshape [8, 4] (32 elements) to [16] (16)}}
  %0 = "tt.reshape"(%x) : (tensor<8x4xf32>) -> tensor<16xf32>
  return
}

// -----

func.func @no_permutation(%x: tensor<8x4xf32>) {
  // expected-error@below {{order [1, 1] is not a permutation}}
  %0 = "tt.trans"(%x) {order = array<i32: 1, 1>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @permuted_to_another_shape(%x: tensor<8x4xf32>) {
  // expected-error@below {{gives tensor<4x8xf32>, not tensor<8x4xf32>}}
  %0 = "tt.trans"(%x) {order = array<i32: 1, 0>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @split_of_four(%x: tensor<8x4xf32>) {
  // expected-error@below {{takes a block whose last dim is 2, not tensor<8x4xf32>}}
  %0:2 = "tt.split"(%x) : (tensor<8x4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}
