// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries)' --split-input-file %s | filecheck %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries{attention=library})' --split-input-file %s | filecheck %s --check-prefix LIBRARY

// Attention of one query: 16 parts of 64 keys are a batch dim, four heads of queries read one head of keys.
// CHECK-LABEL: func.func @decode
// CHECK-SAME: (%[[Q:.*]]: tensor<1x32x1x64xbf16>, %[[K:.*]]: tensor<1x8x1024x64xbf16>, %[[V:.*]]: tensor<1x8x1024x64xbf16>, %[[M:.*]]: tensor<1x1x1x1024xi1>)
// CHECK: %[[Q1:.*]] = "cuesta.reshape"(%[[Q]]) : {{.*}} -> tensor<1x8x1x4x64xbf16>
// CHECK: %[[Q2:.*]] = "cuesta.expand"(%[[Q1]]) : {{.*}} -> tensor<1x8x16x4x64xbf16>
// CHECK: %[[S:.*]] = "cuesta.mm"(%[[Q2]], %{{.*}}) {product = "16x64x64/4/3"} : {{.*}} -> tensor<1x8x16x4x64xf32>
// CHECK: %[[T:.*]] = "cuesta.mul"(%[[S]]
// CHECK: %[[M1:.*]] = "cuesta.permute"(%{{.*}}) {{.*}} -> tensor<1x1x16x1x64xi1>
// CHECK: %[[W:.*]] = "cuesta.where"(%[[M1]], %[[T]]
// CHECK: %[[R:.*]]:2 = "cuesta.softmax_mm"(%[[W]], %{{.*}}) {product = "16x64x64/4/3", safe = 1 : i64} : {{.*}} -> (tensor<1x8x16x4x64xf32>, tensor<1x8x16x4xf32>)
// What a part weighs is the softmax of its rows' logsumexps along the parts.
// CHECK: %[[L:.*]] = "cuesta.expand"(%{{.*}}) : (tensor<1x8x16x4x1xf32>) -> tensor<1x8x16x4x64xf32>
// CHECK: %[[P:.*]] = "cuesta.softmax"(%[[L]]) {dim = 2 : i64, safe = 1 : i64}
// CHECK: %[[O:.*]] = "cuesta.mul"({{.*}}, %[[P]])
// CHECK: "cuesta.sum"(%[[O]]) {dims = [2]
// LIBRARY-LABEL: func.func @decode
// LIBRARY-NOT: cuesta.softmax_mm
// LIBRARY: aten.call
module attributes {cuesta.target = "cuda:90"} {
func.func @decode(%q: tensor<1x32x1x64xbf16>, %k: tensor<1x8x1024x64xbf16>, %v: tensor<1x8x1024x64xbf16>, %mask: tensor<1x1x1x1024xi1>) -> tensor<1x32x1x64xbf16> {
  %0:2 = "cuesta.attention"(%q, %k, %v, %mask) {causal = 0 : i64, scale = 1.250000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (tensor<1x32x1x64xbf16>, tensor<1x8x1024x64xbf16>, tensor<1x8x1024x64xbf16>, tensor<1x1x1x1024xi1>) -> (tensor<1x32x1x64xbf16>, tensor<1x32x1xf32>)
  return %0#0 : tensor<1x32x1x64xbf16>
}
}

// -----

// One row has a second one beside it, as a product has no side of one. 999 keys have parts of 111, an additive mask of
// every head goes with them, and a batch of 64 leaves one part, whose output is the whole.
// CHECK-LABEL: func.func @rows
// CHECK: "cuesta.mm"({{.*}} -> tensor<1x4x9x2x111xf32>
// CHECK: "cuesta.add"({{.*}}tensor<1x4x9x1x111xf32>)
// CHECK: "cuesta.slice"({{.*}} -> tensor<1x4x9x1x64xf32>
// CHECK: "cuesta.mm"({{.*}} -> tensor<64x8x1x3x256xf32>
// CHECK: %[[R:.*]]:2 = "cuesta.softmax_mm"({{.*}} -> (tensor<64x8x1x3x64xf32>, tensor<64x8x1x3xf32>)
// CHECK: "cuesta.sum"(%[[R]]#0) {dims = [2]
module attributes {cuesta.target = "cuda:90"} {
func.func @rows(%q: tensor<1x4x1x64xf16>, %k: tensor<1x4x999x64xf16>, %mask: tensor<1x4x1x999xf16>, %a: tensor<64x8x3x64xbf16>, %b: tensor<64x8x256x64xbf16>) -> (tensor<1x4x1x64xf16>, tensor<64x8x3x64xbf16>) {
  %0:2 = "cuesta.attention"(%q, %k, %k, %mask) {causal = 0 : i64, scale = 1.250000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (tensor<1x4x1x64xf16>, tensor<1x4x999x64xf16>, tensor<1x4x999x64xf16>, tensor<1x4x1x999xf16>) -> (tensor<1x4x1x64xf16>, tensor<1x4x1xf32>)
  %1:2 = "cuesta.attention"(%a, %b, %b) {causal = 0 : i64, scale = 1.250000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<64x8x3x64xbf16>, tensor<64x8x256x64xbf16>, tensor<64x8x256x64xbf16>) -> (tensor<64x8x3x64xbf16>, tensor<64x8x3xf32>)
  return %0#0, %1#0 : tensor<1x4x1x64xf16>, tensor<64x8x3x64xbf16>
}
}

// -----

// The library keeps attention of many queries, of f32 and with a flag "causal", and where the logsumexp is read.
// CHECK-LABEL: func.func @library
// CHECK-COUNT-4: aten.call
// CHECK-NOT: cuesta.softmax_mm
module attributes {cuesta.target = "cuda:90"} {
func.func @library(%q: tensor<1x8x64x64xbf16>, %k: tensor<1x8x1024x64xbf16>, %a: tensor<1x8x1x64xf32>, %b: tensor<1x8x1024x64xf32>, %c: tensor<1x8x1x64xbf16>) -> (tensor<1x8x64x64xbf16>, tensor<1x8x1x64xf32>, tensor<1x8x1x64xbf16>, tensor<1x8x1x64xbf16>, tensor<1x8x1xf32>) {
  %0:2 = "cuesta.attention"(%q, %k, %k) {causal = 0 : i64, scale = 1.250000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<1x8x64x64xbf16>, tensor<1x8x1024x64xbf16>, tensor<1x8x1024x64xbf16>) -> (tensor<1x8x64x64xbf16>, tensor<1x8x64xf32>)
  %1:2 = "cuesta.attention"(%a, %b, %b) {causal = 0 : i64, scale = 1.250000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<1x8x1x64xf32>, tensor<1x8x1024x64xf32>, tensor<1x8x1024x64xf32>) -> (tensor<1x8x1x64xf32>, tensor<1x8x1xf32>)
  %2:2 = "cuesta.attention"(%c, %k, %k) {causal = 1 : i64, scale = 1.250000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<1x8x1x64xbf16>, tensor<1x8x1024x64xbf16>, tensor<1x8x1024x64xbf16>) -> (tensor<1x8x1x64xbf16>, tensor<1x8x1xf32>)
  %3:2 = "cuesta.attention"(%c, %k, %k) {causal = 0 : i64, scale = 1.250000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<1x8x1x64xbf16>, tensor<1x8x1024x64xbf16>, tensor<1x8x1024x64xbf16>) -> (tensor<1x8x1x64xbf16>, tensor<1x8x1xf32>)
  return %0#0, %1#0, %2#0, %3#0, %3#1 : tensor<1x8x64x64xbf16>, tensor<1x8x1x64xf32>, tensor<1x8x1x64xbf16>, tensor<1x8x1x64xbf16>, tensor<1x8x1xf32>
}
}
