// RUN: cuesta-opt --pass-pipeline='builtin.module(hoist-reshapes)' %s | filecheck %s

// CHECK-LABEL: func.func @above_gelu
// CHECK-SAME: (%[[X:.*]]: tensor<2x128x8xf32>)
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<2x128x8xf32>) -> tensor<256x8xf32>
// CHECK-NEXT: %[[G:.*]] = "cuesta.gelu"(%[[R]]) : (tensor<256x8xf32>) -> tensor<256x8xf32>
// CHECK-NEXT: return %[[G]]
func.func @above_gelu(%x: tensor<2x128x8xf32>) -> tensor<256x8xf32> {
  %0 = "cuesta.gelu"(%x) : (tensor<2x128x8xf32>) -> tensor<2x128x8xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<2x128x8xf32>) -> tensor<256x8xf32>
  return %1 : tensor<256x8xf32>
}

// It moves on past the ops before, above each operand; a single number needs no reshape, and
// parameters stay with their op.
// CHECK-LABEL: func.func @above_a_tree
// CHECK-SAME: (%[[X:.*]]: tensor<2x4xf32>, %[[N:.*]]: tensor<f32>, %[[C:.*]]: tensor<2x4xi1>)
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<2x4xf32>) -> tensor<8xf32>
// CHECK-NEXT: %[[M:.*]] = "cuesta.mul"(%[[R]], %[[N]]) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK-NEXT: %[[S:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<2x4xf32>) -> tensor<8xf32>
// CHECK-NEXT: %[[L:.*]] = "cuesta.leaky_relu"(%[[S]]) {negative_slope = 1.000000e-01 : f64} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: %[[T:.*]] = "cuesta.reshape"(%[[C]]) : (tensor<2x4xi1>) -> tensor<8xi1>
// CHECK-NEXT: %[[W:.*]] = "cuesta.where"(%[[T]], %[[M]], %[[L]])
// CHECK-NEXT: return %[[W]]
func.func @above_a_tree(%x: tensor<2x4xf32>, %n: tensor<f32>, %c: tensor<2x4xi1>) -> tensor<8xf32> {
  %0 = "cuesta.mul"(%x, %n) : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %1 = "cuesta.leaky_relu"(%x) {negative_slope = 0.1 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = "cuesta.where"(%c, %0, %1) : (tensor<2x4xi1>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<2x4xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// A reshape of what broadcasts is no reshape.
// CHECK-LABEL: func.func @broadcast
// CHECK-NEXT: %[[A:.*]] = "cuesta.add"
// CHECK-NEXT: "cuesta.reshape"(%[[A]])
func.func @broadcast(%x: tensor<2x4xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
  %0 = "cuesta.add"(%x, %b) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<2x4xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Somebody else wants the shape that was.
// CHECK-LABEL: func.func @second_user
// CHECK-NEXT: %[[N:.*]] = "cuesta.neg"
// CHECK-NEXT: "cuesta.reshape"(%[[N]])
func.func @second_user(%x: tensor<2x4xf32>) -> (tensor<8xf32>, tensor<2x4xf32>) {
  %0 = "cuesta.neg"(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<2x4xf32>) -> tensor<8xf32>
  return %1, %0 : tensor<8xf32>, tensor<2x4xf32>
}

// CHECK-LABEL: func.func @not_pointwise
// CHECK-NEXT: %[[S:.*]] = "cuesta.sum"
// CHECK-NEXT: "cuesta.reshape"(%[[S]])
func.func @not_pointwise(%x: tensor<2x4x3xf32>) -> tensor<8xf32> {
  %0 = "cuesta.sum"(%x) {dims = [2], keepdim = 0 : i64} : (tensor<2x4x3xf32>) -> tensor<2x4xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<2x4xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// One reshape undoes the other: nothing is left of both, and what is between them keeps the shape of what it reads.
// CHECK-LABEL: func.func @there_and_back
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<f32>)
// CHECK-NEXT: %[[S:.*]] = "cuesta.add"(%[[X]], %[[B]])
// CHECK-NEXT: %[[N:.*]] = "cuesta.neg"(%[[S]])
// CHECK-NEXT: return %[[N]]
func.func @there_and_back(%x: tensor<8xf32>, %b: tensor<f32>) -> tensor<8xf32> {
  %0 = "cuesta.add"(%x, %b) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<8xf32>) -> tensor<2x4xf32>
  %2 = "cuesta.neg"(%1) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<2x4xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// Behind a product that is a kernel, what only the caller reads reshaped stays with the product.
// CHECK-LABEL: func.func @epilogue
// CHECK: %[[P:.*]] = "cuesta.mm"
// CHECK-NEXT: %[[N:.*]] = "cuesta.convert"(%[[P]])
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[N]])
// CHECK-NEXT: return %[[R]]
func.func @epilogue(%a: tensor<32x64xbf16>, %b: tensor<64x16xbf16>) -> tensor<2x16x16xbf16> {
  %0 = "cuesta.mm"(%a, %b) {product = "32x16x64/4/3"} : (tensor<32x64xbf16>, tensor<64x16xbf16>) -> tensor<32x16xf32>
  %1 = "cuesta.convert"(%0) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
  %2 = "cuesta.reshape"(%1) : (tensor<32x16xbf16>) -> tensor<2x16x16xbf16>
  return %2 : tensor<2x16x16xbf16>
}

// So does what another product reads reshaped: its kernel takes in none of this.
// CHECK-LABEL: func.func @epilogue_before_a_product
// CHECK: "cuesta.mm"
// CHECK-NEXT: "cuesta.add"
// CHECK-NEXT: "cuesta.gelu"(%{{.*}}) : (tensor<2x16x16xf32>)
// CHECK-NEXT: "cuesta.reshape"
// CHECK-NEXT: "cuesta.mm"
func.func @epilogue_before_a_product(%a: tensor<2x16x64xf32>, %b: tensor<64x16xf32>, %bias: tensor<16xf32>, %c: tensor<16x64xf32>) -> tensor<32x64xf32> {
  %0 = "cuesta.mm"(%a, %b) {product = "32x16x64 by 8x48"} : (tensor<2x16x64xf32>, tensor<64x16xf32>) -> tensor<2x16x16xf32>
  %1 = "cuesta.add"(%0, %bias) : (tensor<2x16x16xf32>, tensor<16xf32>) -> tensor<2x16x16xf32>
  %2 = "cuesta.gelu"(%1) : (tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
  %4 = "cuesta.mm"(%3, %c) {product = "32x64x16 by 6x64"} : (tensor<32x16xf32>, tensor<16x64xf32>) -> tensor<32x64xf32>
  return %4 : tensor<32x64xf32>
}

// What is only returned meets nothing above, and would part from what reads an operand beside it.
// CHECK-LABEL: func.func @only_returned
// CHECK-SAME: (%[[X:.*]]: tensor<2x4xf32>)
// CHECK: %[[A:.*]] = "cuesta.exp"(%[[X]])
// CHECK: %[[B:.*]] = "cuesta.neg"(%[[A]]) : (tensor<2x4xf32>)
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[B]])
// CHECK: return %[[R]]
func.func @only_returned(%x: tensor<2x4xf32>) -> (tensor<8xf32>, tensor<2xf32>) {
  %0 = "cuesta.exp"(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = "cuesta.neg"(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<2x4xf32>) -> tensor<8xf32>
  %3 = "cuesta.sum"(%0) {dims = [1], keepdim = 0} : (tensor<2x4xf32>) -> tensor<2xf32>
  return %2, %3 : tensor<8xf32>, tensor<2xf32>
}

// No op of ours reads the rows of a norm as a matrix: the product's library takes them as they lie.
// CHECK-LABEL: func.func @behind_a_norm
// CHECK: %[[S:.*]] = "cuesta.sum"
// CHECK-NEXT: %[[D:.*]] = "cuesta.sub"
// CHECK-NEXT: %[[G:.*]] = "cuesta.gelu"(%[[D]])
// CHECK-NEXT: "cuesta.reshape"(%[[G]])
func.func @behind_a_norm(%x: tensor<2x4x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = "cuesta.sum"(%x) {dims = [2], keepdim = 1 : i64} : (tensor<2x4x8xf32>) -> tensor<2x4x1xf32>
  %1 = "cuesta.sub"(%x, %0) : (tensor<2x4x8xf32>, tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %2 = "cuesta.gelu"(%1) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
  %4 = "aten.call"(%3, %w) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[8, 1]]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

// Reshapes that moved up from two readers of one value are one, which then is its only user, and moves on.
// CHECK-LABEL: func.func @twins
// CHECK-SAME: (%[[X:.*]]: tensor<2x4xf32>, %[[Y:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<2x4xf32>) -> tensor<8xf32>
// CHECK-NEXT: %[[E:.*]] = "cuesta.exp"(%[[R]])
// CHECK-NEXT: %[[S:.*]] = "cuesta.sin"(%[[E]])
// CHECK-NEXT: %[[C:.*]] = "cuesta.cos"(%[[E]])
// CHECK-NEXT: %[[A:.*]] = "cuesta.add"(%[[S]], %[[Y]])
// CHECK-NEXT: %[[B:.*]] = "cuesta.add"(%[[C]], %[[Y]])
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @twins(%x: tensor<2x4xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = "cuesta.exp"(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = "cuesta.sin"(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = "cuesta.cos"(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = "cuesta.reshape"(%1) : (tensor<2x4xf32>) -> tensor<8xf32>
  %4 = "cuesta.reshape"(%2) : (tensor<2x4xf32>) -> tensor<8xf32>
  %5 = "cuesta.add"(%3, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %6 = "cuesta.add"(%4, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %5, %6 : tensor<8xf32>, tensor<8xf32>
}
