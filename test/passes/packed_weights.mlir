// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries,fold-views,hoist-reshapes,fold-views)' %s | filecheck %s

// A product by a weight that lies in panels is one for each panel; what follows it has panels and columns apart, and the
// reshape stands behind.
// CHECK-LABEL: func.func @linear
// CHECK-SAME: (%[[X:.*]]: tensor<8x32xf32>, %[[W:.*]]: tensor<2x32x48xf32>, %[[B:.*]]: tensor<96xf32>, %[[R:.*]]: tensor<2x4x96xf32>)
// CHECK: %[[XE:.*]] = "cuesta.expand"(%{{.*}}) : {{.*}} -> tensor<2x8x32xf32>
// CHECK-NEXT: %[[P:.*]] = "cuesta.mm"(%[[XE]], %[[W]]) {packed, product = "8x{{48x32 by 8x48|16x32 by 6x16}}"} : {{.*}} -> tensor<2x8x48xf32>
// CHECK-NEXT: %[[M:.*]] = "cuesta.permute"(%[[P]]) {dims = [1, 0, 2]} : {{.*}} -> tensor<8x2x48xf32>
// CHECK-NEXT: %[[BP:.*]] = "cuesta.reshape"(%[[B]]) : (tensor<96xf32>) -> tensor<1x2x48xf32>
// CHECK-NEXT: %[[S:.*]] = "cuesta.add"(%[[M]], %[[BP]])
// CHECK-NEXT: %[[G:.*]] = "cuesta.relu"(%[[S]]) : (tensor<8x2x48xf32>)
// CHECK-NEXT: %[[RP:.*]] = "cuesta.reshape"(%[[R]]) : (tensor<2x4x96xf32>) -> tensor<8x2x48xf32>
// CHECK-NEXT: %[[A:.*]] = "cuesta.add"(%[[G]], %[[RP]]) : (tensor<8x2x48xf32>, tensor<8x2x48xf32>)
// CHECK-NEXT: %[[O:.*]] = "cuesta.reshape"(%[[A]]) : (tensor<8x2x48xf32>) -> tensor<2x4x96xf32>
// CHECK-NEXT: return %[[O]]
func.func @linear(%x: tensor<8x32xf32>, %w: tensor<2x32x48xf32>, %b: tensor<96xf32>, %r: tensor<2x4x96xf32>) -> tensor<2x4x96xf32> {
  %0 = "cuesta.permute"(%w) {dims = [1, 0, 2]} : (tensor<2x32x48xf32>) -> tensor<32x2x48xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<32x2x48xf32>) -> tensor<32x96xf32>
  %2 = "cuesta.addmm"(%b, %x, %1) {beta = 1.0 : f64, alpha = 1.0 : f64} : (tensor<96xf32>, tensor<8x32xf32>, tensor<32x96xf32>) -> tensor<8x96xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<8x96xf32>) -> tensor<2x4x96xf32>
  %4 = "cuesta.relu"(%3) : (tensor<2x4x96xf32>) -> tensor<2x4x96xf32>
  %5 = "cuesta.add"(%4, %r) : (tensor<2x4x96xf32>, tensor<2x4x96xf32>) -> tensor<2x4x96xf32>
  return %5 : tensor<2x4x96xf32>
}

// A matrix that is reshaped from something else is none in panels.
// CHECK-LABEL: func.func @other
// CHECK: "aten.call"
func.func @other(%x: tensor<8x32xf32>, %w: tensor<2x48x32xf32>) -> tensor<8x96xf32> {
  %0 = "cuesta.permute"(%w) {dims = [2, 0, 1]} : (tensor<2x48x32xf32>) -> tensor<32x2x48xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<32x2x48xf32>) -> tensor<32x96xf32>
  %2 = "cuesta.mm"(%x, %1) : (tensor<8x32xf32>, tensor<32x96xf32>) -> tensor<8x96xf32>
  return %2 : tensor<8x96xf32>
}

// What reads a product twice, and products one behind the other.
// CHECK-LABEL: func.func @squares
// CHECK: "cuesta.mm"{{.*}}packed
// CHECK-NEXT: %[[P:.*]] = "cuesta.permute"
// CHECK-NEXT: %[[S:.*]] = "cuesta.mul"(%[[P]], %[[P]]) : (tensor<8x2x48xf32>, tensor<8x2x48xf32>)
// CHECK-NEXT: "cuesta.reshape"(%[[S]]) : (tensor<8x2x48xf32>) -> tensor<1x8x96xf32>
// CHECK: "cuesta.mm"{{.*}}packed
// CHECK-NEXT: %[[Q:.*]] = "cuesta.permute"
// CHECK-NEXT: "cuesta.mul"(%[[Q]], %[[Q]]) : (tensor<8x2x48xf32>, tensor<8x2x48xf32>)
func.func @squares(%x: tensor<8x32xf32>, %w: tensor<2x32x48xf32>, %v: tensor<2x96x48xf32>) -> tensor<8x96xf32> {
  %0 = "cuesta.permute"(%w) {dims = [1, 0, 2]} : (tensor<2x32x48xf32>) -> tensor<32x2x48xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<32x2x48xf32>) -> tensor<32x96xf32>
  %2 = "cuesta.mm"(%x, %1) : (tensor<8x32xf32>, tensor<32x96xf32>) -> tensor<8x96xf32>
  %3 = "cuesta.mul"(%2, %2) : (tensor<8x96xf32>, tensor<8x96xf32>) -> tensor<8x96xf32>
  %4 = "cuesta.permute"(%v) {dims = [1, 0, 2]} : (tensor<2x96x48xf32>) -> tensor<96x2x48xf32>
  %5 = "cuesta.reshape"(%4) : (tensor<96x2x48xf32>) -> tensor<96x96xf32>
  %6 = "cuesta.mm"(%3, %5) : (tensor<8x96xf32>, tensor<96x96xf32>) -> tensor<8x96xf32>
  %7 = "cuesta.mul"(%6, %6) : (tensor<8x96xf32>, tensor<8x96xf32>) -> tensor<8x96xf32>
  return %7 : tensor<8x96xf32>
}
