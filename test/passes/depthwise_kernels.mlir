// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(depthwise-kernels)' %s | filecheck %s

// In channels_last a depthwise convolution is summed in f32 with its channels last; the bias is added before the one
// rounding. A row-major one stays, and one whose channels meet.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x6x6xbf16>, %[[W:.*]]: tensor<8x1x3x3xbf16>, %[[B:.*]]: tensor<8xbf16>
// CHECK: %[[FLAT:.*]] = "cuesta.reshape"(%[[W]]) : (tensor<8x1x3x3xbf16>) -> tensor<8x3x3xbf16>
// CHECK: %[[PLACES:.*]] = "cuesta.permute"(%[[FLAT]]) {dims = [1, 2, 0]}
// CHECK: %[[IMAGES:.*]] = "cuesta.permute"(%[[X]]) {dims = [0, 2, 3, 1]}
// CHECK: %[[SUM:.*]] = "cuesta.depthwise"(%[[IMAGES]], %[[PLACES]]) {dilation = [1, 1], padding = [1, 1], spread = [1, 1], stride = [2, 2]} : {{.*}} -> tensor<2x3x3x8xf32>
// CHECK: %[[BIASED:.*]] = "cuesta.add"(%[[SUM]],
// CHECK: %[[ROUNDED:.*]] = "cuesta.convert"(%[[BIASED]])
// CHECK: %[[Y:.*]] = "cuesta.permute"(%[[ROUNDED]]) {dims = [0, 3, 1, 2]}
// CHECK: "cuesta.convolution"
// CHECK: "cuesta.convolution"
// CHECK: return %[[Y]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @forward(%x: tensor<2x8x6x6xbf16>, %w: tensor<8x1x3x3xbf16>, %b: tensor<8xbf16>, %v: tensor<8x4x3x3xbf16>) -> (tensor<2x8x3x3xbf16>, tensor<2x8x3x3xbf16>, tensor<2x8x3x3xbf16>) {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [2, 2], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 8 : i64, cudnn = "tensor_cores", result_strides = [[72, 1, 24, 8]]} : (tensor<2x8x6x6xbf16>, tensor<8x1x3x3xbf16>, tensor<8xbf16>) -> tensor<2x8x3x3xbf16>
  %1 = "cuesta.convolution"(%x, %w) {stride = [2, 2], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 8 : i64, cudnn = "tensor_cores", result_strides = [[72, 9, 3, 1]]} : (tensor<2x8x6x6xbf16>, tensor<8x1x3x3xbf16>) -> tensor<2x8x3x3xbf16>
  %2 = "cuesta.convolution"(%x, %v) {stride = [2, 2], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 2 : i64, cudnn = "tensor_cores", result_strides = [[72, 1, 24, 8]]} : (tensor<2x8x6x6xbf16>, tensor<8x4x3x3xbf16>) -> tensor<2x8x3x3xbf16>
  return %0, %1, %2 : tensor<2x8x3x3xbf16>, tensor<2x8x3x3xbf16>, tensor<2x8x3x3xbf16>
}
}

// CHECK: // -----
// -----

// The gradient of the images is a sum over windows that run backwards, that of the weight a sum over windows, in a part
// for each sample and row. With a stride of the convolution, the gradient that the images' is made of is spread. With
// large windows the weight's stays a call.
// CHECK-LABEL: func.func @backward
// CHECK: %[[SUM:.*]] = "cuesta.depthwise"(%{{.*}}, %{{.*}}) {dilation = [-1, -1], padding = [-1, -1], spread = [1, 1], stride = [1, 1]} : {{.*}} -> tensor<2x6x6x8xf32>
// CHECK: %[[ROUNDED:.*]] = "cuesta.convert"(%[[SUM]])
// CHECK: %[[DX:.*]] = "cuesta.permute"(%[[ROUNDED]])
// CHECK: %[[PARTS:.*]] = "cuesta.depthwise_weight"(%{{.*}}, %{{.*}}) {dilation = [1, 1], padding = [1, 1], stride = [1, 1]} : (tensor<2x6x6x8xbf16>, tensor<2x1x6x1x6x8xbf16>) -> tensor<2x6x3x3x8xf32>
// CHECK: %[[WHOLE:.*]] = "cuesta.sum"(%[[PARTS]]) {dims = [0, 1]
// CHECK: %[[NARROW:.*]] = "cuesta.convert"(%[[WHOLE]])
// CHECK: %[[ORDERED:.*]] = "cuesta.permute"(%[[NARROW]]) {dims = [2, 0, 1]}
// CHECK: %[[DW:.*]] = "cuesta.reshape"(%[[ORDERED]])
// CHECK: "cuesta.depthwise"(%{{.*}}, %{{.*}}) {dilation = [-1, -1], padding = [-1, -1], spread = [2, 2], stride = [1, 1]} : (tensor<2x3x3x8xbf16>, {{.*}} -> tensor<2x6x6x8xf32>
// CHECK: "cuesta.depthwise_weight"({{.*}}stride = [2, 2]} : (tensor<2x6x6x8xbf16>, tensor<2x1x3x1x3x8xbf16>) -> tensor<2x3x3x3x8xf32>
// CHECK: %[[LARGE:.*]] = "aten.call"{{.*}}[false, true, false]{{.*}}positions = [1]
// CHECK: return %[[DX]], %[[DW]], %{{.*}}, %{{.*}}, %[[LARGE]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @backward(%g: tensor<2x8x6x6xbf16>, %h: tensor<2x8x3x3xbf16>, %x: tensor<2x8x6x6xbf16>, %w: tensor<8x1x3x3xbf16>, %v: tensor<8x1x7x7xbf16>) -> (tensor<2x8x6x6xbf16>, tensor<8x1x3x3xbf16>, tensor<2x8x6x6xbf16>, tensor<8x1x3x3xbf16>, tensor<8x1x7x7xbf16>) {
  %0:2 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [0], [1, 1], [1, 1], [1, 1], false, [0, 0], 8, [true, true, false]]", overload = "aten.convolution_backward.default", reason = "", result_strides = [[288, 1, 48, 8], [9, 9, 3, 1]]} : (tensor<2x8x6x6xbf16>, tensor<2x8x6x6xbf16>, tensor<8x1x3x3xbf16>) -> (tensor<2x8x6x6xbf16>, tensor<8x1x3x3xbf16>)
  %1:2 = "aten.call"(%h, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [0], [2, 2], [1, 1], [1, 1], false, [0, 0], 8, [true, true, false]]", overload = "aten.convolution_backward.default", reason = "", result_strides = [[288, 1, 48, 8], [9, 9, 3, 1]]} : (tensor<2x8x3x3xbf16>, tensor<2x8x6x6xbf16>, tensor<8x1x3x3xbf16>) -> (tensor<2x8x6x6xbf16>, tensor<8x1x3x3xbf16>)
  %2:2 = "aten.call"(%g, %x, %v) {args = "[\22%0\22, \22%1\22, \22%2\22, [0], [1, 1], [3, 3], [1, 1], false, [0, 0], 8, [true, true, false]]", overload = "aten.convolution_backward.default", reason = "", result_strides = [[288, 1, 48, 8], [49, 49, 7, 1]]} : (tensor<2x8x6x6xbf16>, tensor<2x8x6x6xbf16>, tensor<8x1x7x7xbf16>) -> (tensor<2x8x6x6xbf16>, tensor<8x1x7x7xbf16>)
  return %0#0, %0#1, %1#0, %1#1, %2#1 : tensor<2x8x6x6xbf16>, tensor<8x1x3x3xbf16>, tensor<2x8x6x6xbf16>, tensor<8x1x3x3xbf16>, tensor<8x1x7x7xbf16>
}
}

// CHECK: // -----
// -----

// What follows is computed with the dims of the kernel, though the images are viewed as tokens first, which merges two
// of them; the scale has only some of the merged places, and stays behind the view.
// CHECK-LABEL: func.func @tokens
// CHECK: %[[SUM:.*]] = "cuesta.depthwise"
// CHECK: %[[ROUNDED:.*]] = "cuesta.convert"(%[[SUM]])
// CHECK: %[[GELU:.*]] = "cuesta.gelu"(%[[ROUNDED]]) : (tensor<2x6x6x8xbf16>) -> tensor<2x6x6x8xbf16>
// CHECK: %[[TOKENS:.*]] = "cuesta.reshape"({{.*}}) : (tensor<2x6x6x8xbf16>) -> tensor<2x36x8xbf16>
// CHECK: %[[PARTS:.*]] = "cuesta.reshape"({{.*}}) : {{.*}} -> tensor<2x4x9x8xbf16>
// CHECK: %[[SCALED:.*]] = "cuesta.mul"(%[[PARTS]], %{{.*}})
// CHECK: return %[[TOKENS]], %[[SCALED]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @tokens(%x: tensor<2x8x6x6xbf16>, %w: tensor<8x1x3x3xbf16>, %s: tensor<4x1x1xbf16>) -> (tensor<2x36x8xbf16>, tensor<2x4x9x8xbf16>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 8 : i64, cudnn = "tensor_cores", result_strides = [[288, 1, 48, 8]]} : (tensor<2x8x6x6xbf16>, tensor<8x1x3x3xbf16>) -> tensor<2x8x6x6xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<2x8x6x6xbf16>) -> tensor<2x8x36xbf16>
  %2 = "cuesta.permute"(%1) {dims = [0, 2, 1]} : (tensor<2x8x36xbf16>) -> tensor<2x36x8xbf16>
  %3 = "cuesta.gelu"(%2) : (tensor<2x36x8xbf16>) -> tensor<2x36x8xbf16>
  %4 = "cuesta.reshape"(%3) : (tensor<2x36x8xbf16>) -> tensor<2x4x9x8xbf16>
  %5 = "cuesta.mul"(%4, %s) : (tensor<2x4x9x8xbf16>, tensor<4x1x1xbf16>) -> tensor<2x4x9x8xbf16>
  return %3, %5 : tensor<2x36x8xbf16>, tensor<2x4x9x8xbf16>
}
}

// CHECK: // -----
// -----

// A residual that needs a later product can join no kernel of the convolution: it is added as tokens.
// CHECK-LABEL: func.func @residual
// CHECK: "cuesta.depthwise"
// CHECK: "cuesta.add"({{.*}}) : (tensor<2x6x6x8xbf16>, tensor<2x6x6x8xbf16>) -> tensor<2x6x6x8xbf16>
// CHECK: %[[MM:.*]] = "cuesta.mm"
// CHECK: %[[SUM:.*]] = "cuesta.add"(%{{.*}}, %[[MM]]) : (tensor<2x36x8xbf16>, tensor<2x36x8xbf16>)
// CHECK: return %[[SUM]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @residual(%x: tensor<2x8x6x6xbf16>, %w: tensor<8x1x3x3xbf16>, %y: tensor<2x36x8xbf16>, %v: tensor<2x8x8xbf16>) -> tensor<2x36x8xbf16> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 8 : i64, cudnn = "tensor_cores", result_strides = [[288, 1, 48, 8]]} : (tensor<2x8x6x6xbf16>, tensor<8x1x3x3xbf16>) -> tensor<2x8x6x6xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<2x8x6x6xbf16>) -> tensor<2x8x36xbf16>
  %2 = "cuesta.permute"(%1) {dims = [0, 2, 1]} : (tensor<2x8x36xbf16>) -> tensor<2x36x8xbf16>
  %3 = "cuesta.add"(%2, %y) : (tensor<2x36x8xbf16>, tensor<2x36x8xbf16>) -> tensor<2x36x8xbf16>
  %4 = "cuesta.mm"(%3, %v) : (tensor<2x36x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x36x8xbf16>
  %5 = "cuesta.add"(%3, %4) : (tensor<2x36x8xbf16>, tensor<2x36x8xbf16>) -> tensor<2x36x8xbf16>
  return %5 : tensor<2x36x8xbf16>
}
}

// CHECK: // -----
// -----

// Zeros on two sides of the images are not written: the second convolution's are, as another reads them too, and the
// third's, which are put around a single row.
// CHECK-LABEL: func.func @zeros
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x6x6xbf16>, %{{.*}}: tensor<2x8x1x6xbf16>
// CHECK: %[[IMAGES:.*]] = "cuesta.permute"(%[[X]]) {dims = [0, 2, 3, 1]}
// CHECK: "cuesta.depthwise"(%[[IMAGES]], %{{.*}}) {dilation = [1, 1], padding = [0, 1], spread = [1, 1], stride = [2, 2]} : (tensor<2x6x6x8xbf16>, {{.*}} -> tensor<2x3x3x8xf32>
// CHECK: "cuesta.depthwise"({{.*}}) {dilation = [1, 1], padding = [0, 0], spread = [1, 1], stride = [2, 2]} : (tensor<2x7x6x8xbf16>
// CHECK: "cuesta.depthwise"({{.*}}) {dilation = [1, 1], padding = [0, 0], spread = [1, 1], stride = [1, 1]} : (tensor<2x3x6x8xbf16>
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @zeros(%x: tensor<2x8x6x6xbf16>, %r: tensor<2x8x1x6xbf16>, %w: tensor<8x1x3x3xbf16>) -> (tensor<2x8x3x3xbf16>, tensor<2x8x3x2xbf16>, tensor<2x8x7x6xbf16>, tensor<2x8x1x4xbf16>) {
  %0 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<2x8x6x1xbf16>
  %1 = "cuesta.cat"(%0, %x) {dim = 3 : i64} : (tensor<2x8x6x1xbf16>, tensor<2x8x6x6xbf16>) -> tensor<2x8x6x7xbf16>
  %2 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<2x8x1x7xbf16>
  %3 = "cuesta.cat"(%1, %2) {dim = 2 : i64} : (tensor<2x8x6x7xbf16>, tensor<2x8x1x7xbf16>) -> tensor<2x8x7x7xbf16>
  %4 = "cuesta.convolution"(%3, %w) {stride = [2, 2], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 8 : i64, cudnn = "tensor_cores", result_strides = [[72, 1, 24, 8]]} : (tensor<2x8x7x7xbf16>, tensor<8x1x3x3xbf16>) -> tensor<2x8x3x3xbf16>
  %5 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<2x8x1x6xbf16>
  %6 = "cuesta.cat"(%x, %5) {dim = 2 : i64} : (tensor<2x8x6x6xbf16>, tensor<2x8x1x6xbf16>) -> tensor<2x8x7x6xbf16>
  %7 = "cuesta.convolution"(%6, %w) {stride = [2, 2], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 8 : i64, cudnn = "tensor_cores", result_strides = [[48, 1, 16, 8]]} : (tensor<2x8x7x6xbf16>, tensor<8x1x3x3xbf16>) -> tensor<2x8x3x2xbf16>
  %8 = "cuesta.cat"(%5, %r) {dim = 2 : i64} : (tensor<2x8x1x6xbf16>, tensor<2x8x1x6xbf16>) -> tensor<2x8x2x6xbf16>
  %9 = "cuesta.cat"(%8, %5) {dim = 2 : i64} : (tensor<2x8x2x6xbf16>, tensor<2x8x1x6xbf16>) -> tensor<2x8x3x6xbf16>
  %10 = "cuesta.convolution"(%9, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 8 : i64, cudnn = "tensor_cores", result_strides = [[32, 1, 32, 8]]} : (tensor<2x8x3x6xbf16>, tensor<8x1x3x3xbf16>) -> tensor<2x8x1x4xbf16>
  return %4, %7, %6, %10 : tensor<2x8x3x3xbf16>, tensor<2x8x3x2xbf16>, tensor<2x8x7x6xbf16>, tensor<2x8x1x4xbf16>
}
}
