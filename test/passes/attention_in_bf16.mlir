// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries{attention=kernel})' %s | filecheck %s

// Attention in bf16 is a kernel of f32: what it reads is widened, a mask too, and its output is rounded.
// CHECK-LABEL: func.func @graph
// CHECK-COUNT-3: "cuesta.convert"({{.*}}xbf16>) -> tensor<1x1x16x{{.*}}xf32>
// CHECK: %[[W:.*]]:2 = "cuesta.attention"({{.*}}tile = "16x16 by 8"{{.*}}xf32>, tensor<1x1x16xf32>)
// CHECK: %[[O:.*]] = "cuesta.convert"(%[[W]]#0)
// CHECK: return %[[O]], %[[W]]#1
module attributes {cuesta.target = "cpu"} {
func.func @graph(%q: tensor<1x1x16x8xbf16>, %k: tensor<1x1x16x8xbf16>, %v: tensor<1x1x16x8xbf16>, %m: tensor<1x1x16x16xi1>) -> (tensor<1x1x16x8xbf16>, tensor<1x1x16xf32>) {
  %0:2 = "cuesta.attention"(%q, %k, %v, %m) {scale = 0.5, causal = 0, operandSegmentSizes = array<i32: 1, 1, 1, 1>}
    : (tensor<1x1x16x8xbf16>, tensor<1x1x16x8xbf16>, tensor<1x1x16x8xbf16>, tensor<1x1x16x16xi1>) -> (tensor<1x1x16x8xbf16>, tensor<1x1x16xf32>)
  return %0#0, %0#1 : tensor<1x1x16x8xbf16>, tensor<1x1x16xf32>
}
}
