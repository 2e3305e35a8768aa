// RUN: cuesta-opt --pass-pipeline='builtin.module(join-products)' %s | filecheck %s

// The gradient of a weight that three steps of 2 rows each used.
// CHECK-LABEL: func.func @gradient
// CHECK-SAME: (%[[G0:.*]]: tensor<2x64xf32>, %[[X0:.*]]: tensor<2x32xf32>, %[[G1:.*]]: tensor<2x64xf32>, %[[X1:.*]]: tensor<2x32xf32>, %[[G2:.*]]: tensor<2x64xf32>, %[[X2:.*]]: tensor<2x32xf32>)
// CHECK: %[[G01:.*]] = "cuesta.cat"(%[[G0]], %[[G1]]) {dim = 0 : i64}
// CHECK-NEXT: %[[G:.*]] = "cuesta.cat"(%[[G01]], %[[G2]]) {dim = 0 : i64}
// CHECK-NEXT: %[[T:.*]] = "cuesta.permute"(%[[G]]) {dims = [1, 0]} : (tensor<6x64xf32>) -> tensor<64x6xf32>
// CHECK-NEXT: %[[X01:.*]] = "cuesta.cat"(%[[X0]], %[[X1]]) {dim = 0 : i64}
// CHECK-NEXT: %[[X:.*]] = "cuesta.cat"(%[[X01]], %[[X2]]) {dim = 0 : i64}
// CHECK-NEXT: %[[P:.*]] = "cuesta.mm"(%[[T]], %[[X]]) : (tensor<64x6xf32>, tensor<6x32xf32>) -> tensor<64x32xf32>
// CHECK-NEXT: return %[[P]]
func.func @gradient(%g0: tensor<2x64xf32>, %x0: tensor<2x32xf32>, %g1: tensor<2x64xf32>, %x1: tensor<2x32xf32>, %g2: tensor<2x64xf32>, %x2: tensor<2x32xf32>) -> tensor<64x32xf32> {
  %t0 = "cuesta.permute"(%g0) {dims = [1, 0]} : (tensor<2x64xf32>) -> tensor<64x2xf32>
  %p0 = "cuesta.mm"(%t0, %x0) : (tensor<64x2xf32>, tensor<2x32xf32>) -> tensor<64x32xf32>
  %t1 = "cuesta.permute"(%g1) {dims = [1, 0]} : (tensor<2x64xf32>) -> tensor<64x2xf32>
  %p1 = "cuesta.mm"(%t1, %x1) : (tensor<64x2xf32>, tensor<2x32xf32>) -> tensor<64x32xf32>
  %s = "cuesta.add"(%p0, %p1) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %t2 = "cuesta.permute"(%g2) {dims = [1, 0]} : (tensor<2x64xf32>) -> tensor<64x2xf32>
  %p2 = "cuesta.mm"(%t2, %x2) : (tensor<64x2xf32>, tensor<2x32xf32>) -> tensor<64x32xf32>
  %r = "cuesta.add"(%s, %p2) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %r : tensor<64x32xf32>
}

// What else is added is added behind, sums of different lengths are one too, and so are those of matrices as they lie.
// CHECK-LABEL: func.func @and_another_term
// CHECK-SAME: (%[[A:.*]]: tensor<64x1xf32>, %[[B:.*]]: tensor<1x64xf32>, %[[C:.*]]: tensor<64x3xf32>, %[[D:.*]]: tensor<3x64xf32>, %[[E:.*]]: tensor<64x64xf32>)
// CHECK: %[[AC:.*]] = "cuesta.cat"(%[[A]], %[[C]]) {dim = 1 : i64}
// CHECK-NEXT: %[[BD:.*]] = "cuesta.cat"(%[[B]], %[[D]]) {dim = 0 : i64}
// CHECK-NEXT: %[[P:.*]] = "cuesta.mm"(%[[AC]], %[[BD]])
// CHECK-NEXT: %[[S:.*]] = "cuesta.add"(%[[P]], %[[E]])
// CHECK-NEXT: return %[[S]]
func.func @and_another_term(%a: tensor<64x1xf32>, %b: tensor<1x64xf32>, %c: tensor<64x3xf32>, %d: tensor<3x64xf32>, %e: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = "cuesta.mm"(%a, %b) : (tensor<64x1xf32>, tensor<1x64xf32>) -> tensor<64x64xf32>
  %1 = "cuesta.mm"(%c, %d) : (tensor<64x3xf32>, tensor<3x64xf32>) -> tensor<64x64xf32>
  %2 = "cuesta.add"(%e, %1) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = "cuesta.add"(%0, %2) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}

// Any number of rows.
// CHECK-LABEL: func.func @any_rows
// CHECK: "cuesta.mm"{{.*}} : (tensor<512x?xf32, ["2*s0"]>, tensor<?x512xf32, ["2*s0"]>) -> tensor<512x512xf32>
// CHECK-NEXT: return
func.func @any_rows(%a: tensor<512x?xf32, ["s0"]>, %b: tensor<?x512xf32, ["s0"]>, %c: tensor<512x?xf32, ["s0"]>, %d: tensor<?x512xf32, ["s0"]>) -> tensor<512x512xf32> {
  %0 = "cuesta.mm"(%a, %b) : (tensor<512x?xf32, ["s0"]>, tensor<?x512xf32, ["s0"]>) -> tensor<512x512xf32>
  %1 = "cuesta.mm"(%c, %d) : (tensor<512x?xf32, ["s0"]>, tensor<?x512xf32, ["s0"]>) -> tensor<512x512xf32>
  %2 = "cuesta.add"(%0, %1) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %2 : tensor<512x512xf32>
}

// Somebody else wants a product that is added.
// CHECK-LABEL: func.func @second_user
// CHECK-NEXT: "cuesta.mm"
// CHECK-NEXT: "cuesta.mm"
// CHECK-NEXT: "cuesta.add"
func.func @second_user(%a: tensor<64x1xf32>, %b: tensor<1x64xf32>, %c: tensor<64x3xf32>, %d: tensor<3x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = "cuesta.mm"(%a, %b) : (tensor<64x1xf32>, tensor<1x64xf32>) -> tensor<64x64xf32>
  %1 = "cuesta.mm"(%c, %d) : (tensor<64x3xf32>, tensor<3x64xf32>) -> tensor<64x64xf32>
  %2 = "cuesta.add"(%0, %1) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1, %2 : tensor<64x64xf32>, tensor<64x64xf32>
}

// The factors are larger than the product: the gradient of what three layers read.
// CHECK-LABEL: func.func @long_sums
// CHECK-NEXT: "cuesta.mm"
// CHECK-NEXT: "cuesta.mm"
// CHECK-NEXT: "cuesta.add"
func.func @long_sums(%a: tensor<8x64xf32>, %b: tensor<64x64xf32>, %c: tensor<8x64xf32>, %d: tensor<64x64xf32>) -> tensor<8x64xf32> {
  %0 = "cuesta.mm"(%a, %b) : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %1 = "cuesta.mm"(%c, %d) : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %2 = "cuesta.add"(%0, %1) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %2 : tensor<8x64xf32>
}

// What broadcasts is no term of a sum of products.
// CHECK-LABEL: func.func @broadcast
// CHECK-NEXT: "cuesta.mm"
// CHECK-NEXT: "cuesta.mm"
func.func @broadcast(%a: tensor<64x1xf32>, %b: tensor<1x64xf32>, %c: tensor<1x3xf32>, %d: tensor<3x64xf32>) -> tensor<64x64xf32> {
  %0 = "cuesta.mm"(%a, %b) : (tensor<64x1xf32>, tensor<1x64xf32>) -> tensor<64x64xf32>
  %1 = "cuesta.mm"(%c, %d) : (tensor<1x3xf32>, tensor<3x64xf32>) -> tensor<1x64xf32>
  %2 = "cuesta.add"(%0, %1) : (tensor<64x64xf32>, tensor<1x64xf32>) -> tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}
