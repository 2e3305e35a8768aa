// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries{attention=kernel})' %s | filecheck %s

// One query of four heads that share a head of keys and values: a kernel that walks the keys of bf16, 128 at a time.
// CHECK-LABEL: func.func @narrow
// CHECK: "cuesta.attention"({{.*}}tile = "128 keys"
func.func @narrow(%q: tensor<1x8x1x64xbf16>, %k: tensor<1x2x300x64xbf16>, %mask: tensor<1x300xi1>) -> tensor<1x8x1x64xbf16> {
  %0:2 = "cuesta.attention"(%q, %k, %k, %mask) {scale = 0.125, causal = 0, operandSegmentSizes = array<i32: 1, 1, 1, 1>}
    : (tensor<1x8x1x64xbf16>, tensor<1x2x300x64xbf16>, tensor<1x2x300x64xbf16>, tensor<1x300xi1>) -> (tensor<1x8x1x64xbf16>, tensor<1x8x1xf32>)
  return %0#0 : tensor<1x8x1x64xbf16>
}

// Longer heads: 64 keys at a time.
// CHECK-LABEL: func.func @long_heads
// CHECK: "cuesta.attention"({{.*}}tile = "64 keys"
func.func @long_heads(%q: tensor<1x8x3x128xf32>, %k: tensor<1x8x300x128xf32>) -> tensor<1x8x3x128xf32> {
  %0:2 = "cuesta.attention"(%q, %k, %k) {scale = 0.125, causal = 0, operandSegmentSizes = array<i32: 1, 1, 1, 0>}
    : (tensor<1x8x3x128xf32>, tensor<1x8x300x128xf32>, tensor<1x8x300x128xf32>) -> (tensor<1x8x3x128xf32>, tensor<1x8x3xf32>)
  return %0#0 : tensor<1x8x3x128xf32>
}

// Eight queries fill lanes of the other form, which is of f32; so does a causal mask of few. Of f16 they are the
// library's.
// CHECK-LABEL: func.func @others
// CHECK: "cuesta.attention"({{.*}}tile = "16x64 by 8"
// CHECK: "cuesta.attention"({{.*}}tile = "16x64 by 8"
// CHECK: "aten.call"{{.*}}attention of elements other than f32 runs in the library
func.func @others(%q: tensor<1x8x8x64xf32>, %r: tensor<1x8x2x64xf32>, %s: tensor<1x8x8x64xf16>, %k: tensor<1x8x320x64xf32>, %l: tensor<1x8x320x64xf16>)
    -> (tensor<1x8x8x64xf32>, tensor<1x8x2x64xf32>, tensor<1x8x8x64xf16>) {
  %0:2 = "cuesta.attention"(%q, %k, %k) {scale = 0.125, causal = 0, operandSegmentSizes = array<i32: 1, 1, 1, 0>}
    : (tensor<1x8x8x64xf32>, tensor<1x8x320x64xf32>, tensor<1x8x320x64xf32>) -> (tensor<1x8x8x64xf32>, tensor<1x8x8xf32>)
  %1:2 = "cuesta.attention"(%r, %k, %k) {scale = 0.125, causal = 1, operandSegmentSizes = array<i32: 1, 1, 1, 0>}
    : (tensor<1x8x2x64xf32>, tensor<1x8x320x64xf32>, tensor<1x8x320x64xf32>) -> (tensor<1x8x2x64xf32>, tensor<1x8x2xf32>)
  %2:2 = "cuesta.attention"(%s, %l, %l) {scale = 0.125, causal = 0, operandSegmentSizes = array<i32: 1, 1, 1, 0>}
    : (tensor<1x8x8x64xf16>, tensor<1x8x320x64xf16>, tensor<1x8x320x64xf16>) -> (tensor<1x8x8x64xf16>, tensor<1x8x8xf32>)
  return %0#0, %1#0, %2#0 : tensor<1x8x8x64xf32>, tensor<1x8x2x64xf32>, tensor<1x8x8x64xf16>
}
