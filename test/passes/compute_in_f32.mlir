// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(compute-in-f32{slow=bf16})' %s | filecheck %s

// Operands are widened, a bias too, and results rounded. A product by a vector stays narrow, and so do
// other floats.
// CHECK-LABEL: func.func @products
// CHECK: %[[A:.*]] = "cuesta.convert"(%arg0) : (tensor<4x8xbf16>) -> tensor<4x8xf32>
// CHECK: %[[B:.*]] = "cuesta.convert"(%arg1) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
// CHECK: %[[C:.*]] = "cuesta.mm"(%[[A]], %[[B]]) : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
// CHECK: %[[D:.*]] = "cuesta.convert"(%[[C]]) : (tensor<4x6xf32>) -> tensor<4x6xbf16>
// CHECK: %[[E:.*]] = "cuesta.addmm"(%{{.*}}, %{{.*}}, %{{.*}}) {alpha = 1.000000e+00 : f64, beta = 1.000000e+00 : f64} : (tensor<6xf32>, tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
// CHECK: %[[F:.*]] = "cuesta.convert"(%[[E]]) : (tensor<4x6xf32>) -> tensor<4x6xbf16>
// CHECK: %[[G:.*]] = "cuesta.mm"(%arg3, %arg1) : (tensor<1x8xbf16>, tensor<8x6xbf16>) -> tensor<1x6xbf16>
// CHECK: %[[H:.*]] = "cuesta.mm"(%arg4, %arg4) : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf16>
// CHECK: return %[[D]], %[[F]], %[[G]], %[[H]]
module attributes {cuesta.target = "cpu"} {
func.func @products(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>, %b: tensor<6xbf16>, %v: tensor<1x8xbf16>, %h: tensor<8x8xf16>) -> (tensor<4x6xbf16>, tensor<4x6xbf16>, tensor<1x6xbf16>, tensor<8x8xf16>) {
  %0 = "cuesta.mm"(%x, %w) : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  %1 = "cuesta.addmm"(%b, %x, %w) {beta = 1.0 : f64, alpha = 1.0 : f64} : (tensor<6xbf16>, tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  %2 = "cuesta.mm"(%v, %w) : (tensor<1x8xbf16>, tensor<8x6xbf16>) -> tensor<1x6xbf16>
  %3 = "cuesta.mm"(%h, %h) : (tensor<8x8xf16>, tensor<8x8xf16>) -> tensor<8x8xf16>
  return %0, %1, %2, %3 : tensor<4x6xbf16>, tensor<4x6xbf16>, tensor<1x6xbf16>, tensor<8x8xf16>
}
}

// CHECK: // -----
// -----

// What reads a matrix once stays narrow too: few queries, but not many, and the widened ones keep their attributes.
// CHECK-LABEL: func.func @few_queries
// CHECK: %[[A:.*]]:2 = "cuesta.attention"(%arg0, %arg1, %arg1) {{.*}} : (tensor<1x2x4x16xbf16>, {{.*}}) -> (tensor<1x2x4x16xbf16>, tensor<1x2x4xf32>)
// CHECK: %[[B:.*]]:2 = "cuesta.attention"(%{{.*}}, %{{.*}}, %{{.*}}) {causal = 0 : i64, scale = 2.500000e-01 : f64} : (tensor<1x2x64x16xf32>, {{.*}}) -> (tensor<1x2x64x16xf32>, tensor<1x2x64xf32>)
// CHECK: %[[C:.*]] = "cuesta.convert"(%[[B]]#0) : (tensor<1x2x64x16xf32>) -> tensor<1x2x64x16xbf16>
// CHECK: return %[[A]]#0, %[[C]]
module attributes {cuesta.target = "cpu"} {
func.func @few_queries(%q: tensor<1x2x4x16xbf16>, %k: tensor<1x2x64x16xbf16>) -> (tensor<1x2x4x16xbf16>, tensor<1x2x64x16xbf16>) {
  %0:2 = "cuesta.attention"(%q, %k, %k) {causal = 0 : i64, scale = 0.25 : f64} : (tensor<1x2x4x16xbf16>, tensor<1x2x64x16xbf16>, tensor<1x2x64x16xbf16>) -> (tensor<1x2x4x16xbf16>, tensor<1x2x4xf32>)
  %1:2 = "cuesta.attention"(%k, %k, %k) {causal = 0 : i64, scale = 0.25 : f64} : (tensor<1x2x64x16xbf16>, tensor<1x2x64x16xbf16>, tensor<1x2x64x16xbf16>) -> (tensor<1x2x64x16xbf16>, tensor<1x2x64xf32>)
  return %0#0, %1#0 : tensor<1x2x4x16xbf16>, tensor<1x2x64x16xbf16>
}
}

// CHECK: // -----
// -----

// Convolutions and their gradients keep what they say of strides, and who computes them.
// CHECK-LABEL: func.func @convolutions
// CHECK: %[[Y:.*]] = "cuesta.convolution"(%{{.*}}, %{{.*}}) {{{.*}}onednn, operand_strides = {{\[\[}}36, 9, 1], [12, 3, 1]]{{.*}}} : (tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<2x6x7xf32>
// CHECK: "cuesta.convert"(%[[Y]]) : (tensor<2x6x7xf32>) -> tensor<2x6x7xbf16>
// CHECK: %[[W:.*]] = "aten.call"(%{{.*}}, %{{.*}}, %{{.*}}) {{{.*}}overload = "aten.convolution_backward.default"{{.*}}} : (tensor<2x6x7xf32>, tensor<2x4x9xf32>, tensor<6x4x3xf32>) -> tensor<6x4x3xf32>
// CHECK: "cuesta.convert"(%[[W]]) : (tensor<6x4x3xf32>) -> tensor<6x4x3xbf16>
module attributes {cuesta.target = "cpu"} {
func.func @convolutions(%x: tensor<2x4x9xbf16>, %w: tensor<6x4x3xbf16>, %g: tensor<2x6x7xbf16>) -> (tensor<2x6x7xbf16>, tensor<6x4x3xbf16>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 1 : i64, onednn, operand_strides = [[36, 9, 1], [12, 3, 1]], result_strides = [[42, 7, 1]]} : (tensor<2x4x9xbf16>, tensor<6x4x3xbf16>) -> tensor<2x6x7xbf16>
  %1 = "aten.call"(%g, %x, %w) {overload = "aten.convolution_backward.default", args = "[\22%0\22, \22%1\22, \22%2\22, null, [1], [0], [1], false, [0], 1, [false, true, false]]", positions = [1], reason = "convolutions run in the library", operand_strides = [[42, 7, 1], [36, 9, 1], [12, 3, 1]], result_strides = [[12, 3, 1]]} : (tensor<2x6x7xbf16>, tensor<2x4x9xbf16>, tensor<6x4x3xbf16>) -> tensor<6x4x3xbf16>
  return %0, %1 : tensor<2x6x7xbf16>, tensor<6x4x3xbf16>
}
}

// CHECK: // -----
// -----

// On a GPU nothing is slow.
// CHECK-LABEL: func.func @on_a_gpu
// CHECK-NOT: cuesta.convert
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @on_a_gpu(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>) -> tensor<4x6xbf16> {
  %0 = "cuesta.mm"(%x, %w) : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  return %0 : tensor<4x6xbf16>
}
}
