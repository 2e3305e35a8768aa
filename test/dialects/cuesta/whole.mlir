// RUN: cuesta-opt %s | filecheck %s

// CHECK-LABEL: func.func @indexing
// CHECK: "cuesta.index"(%{{.*}}, %{{.*}}, %{{.*}}) {dims = [0, 2]} : (tensor<4x5x6xf32>, tensor<7xi64>, tensor<7xi64>) -> tensor<7x5xf32>
// CHECK: "cuesta.gather"(%{{.*}}, %{{.*}}) {dim = 1 : i64} : (tensor<7x5xf32>, tensor<7x2xi64>) -> tensor<7x2xf32>
func.func @indexing(%x: tensor<4x5x6xf32>, %i: tensor<7xi64>, %j: tensor<7x2xi64>) -> tensor<7x2xf32> {
  %0 = "cuesta.index"(%x, %i, %i) {dims = [0, 2]} : (tensor<4x5x6xf32>, tensor<7xi64>, tensor<7xi64>) -> tensor<7x5xf32>
  %1 = "cuesta.gather"(%0, %j) {dim = 1} : (tensor<7x5xf32>, tensor<7x2xi64>) -> tensor<7x2xf32>
  return %1 : tensor<7x2xf32>
}

// CHECK-LABEL: func.func @contraction
// CHECK: "cuesta.mm"(%{{.*}}, %{{.*}}) : (tensor<4x5xf32>, tensor<5x6xf32>) -> tensor<4x6xf32>
// CHECK: "cuesta.addmm"(%{{.*}}, %{{.*}}, %{{.*}}) {alpha = 1.000000e+00 : f64, beta = 5.000000e-01 : f64}
// CHECK: "cuesta.convolution"(%{{.*}}, %{{.*}}) {dilation = [1, 1], groups = 2 : i64, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = 0 : i64}
func.func @contraction(%a: tensor<4x5xf32>, %b: tensor<5x6xf32>, %c: tensor<6xf32>, %x: tensor<1x4x8x8xf32>,
                       %w: tensor<6x2x3x3xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<1x6x8x8xf32>) {
  %0 = "cuesta.mm"(%a, %b) : (tensor<4x5xf32>, tensor<5x6xf32>) -> tensor<4x6xf32>
  %1 = "cuesta.addmm"(%c, %a, %b) {beta = 0.5, alpha = 1.0}
    : (tensor<6xf32>, tensor<4x5xf32>, tensor<5x6xf32>) -> tensor<4x6xf32>
  %2 = "cuesta.convolution"(%x, %w) {
    stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0, output_padding = [0, 0], groups = 2
  } : (tensor<1x4x8x8xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x8x8xf32>
  return %0, %1, %2 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<1x6x8x8xf32>
}

// CHECK-LABEL: func.func @depthwise
// CHECK: "cuesta.depthwise"(%{{.*}}, %{{.*}}) {dilation = [1, 2], padding = [1, 0], spread = [1, 1], stride = [2, 1]}
func.func @depthwise(%x: tensor<1x8x8x4xbf16>, %w: tensor<3x2x4xbf16>) -> tensor<1x4x6x4xf32> {
  %0 = "cuesta.depthwise"(%x, %w) {stride = [2, 1], padding = [1, 0], dilation = [1, 2], spread = [1, 1]}
    : (tensor<1x8x8x4xbf16>, tensor<3x2x4xbf16>) -> tensor<1x4x6x4xf32>
  return %0 : tensor<1x4x6x4xf32>
}

// CHECK-LABEL: func.func @depthwise_weight
// CHECK: "cuesta.depthwise_weight"(%{{.*}}, %{{.*}}) {dilation = [1, 2], padding = [1, 0], stride = [2, 1]}
func.func @depthwise_weight(%x: tensor<4x8x8x4xbf16>, %g: tensor<2x2x1x4x6x4xbf16>) -> tensor<2x1x3x2x4xf32> {
  %0 = "cuesta.depthwise_weight"(%x, %g) {stride = [2, 1], padding = [1, 0], dilation = [1, 2]} : (tensor<4x8x8x4xbf16>, tensor<2x2x1x4x6x4xbf16>) -> tensor<2x1x3x2x4xf32>
  return %0 : tensor<2x1x3x2x4xf32>
}

// CHECK-LABEL: func.func @normalisation
// CHECK: "cuesta.softmax"(%{{.*}}) {dim = 1 : i64, safe = 0 : i64}
// CHECK: "cuesta.layer_norm"(%{{.*}}, %{{.*}}, %{{.*}}) {eps = 1.000000e-05 : f64, rank = 1 : i64}
// CHECK: "cuesta.nll_loss"(%{{.*}}, %{{.*}}) {ignore_index = -100 : i64, reduction = 1 : i64}
func.func @normalisation(%x: tensor<4x6xf32>, %w: tensor<6xf32>, %t: tensor<4xi64>)
    -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>) {
  %0 = "cuesta.softmax"(%x) {dim = 1, safe = 0} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1:3 = "cuesta.layer_norm"(%x, %w, %w) {rank = 1, eps = 1.0e-5}
    : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  %2:2 = "cuesta.nll_loss"(%x, %t) {reduction = 1, ignore_index = -100}
    : (tensor<4x6xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
  return %0, %1#0, %2#0 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>
}

// With a mask and without.
// CHECK-LABEL: func.func @attention
// CHECK: "cuesta.attention"(%{{.*}}, %{{.*}}, %{{.*}}) {causal = 1 : i64, scale = 5.000000e-01 : f64}
// CHECK: "cuesta.attention"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {causal = 0 : i64, scale = 5.000000e-01 : f64}
func.func @attention(%q: tensor<1x2x3x4xf32>, %m: tensor<3x3xf32>) -> tensor<1x2x3x4xf32> {
  %0:2 = "cuesta.attention"(%q, %q, %q) {scale = 0.5, causal = 1}
    : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  %1:2 = "cuesta.attention"(%0#0, %q, %q, %m) {scale = 0.5, causal = 0}
    : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<3x3xf32>)
    -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  return %1#0 : tensor<1x2x3x4xf32>
}

// CHECK-LABEL: func.func @random
// CHECK: "cuesta.dropout"(%{{.*}}) {p = 1.000000e-01 : f64} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
func.func @random(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0:2 = "cuesta.dropout"(%x) {p = 0.1} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  return %0#0 : tensor<4xf32>
}

// Any number of operands and results, of any types.
// CHECK-LABEL: func.func @call
// CHECK: "aten.call"(%{{.*}}) {args = "[\22%0\22, -1, true]", overload = "aten.sort.default"
func.func @call(%x: tensor<4xf32>) -> tensor<4xi64> {
  %0:2 = "aten.call"(%x) {
    overload = "aten.sort.default", args = "[\"%0\", -1, true]", reason = "-", result_strides = [[1], [1]]
  } : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  return %0#1 : tensor<4xi64>
}
