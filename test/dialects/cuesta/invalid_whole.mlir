// RUN: cuesta-opt --split-input-file --verify-diagnostics %s

func.func @dims_that_fall(%x0: tensor<4x5xf32>, %x1: tensor<2xi64>, %x2: tensor<2xi64>) {
  // expected-error@below {{dims [1, 0] must rise within [0, 2), one for each of 2 indices}}
  %0 = "cuesta.index"(%x0, %x1, %x2) {dims = [1, 0]} : (tensor<4x5xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @indices_of_two_types(%x0: tensor<4x5xf32>, %x1: tensor<2xi64>, %x2: tensor<3xi64>) {
  // expected-error@below {{expected 'tensor<2xi64>' but got 'tensor<3xi64>'}}
  %0 = "cuesta.index"(%x0, %x1, %x2) {dims = [0, 1]} : (tensor<4x5xf32>, tensor<2xi64>, tensor<3xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @selects_another_shape(%x0: tensor<4x5xf32>, %x1: tensor<2xi64>) {
  // expected-error@below {{selects [2, 5], but the result is [5, 2]}}
  %0 = "cuesta.index"(%x0, %x1) {dims = [0]} : (tensor<4x5xf32>, tensor<2xi64>) -> tensor<5x2xf32>
  return
}

// -----

func.func @gather_along_no_dim(%x0: tensor<4x5xf32>, %x1: tensor<4x2xi64>) {
  // expected-error@below {{dim 2 is outside [0, 2)}}
  %0 = "cuesta.gather"(%x0, %x1) {dim = 2} : (tensor<4x5xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  return
}

// -----

func.func @gather_of_another_shape(%x0: tensor<4x5xf32>, %x1: tensor<4x2xi64>) {
  // expected-error@below {{the index is [4, 2], but the result is [4, 5]}}
  %0 = "cuesta.gather"(%x0, %x1) {dim = 1} : (tensor<4x5xf32>, tensor<4x2xi64>) -> tensor<4x5xf32>
  return
}

// -----

func.func @gather_beyond_the_rows(%x0: tensor<4x5xf32>, %x1: tensor<6x2xi64>) {
  // expected-error@below {{the index [6, 2] is larger than [4, 5] outside dim 1}}
  %0 = "cuesta.gather"(%x0, %x1) {dim = 1} : (tensor<4x5xf32>, tensor<6x2xi64>) -> tensor<6x2xf32>
  return
}

// -----

func.func @inner_sizes_that_differ(%x0: tensor<4x5xf32>, %x1: tensor<6x3xf32>) {
  // expected-error@below {{[4, 5] and [6, 3] do not multiply}}
  %0 = "cuesta.mm"(%x0, %x1) : (tensor<4x5xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @product_of_another_shape(%x0: tensor<4x5xf32>, %x1: tensor<5x3xf32>) {
  // expected-error@below {{multiplies to [4, 3], but the result is [4, 4]}}
  %0 = "cuesta.mm"(%x0, %x1) : (tensor<4x5xf32>, tensor<5x3xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @channels_that_differ(%x0: tensor<1x4x8x8xf32>, %x1: tensor<6x3x1x1xf32>) {
  // expected-error@below {{x has 4 channels, the weight [6, 3, 1, 1] with groups 1 takes 3}}
  %0 = "cuesta.convolution"(%x0, %x1) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0, output_padding = [0, 0], groups = 1} : (tensor<1x4x8x8xf32>, tensor<6x3x1x1xf32>) -> tensor<1x6x8x8xf32>
  return
}

// -----

func.func @depthwise_of_other_channels(%x0: tensor<1x8x8x4xf32>, %x1: tensor<3x3x6xf32>) {
  // expected-error@below {{x [1, 8, 8, 4] and the weight [3, 3, 6] do not make [1, 6, 6, 4]}}
  %0 = "cuesta.depthwise"(%x0, %x1) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], spread = [1, 1]} : (tensor<1x8x8x4xf32>, tensor<3x3x6xf32>) -> tensor<1x6x6x4xf32>
  return
}

// -----

func.func @depthwise_as_torch_has_it(%x0: tensor<1x4x8x8xf32>, %x1: tensor<4x1x3x3xf32>) {
  // expected-error@below {{takes x [N, H, W, C] and a weight [h, w, C], not [1, 4, 8, 8] and [4, 1, 3, 3]}}
  %0 = "cuesta.depthwise"(%x0, %x1) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], spread = [1, 1]} : (tensor<1x4x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x6x6xf32>
  return
}

// -----

func.func @depthwise_in_one_direction(%x0: tensor<1x8x8x4xf32>, %x1: tensor<3x3x4xf32>) {
  // expected-error@below {{stride, padding, dilation and spread have two numbers each}}
  %0 = "cuesta.depthwise"(%x0, %x1) {stride = [1], padding = [0, 0], dilation = [1, 1], spread = [1, 1]} : (tensor<1x8x8x4xf32>, tensor<3x3x4xf32>) -> tensor<1x6x6x4xf32>
  return
}

// -----

func.func @depthwise_weight_of_other_samples(%x0: tensor<4x8x8x4xf32>, %x1: tensor<3x1x2x3x6x4xf32>) {
  // expected-error@below {{x [4, 8, 8, 4] and the gradient [3, 1, 2, 3, 6, 4] do not make [3, 2, 3, 3, 4]}}
  %0 = "cuesta.depthwise_weight"(%x0, %x1) {stride = [1, 1], padding = [0, 0], dilation = [1, 1]} : (tensor<4x8x8x4xf32>, tensor<3x1x2x3x6x4xf32>) -> tensor<3x2x3x3x4xf32>
  return
}

// -----

func.func @depthwise_weight_not_in_parts(%x0: tensor<4x8x8x4xf32>, %x1: tensor<4x6x6x4xf32>) {
  // expected-error@below {{takes x [N, H, W, C] and a gradient [P, M, Q, S, J, C], not [4, 8, 8, 4] and [4, 6, 6, 4]}}
  %0 = "cuesta.depthwise_weight"(%x0, %x1) {stride = [1, 1], padding = [0, 0], dilation = [1, 1]} : (tensor<4x8x8x4xf32>, tensor<4x6x6x4xf32>) -> tensor<4x1x3x3x4xf32>
  return
}

// -----

func.func @softmax_along_no_dim(%x0: tensor<2x3xf32>) {
  // expected-error@below {{dim 2 is outside [0, 2)}}
  %0 = "cuesta.softmax"(%x0) {dim = 2, safe = 0} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @softmax_of_another_shape(%x0: tensor<2x3xf32>) {
  // expected-error@below {{the result must have the operand's shape}}
  %0 = "cuesta.log_softmax"(%x0) {dim = 1} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @norm_over_no_dims(%x0: tensor<2x3xf32>, %x1: tensor<3xf32>, %x2: tensor<3xf32>) {
  // expected-error@below {{rank 0 is outside [1, 2]}}
  %0:3 = "cuesta.layer_norm"(%x0, %x1, %x2) {rank = 0, eps = 1.0e-5} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
  return
}

// -----

func.func @weight_of_another_shape(%x0: tensor<2x3xf32>, %x1: tensor<2xf32>, %x2: tensor<3xf32>) {
  // expected-error@below {{weight and bias must have the shape [3]}}
  %0:3 = "cuesta.layer_norm"(%x0, %x1, %x2) {rank = 1, eps = 1.0e-5} : (tensor<2x3xf32>, tensor<2xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
  return
}

// -----

func.func @heads_that_do_not_fit(%x0: tensor<1x2x3x4xf32>, %x1: tensor<1x2x5x8xf32>, %x2: tensor<1x2x5x4xf32>) {
  // expected-error@below {{q [1, 2, 3, 4], k [1, 2, 5, 8] and v [1, 2, 5, 4] do not fit}}
  %0:2 = "cuesta.attention"(%x0, %x1, %x2) {scale = 1.0, causal = 0} : (tensor<1x2x3x4xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  return
}

// -----

func.func @heads_that_do_not_divide(%x0: tensor<1x3x4x8xf32>, %x1: tensor<1x2x5x8xf32>) {
  // expected-error@below {{where Hkv divides H}}
  %0:2 = "cuesta.attention"(%x0, %x1, %x1) {scale = 1.0, causal = 0} : (tensor<1x3x4x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) -> (tensor<1x3x4x8xf32>, tensor<1x3x4xf32>)
  return
}

// -----

func.func @no_route(%x: tensor<1x2x4x8xf32>) {
  // expected-error@below {{route "fast" is not one of cudnn}}
  %0:2 = "cuesta.attention"(%x, %x, %x) {scale = 1.0, causal = 0, route = "fast"} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @all_weights_dropped(%x: tensor<1x2x4x8xf32>) {
  // expected-error@below {{p is 1.0; want 0 ≤ p < 1}}
  %0:4 = "cuesta.dropout_attention"(%x, %x, %x) {scale = 1.0, causal = 0, p = 1.0} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>, tensor<i64>, tensor<i64>)
  return
}

// -----

func.func @no_probability(%x0: tensor<4xf32>) {
  // expected-error@below {{p is 1.5; a probability lies within [0, 1]}}
  %0:2 = "cuesta.dropout"(%x0) {p = 1.5} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  return
}

// -----

func.func @check_that_stumbles(%x0: tensor<4xf32>, %x1: tensor<4xf32>) {
  // expected-error@below {{'cuesta.convolution' op is malformed: IndexError}}
  %0 = "cuesta.convolution"(%x0, %x1) {stride = [1], padding = [0], dilation = [1], transposed = 0, output_padding = [0], groups = 1} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @no_such_overload(%x0: tensor<4xf32>) {
  // expected-error@below {{torch has no overload 'aten.sorted.default'; write it as namespace.op.overload}}
  %0 = "aten.call"(%x0) {overload = "aten.sorted.default", args = "[]", reason = "-"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @arguments_that_are_no_json(%x0: tensor<4xf32>) {
  // expected-error@below {{call of 1 operands}}
  %0 = "aten.call"(%x0) {overload = "aten.relu.default", args = "[", reason = "-"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @operand_that_is_not_there(%x0: tensor<4xf32>) {
  // expected-error@below {{call of 1 operands}}
  %0 = "aten.call"(%x0) {overload = "aten.relu.default", args = "[\"%1\"]", reason = "-"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @reason_that_is_no_text(%x0: tensor<4xf32>) {
  // expected-error@below {{attribute 'reason' must be of StringAttr, got 7}}
  %0 = "aten.call"(%x0) {overload = "aten.relu.default", args = "[]", reason = 7} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @window_of_another_rank(%x0: tensor<4x5xf32>) {
  // expected-error@below {{starts, steps, divisors and result need 2 entries, as the operand has dims}}
  %0 = "cuesta.window"(%x0) {starts = [0], steps = [1], divisors = [1], outside = 0.0 : f64} : (tensor<4x5xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @window_divided_by_nothing(%x0: tensor<4xf32>) {
  // expected-error@below {{divisors [0] must be positive}}
  %0 = "cuesta.window"(%x0) {starts = [0], steps = [1], divisors = [0], outside = 0.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @window_that_repeats_no_dim(%x0: tensor<4xf32>) {
  // expected-error@below {{repeated dims [1] are outside [0, 1)}}
  %0 = "cuesta.window"(%x0) {starts = [0], steps = [1], divisors = [1], outside = 0.0 : f64, repeated = [1]} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @window_of_another_type(%x0: tensor<4xf32>) {
  // expected-error@below {{keeps the element type f32}}
  %0 = "cuesta.window"(%x0) {starts = [0], steps = [1], divisors = [1], outside = 0.0 : f64} : (tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @scatter_of_more_than_one(%x0: tensor<4x5xf32>, %x1: tensor<4x2xi64>, %x2: tensor<4x2xf32>) {
  // expected-error@below {{index and value must be [4, 1], not [4, 2]}}
  %0 = "cuesta.scatter_one"(%x0, %x1, %x2) {dim = 1} : (tensor<4x5xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @scatter_along_no_dim(%x0: tensor<4x5xf32>, %x1: tensor<4x1xi64>, %x2: tensor<4x1xf32>) {
  // expected-error@below {{dim 2 is outside [0, 2)}}
  %0 = "cuesta.scatter_one"(%x0, %x1, %x2) {dim = 2} : (tensor<4x5xf32>, tensor<4x1xi64>, tensor<4x1xf32>) -> tensor<4x5xf32>
  return
}
