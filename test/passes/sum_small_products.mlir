// RUN: cuesta-opt --pass-pipeline='builtin.module(sum-small-products)' %s | filecheck %s

// Many small matrices by vectors, from either side, are sums in f32. The vector lies as the matrix's rows.
// CHECK-LABEL: func.func @vectors
// CHECK-SAME: (%[[A:.*]]: tensor<2048x512x8xbf16>, %[[V:.*]]: tensor<2048x8x1xbf16>, %[[W:.*]]: tensor<2048x1x512xbf16>)
// CHECK: %[[R:.*]] = "cuesta.reshape"({{.*}}) : (tensor<2048x8x1xf32>) -> tensor<2048x1x8xf32>
// CHECK: %[[M:.*]] = "cuesta.mul"({{.*}}, %[[R]])
// CHECK: %[[S:.*]] = "cuesta.sum"(%[[M]]) {dims = [2]{{.*}} -> tensor<2048x512xf32>
// CHECK: %[[T:.*]] = "cuesta.reshape"(%[[S]]) : {{.*}} -> tensor<2048x512x1xf32>
// CHECK: "cuesta.convert"(%[[T]]) : {{.*}} -> tensor<2048x512x1xbf16>
// CHECK: %[[N:.*]] = "cuesta.mul"({{.*}} : (tensor<2048x512x1xf32>, tensor<2048x512x8xf32>) -> tensor<2048x512x8xf32>
// CHECK: "cuesta.sum"(%[[N]]) {dims = [1]{{.*}} -> tensor<2048x8xf32>
// CHECK-NOT: "cuesta.mm"
func.func @vectors(%a: tensor<2048x512x8xbf16>, %v: tensor<2048x8x1xbf16>, %w: tensor<2048x1x512xbf16>) -> (tensor<2048x512x1xbf16>, tensor<2048x1x8xbf16>) {
  %0 = "cuesta.mm"(%a, %v) : (tensor<2048x512x8xbf16>, tensor<2048x8x1xbf16>) -> tensor<2048x512x1xbf16>
  %1 = "cuesta.mm"(%w, %a) : (tensor<2048x1x512xbf16>, tensor<2048x512x8xbf16>) -> tensor<2048x1x8xbf16>
  return %0, %1 : tensor<2048x512x1xbf16>, tensor<2048x1x8xbf16>
}

// A product over one element has no sum.
// CHECK-LABEL: func.func @one_term
// CHECK: "cuesta.mul"({{.*}} : (tensor<64x1xf32>, tensor<1x8xf32>) -> tensor<64x8xf32>
// CHECK: "cuesta.mul"({{.*}} : (tensor<4x64x1xf32>, tensor<4x1x8xf32>) -> tensor<4x64x8xf32>
// CHECK-NOT: "cuesta.mm"
func.func @one_term(%a: tensor<64x1xf32>, %b: tensor<1x8xf32>, %c: tensor<4x64x1xbf16>, %d: tensor<4x1x8xbf16>) -> (tensor<64x8xf32>, tensor<4x64x8xbf16>) {
  %0 = "cuesta.mm"(%a, %b) : (tensor<64x1xf32>, tensor<1x8xf32>) -> tensor<64x8xf32>
  %1 = "cuesta.mm"(%c, %d) : (tensor<4x64x1xbf16>, tensor<4x1x8xbf16>) -> tensor<4x64x8xbf16>
  return %0, %1 : tensor<64x8xf32>, tensor<4x64x8xbf16>
}

// Few matrices, large ones, and those that no vector multiplies.
// CHECK-LABEL: func.func @stay
// CHECK-COUNT-3: "cuesta.mm"
func.func @stay(%a: tensor<64x512x8xbf16>, %v: tensor<64x8x1xbf16>, %b: tensor<512x1024x64xbf16>, %w: tensor<512x1x1024xbf16>, %c: tensor<512x8x16xbf16>, %d: tensor<512x16x8xbf16>) -> (tensor<64x512x1xbf16>, tensor<512x1x64xbf16>, tensor<512x8x8xbf16>) {
  %0 = "cuesta.mm"(%a, %v) : (tensor<64x512x8xbf16>, tensor<64x8x1xbf16>) -> tensor<64x512x1xbf16>
  %1 = "cuesta.mm"(%w, %b) : (tensor<512x1x1024xbf16>, tensor<512x1024x64xbf16>) -> tensor<512x1x64xbf16>
  %2 = "cuesta.mm"(%c, %d) : (tensor<512x8x16xbf16>, tensor<512x16x8xbf16>) -> tensor<512x8x8xbf16>
  return %0, %1, %2 : tensor<64x512x1xbf16>, tensor<512x1x64xbf16>, tensor<512x8x8xbf16>
}

// Weights that are repeated for each sample are read where they lie: the batch keeps its dims.
// CHECK-LABEL: func.func @repeated
// CHECK: %[[W:.*]] = "cuesta.expand"
// CHECK: %[[C:.*]] = "cuesta.convert"(%[[W]]) : (tensor<32x40x16x3xbf16>) -> tensor<32x40x16x3xf32>
// CHECK: %[[M:.*]] = "cuesta.mul"(%[[C]], %{{.*}}) : (tensor<32x40x16x3xf32>, tensor<32x40x1x3xf32>) -> tensor<32x40x16x3xf32>
// CHECK: "cuesta.sum"(%[[M]]) {dims = [3]{{.*}} -> tensor<32x40x16xf32>
// CHECK: "cuesta.reshape"({{.*}} -> tensor<1280x16x1xbf16>
func.func @repeated(%w: tensor<1x40x16x3xbf16>, %v: tensor<1280x3x1xbf16>) -> tensor<1280x16x1xbf16> {
  %0 = "cuesta.expand"(%w) : (tensor<1x40x16x3xbf16>) -> tensor<32x40x16x3xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<32x40x16x3xbf16>) -> tensor<1280x16x3xbf16>
  %2 = "cuesta.mm"(%1, %v) : (tensor<1280x16x3xbf16>, tensor<1280x3x1xbf16>) -> tensor<1280x16x1xbf16>
  return %2 : tensor<1280x16x1xbf16>
}
