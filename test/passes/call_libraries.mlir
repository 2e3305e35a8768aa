// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries)' %s | filecheck %s

// CHECK-LABEL: func.func @mm
// CHECK-SAME: (%[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<8x2xf32>)
// CHECK-NEXT: %[[C:.*]] = "aten.call"(%[[A]], %[[B]]) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", {{.*}}result_strides = {{\[\[}}2, 1]]}
// CHECK-NEXT: return %[[C]]
func.func @mm(%a: tensor<4x8xf32>, %b: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %0 = "cuesta.mm"(%a, %b) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// Results get the strides of the trace; a product takes operands of any strides.
// CHECK-LABEL: func.func @batched
// CHECK-NEXT: "aten.call"
// CHECK-NOT: operand_strides
// CHECK-SAME: overload = "aten.bmm.default", {{.*}}result_strides = {{\[\[}}8, 1, 4]]}
func.func @batched(%a: tensor<3x4x8xf32>, %b: tensor<3x8x2xf32>) -> tensor<3x4x2xf32> {
  %0 = "cuesta.mm"(%a, %b) {operand_strides = [[32, 8, 1], [16, 2, 1]], result_strides = [[8, 1, 4]]} : (tensor<3x4x8xf32>, tensor<3x8x2xf32>) -> tensor<3x4x2xf32>
  return %0 : tensor<3x4x2xf32>
}

// CHECK-LABEL: func.func @addmm
// CHECK-NEXT: "aten.call"(%{{.*}}, %{{.*}}, %{{.*}}) {args = "[\22%0\22, \22%1\22, \22%2\22, {\22kwargs\22: {\22beta\22: 1.0, \22alpha\22: 0.5}}]", overload = "aten.addmm.default"
func.func @addmm(%c: tensor<2xf32>, %a: tensor<4x8xf32>, %b: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %0 = "cuesta.addmm"(%c, %a, %b) {beta = 1.0 : f64, alpha = 0.5 : f64} : (tensor<2xf32>, tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// CHECK-LABEL: func.func @batched_addmm
// CHECK-NEXT: "aten.call"{{.*}}overload = "aten.baddbmm.default"
func.func @batched_addmm(%c: tensor<2xf32>, %a: tensor<3x4x8xf32>, %b: tensor<3x8x2xf32>) -> tensor<3x4x2xf32> {
  %0 = "cuesta.addmm"(%c, %a, %b) {beta = 1.0 : f64, alpha = 1.0 : f64} : (tensor<2xf32>, tensor<3x4x8xf32>, tensor<3x8x2xf32>) -> tensor<3x4x2xf32>
  return %0 : tensor<3x4x2xf32>
}

// A convolution sees the strides it was traced with (here channels last); no bias is a null.
// CHECK-LABEL: func.func @convolution
// CHECK-NEXT: "aten.call"(%{{.*}}, %{{.*}}) {args = "[\22%0\22, \22%1\22, null, [1, 1], [2, 2], [1, 1], false, [0, 0], 1]",
// CHECK-SAME: operand_strides = {{\[\[}}192, 1, 24, 3], [27, 9, 3, 1]], overload = "aten.convolution.default", {{.*}}result_strides = {{\[\[}}400, 1, 40, 4]]}
func.func @convolution(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x10x10xf32> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [2, 2], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, operand_strides = [[192, 1, 24, 3], [27, 9, 3, 1]], result_strides = [[400, 1, 40, 4]]} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x10x10xf32>
  return %0 : tensor<1x4x10x10xf32>
}

// CHECK-LABEL: func.func @attention
// CHECK-NEXT: %[[O:.*]]:2 = "aten.call"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {args = "[\22%0\22, \22%1\22, \22%2\22, 0.0, false, {\22kwargs\22: {\22attn_mask\22: \22%3\22, \22scale\22: 0.5}}]",
// CHECK-SAME: overload = "aten._scaled_dot_product_flash_attention_for_cpu.default"
// CHECK-NEXT: return %[[O]]#0
func.func @attention(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x8xf32>, %m: tensor<4x6xf32>) -> tensor<1x2x4x8xf32> {
  %0:2 = "cuesta.attention"(%q, %k, %v, %m) {scale = 0.5 : f64, causal = 0 : i64} : (tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<4x6xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return %0#0 : tensor<1x2x4x8xf32>
}

// CHECK-LABEL: func.func @causal
// CHECK-NEXT: "aten.call"{{.*}}0.0, true, {\22kwargs\22: {\22attn_mask\22: null, \22scale\22: 0.5}}]"
func.func @causal(%q: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %0:2 = "cuesta.attention"(%q, %q, %q) {scale = 0.5 : f64, causal = 1 : i64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return %0#0 : tensor<1x2x4x8xf32>
}

// Without dropout the backward kernels read no seeds.
// CHECK-LABEL: func.func @backward
// CHECK-NEXT: "aten.call"{{.*}}0.0, true, {\22kwargs\22: {\22scale\22: 0.5, \22attn_mask\22: null}}]", {{.*}}positions = [0, 1, 2]
// CHECK-SAME: result_strides = {{\[\[}}64, 8, 16, 1]
func.func @backward(%q: tensor<1x2x4x8xf32>, %l: tensor<1x2x4xf32>) -> tensor<1x2x4x8xf32> {
  %0:3 = "cuesta.attention_backward"(%q, %q, %q, %q, %q, %l) {scale = 0.5 : f64, causal = 1 : i64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
  return %0#0 : tensor<1x2x4x8xf32>
}

// CHECK-LABEL: func.func @left_alone
// CHECK-NEXT: "cuesta.softmax"
func.func @left_alone(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "cuesta.softmax"(%x) {dim = 1 : i64, safe = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// A bias goes into the kernel that reads the product, behind reshapes too; not where memory or a library wants the sum.
// CHECK-LABEL: func.func @bias
// CHECK: %[[M:.*]] = "aten.call"({{.*}}overload = "aten.mm.default"
// CHECK-NEXT: %[[A:.*]] = "cuesta.add"(%[[M]], %{{.*}}) : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[A]])
// CHECK-NEXT: "cuesta.gelu"(%[[R]])
// CHECK-NEXT: "aten.call"({{.*}}overload = "aten.addmm.default"
func.func @bias(%c: tensor<2xf32>, %a: tensor<4x8xf32>, %b: tensor<8x2xf32>) -> (tensor<2x2x2xf32>, tensor<4x2xf32>) {
  %0 = "cuesta.addmm"(%c, %a, %b) {beta = 1.0 : f64, alpha = 1.0 : f64} : (tensor<2xf32>, tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<4x2xf32>) -> tensor<2x2x2xf32>
  %2 = "cuesta.gelu"(%1) : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
  %3 = "cuesta.addmm"(%c, %a, %b) {beta = 1.0 : f64, alpha = 1.0 : f64} : (tensor<2xf32>, tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %2, %3 : tensor<2x2x2xf32>, tensor<4x2xf32>
}

// What is rounded to half its bits would be rounded twice.
// CHECK-LABEL: func.func @narrow_bias
// CHECK: "aten.call"({{.*}}overload = "aten.addmm.default"
func.func @narrow_bias(%c: tensor<2xbf16>, %a: tensor<4x8xbf16>, %b: tensor<8x2xbf16>) -> tensor<4x2xbf16> {
  %0 = "cuesta.addmm"(%c, %a, %b) {beta = 1.0 : f64, alpha = 1.0 : f64} : (tensor<2xbf16>, tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xbf16>
  %1 = "cuesta.neg"(%0) : (tensor<4x2xbf16>) -> tensor<4x2xbf16>
  return %1 : tensor<4x2xbf16>
}
