// RUN: cuesta-opt --pass-pipeline='builtin.module(share-reshaped{small=64})' --split-input-file %s | filecheck %s

// The sum's kernel reads three tensors and computes from them what two others read: they read its result. A wider type
// is each reader's own affair.
// CHECK-LABEL: func.func @residual
// CHECK-SAME: (%[[A:[^:]*]]: tensor<8x64xbf16>, %[[B:[^:]*]]: tensor<8x64xbf16>, %[[Y:[^:]*]]: tensor<8x64xbf16>)
// CHECK-DAG: %[[A2:.*]] = "cuesta.reshape"(%[[A]])
// CHECK-DAG: %[[B2:.*]] = "cuesta.reshape"(%[[B]])
// CHECK: %[[S:.*]] = "cuesta.add"(%[[A2]], %[[B2]])
// CHECK: %[[Y2:.*]] = "cuesta.reshape"(%[[Y]])
// CHECK: %[[G:.*]] = "cuesta.threshold_backward"(%[[S]], %[[Y2]])
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[G]]) : (tensor<8x4x16xbf16>) -> tensor<8x64xbf16>
// CHECK-NOT: "cuesta.add"
// CHECK: "cuesta.exp"(%[[R]])
// CHECK: "cuesta.neg"(%[[R]])
// CHECK: %[[W:.*]] = "cuesta.convert"(%[[G]])
// CHECK: "cuesta.sum"(%[[W]])
func.func @residual(%a: tensor<8x64xbf16>, %b: tensor<8x64xbf16>, %y: tensor<8x64xbf16>) -> (tensor<8x64xbf16>, tensor<8x64xbf16>, tensor<8x4xf32>) {
  %0 = "cuesta.add"(%a, %b) : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %1 = "cuesta.threshold_backward"(%0, %y) {threshold = 0.0 : f64} : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %2 = "cuesta.exp"(%1) : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %3 = "cuesta.neg"(%1) : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %4 = "cuesta.reshape"(%a) : (tensor<8x64xbf16>) -> tensor<8x4x16xbf16>
  %5 = "cuesta.reshape"(%b) : (tensor<8x64xbf16>) -> tensor<8x4x16xbf16>
  %6 = "cuesta.add"(%4, %5) : (tensor<8x4x16xbf16>, tensor<8x4x16xbf16>) -> tensor<8x4x16xbf16>
  %7 = "cuesta.reshape"(%y) : (tensor<8x64xbf16>) -> tensor<8x4x16xbf16>
  %8 = "cuesta.threshold_backward"(%6, %7) {threshold = 0.0 : f64} : (tensor<8x4x16xbf16>, tensor<8x4x16xbf16>) -> tensor<8x4x16xbf16>
  %9 = "cuesta.convert"(%8) : (tensor<8x4x16xbf16>) -> tensor<8x4x16xf32>
  %10 = "cuesta.sum"(%9) {dims = [2], keepdim = 0 : i64} : (tensor<8x4x16xf32>) -> tensor<8x4xf32>
  return %2, %3, %10 : tensor<8x64xbf16>, tensor<8x64xbf16>, tensor<8x4xf32>
}

// -----

// One reader of two tensors reads no more than the sum's result, which would have to be written; with another attribute
// it is not the same; and what no reduction reads has no kernel that reads all of it anyway.
// CHECK-LABEL: func.func @left_alone
// CHECK-COUNT-6: "cuesta.threshold_backward"
func.func @left_alone(%a: tensor<8x64xbf16>, %b: tensor<8x64xbf16>) -> (tensor<8x64xbf16>, tensor<8x4xbf16>, tensor<8x64xbf16>, tensor<8x64xbf16>, tensor<8x4xbf16>, tensor<8x64xbf16>, tensor<8x64xbf16>, tensor<8x4x16xbf16>) {
  %0 = "cuesta.threshold_backward"(%a, %b) {threshold = 0.0 : f64} : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %1 = "cuesta.exp"(%0) : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %2 = "cuesta.reshape"(%a) : (tensor<8x64xbf16>) -> tensor<8x4x16xbf16>
  %3 = "cuesta.reshape"(%b) : (tensor<8x64xbf16>) -> tensor<8x4x16xbf16>
  %4 = "cuesta.threshold_backward"(%2, %3) {threshold = 0.0 : f64} : (tensor<8x4x16xbf16>, tensor<8x4x16xbf16>) -> tensor<8x4x16xbf16>
  %5 = "cuesta.sum"(%4) {dims = [2], keepdim = 0 : i64} : (tensor<8x4x16xbf16>) -> tensor<8x4xbf16>
  %6 = "cuesta.threshold_backward"(%a, %b) {threshold = 1.0 : f64} : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %7 = "cuesta.exp"(%6) : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %8 = "cuesta.neg"(%6) : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %9 = "cuesta.threshold_backward"(%2, %3) {threshold = 2.0 : f64} : (tensor<8x4x16xbf16>, tensor<8x4x16xbf16>) -> tensor<8x4x16xbf16>
  %10 = "cuesta.sum"(%9) {dims = [2], keepdim = 0 : i64} : (tensor<8x4x16xbf16>) -> tensor<8x4xbf16>
  %11 = "cuesta.threshold_backward"(%a, %b) {threshold = 3.0 : f64} : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %12 = "cuesta.exp"(%11) : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %13 = "cuesta.neg"(%11) : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %14 = "cuesta.threshold_backward"(%2, %3) {threshold = 3.0 : f64} : (tensor<8x4x16xbf16>, tensor<8x4x16xbf16>) -> tensor<8x4x16xbf16>
  return %1, %5, %7, %8, %10, %12, %13, %14 : tensor<8x64xbf16>, tensor<8x4xbf16>, tensor<8x64xbf16>, tensor<8x64xbf16>, tensor<8x4xbf16>, tensor<8x64xbf16>, tensor<8x64xbf16>, tensor<8x4x16xbf16>
}

// -----

// Numbers that fill a tensor have a shape of their own. What is rounded in the end is shared, and not the wide numbers.
// CHECK-LABEL: func.func @scaled
// CHECK: %[[N:.*]] = "cuesta.convert"(%{{.*}}) : (tensor<8x4x16xf32>) -> tensor<8x4x16xbf16>
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[N]]) : (tensor<8x4x16xbf16>) -> tensor<8x64xbf16>
// CHECK-NOT: "cuesta.mul"
// CHECK: "cuesta.exp"(%[[R]])
// CHECK: "cuesta.neg"(%[[R]])
// CHECK: "cuesta.sum"
func.func @scaled(%a: tensor<8x64xbf16>, %b: tensor<8x64xbf16>) -> (tensor<8x64xbf16>, tensor<8x64xbf16>, tensor<8x4xf32>) {
  %0 = "cuesta.constant"() {value = 30.0 : f64} : () -> tensor<f32>
  %1 = "cuesta.convert"(%a) : (tensor<8x64xbf16>) -> tensor<8x64xf32>
  %2 = "cuesta.mul"(%1, %0) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
  %15 = "cuesta.convert"(%b) : (tensor<8x64xbf16>) -> tensor<8x64xf32>
  %3 = "cuesta.mul"(%2, %15) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %4 = "cuesta.convert"(%3) : (tensor<8x64xf32>) -> tensor<8x64xbf16>
  %5 = "cuesta.exp"(%4) : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %6 = "cuesta.neg"(%4) : (tensor<8x64xbf16>) -> tensor<8x64xbf16>
  %7 = "cuesta.reshape"(%a) : (tensor<8x64xbf16>) -> tensor<8x4x16xbf16>
  %8 = "cuesta.convert"(%7) : (tensor<8x4x16xbf16>) -> tensor<8x4x16xf32>
  %9 = "cuesta.reshape"(%0) : (tensor<f32>) -> tensor<1x1x1xf32>
  %10 = "cuesta.mul"(%8, %9) : (tensor<8x4x16xf32>, tensor<1x1x1xf32>) -> tensor<8x4x16xf32>
  %16 = "cuesta.reshape"(%b) : (tensor<8x64xbf16>) -> tensor<8x4x16xbf16>
  %17 = "cuesta.convert"(%16) : (tensor<8x4x16xbf16>) -> tensor<8x4x16xf32>
  %11 = "cuesta.mul"(%10, %17) : (tensor<8x4x16xf32>, tensor<8x4x16xf32>) -> tensor<8x4x16xf32>
  %12 = "cuesta.convert"(%11) : (tensor<8x4x16xf32>) -> tensor<8x4x16xbf16>
  %13 = "cuesta.convert"(%12) : (tensor<8x4x16xbf16>) -> tensor<8x4x16xf32>
  %14 = "cuesta.sum"(%13) {dims = [2], keepdim = 0 : i64} : (tensor<8x4x16xf32>) -> tensor<8x4xf32>
  return %5, %6, %14 : tensor<8x64xbf16>, tensor<8x64xbf16>, tensor<8x4xf32>
}

// -----

// A factor of each row has other dims in the one shape than in the other. A call reads the product in any case, and rows
// at computed positions would be written for the sum alone: the sum reads the product.
// CHECK-LABEL: func.func @rows
// CHECK: %[[P:.*]] = "cuesta.mul"(%{{.*}}, %{{.*}}) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
// CHECK: "aten.call"(%[[P]],
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[P]]) : (tensor<8x64xf32>) -> tensor<2x4x64xf32>
// CHECK: "cuesta.sum"(%[[R]])
func.func @rows(%a: tensor<5x64xf32>, %i: tensor<8xi64>, %f: tensor<8xf32>, %w: tensor<64x64xf32>) -> (tensor<8x64xf32>, tensor<2x64xf32>) {
  %0 = "cuesta.index"(%a, %i) {dims = [0], operandSegmentSizes = array<i32: 1, 1>} : (tensor<5x64xf32>, tensor<8xi64>) -> tensor<8x64xf32>
  %1 = "cuesta.reshape"(%f) : (tensor<8xf32>) -> tensor<8x1xf32>
  %2 = "cuesta.mul"(%0, %1) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
  %3 = "aten.call"(%2, %w) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "matrix products run in the library", result_strides = [[64, 1]]} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %4 = "cuesta.reshape"(%0) : (tensor<8x64xf32>) -> tensor<2x4x64xf32>
  %5 = "cuesta.reshape"(%f) : (tensor<8xf32>) -> tensor<2x4x1xf32>
  %6 = "cuesta.mul"(%4, %5) : (tensor<2x4x64xf32>, tensor<2x4x1xf32>) -> tensor<2x4x64xf32>
  %7 = "cuesta.sum"(%6) {dims = [1], keepdim = 0 : i64} : (tensor<2x4x64xf32>) -> tensor<2x64xf32>
  return %3, %7 : tensor<8x64xf32>, tensor<2x64xf32>
}

// -----

// The same elements of a factor lie along other dims: another product.
// CHECK-LABEL: func.func @turned
// CHECK-COUNT-2: "cuesta.mul"
func.func @turned(%a: tensor<5x8xf32>, %i: tensor<8xi64>, %f: tensor<8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<2x8xf32>) {
  %0 = "cuesta.index"(%a, %i) {dims = [0], operandSegmentSizes = array<i32: 1, 1>} : (tensor<5x8xf32>, tensor<8xi64>) -> tensor<8x8xf32>
  %1 = "cuesta.reshape"(%f) : (tensor<8xf32>) -> tensor<8x1xf32>
  %2 = "cuesta.mul"(%0, %1) : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %3 = "aten.call"(%2, %w) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "matrix products run in the library", result_strides = [[8, 1]]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = "cuesta.reshape"(%0) : (tensor<8x8xf32>) -> tensor<2x4x8xf32>
  %5 = "cuesta.reshape"(%f) : (tensor<8xf32>) -> tensor<1x1x8xf32>
  %6 = "cuesta.mul"(%4, %5) : (tensor<2x4x8xf32>, tensor<1x1x8xf32>) -> tensor<2x4x8xf32>
  %7 = "cuesta.sum"(%6) {dims = [1], keepdim = 0 : i64} : (tensor<2x4x8xf32>) -> tensor<2x8xf32>
  return %3, %7 : tensor<8x8xf32>, tensor<2x8xf32>
}

// -----

// A factor of each column, and the same elements as a factor of each row.
// CHECK-LABEL: func.func @rows_and_columns
// CHECK-COUNT-2: "cuesta.mul"
func.func @rows_and_columns(%a: tensor<5x8xf32>, %i: tensor<8xi64>, %f: tensor<8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<2x8xf32>) {
  %0 = "cuesta.index"(%a, %i) {dims = [0], operandSegmentSizes = array<i32: 1, 1>} : (tensor<5x8xf32>, tensor<8xi64>) -> tensor<8x8xf32>
  %1 = "cuesta.mul"(%0, %f) : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %2 = "aten.call"(%1, %w) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "matrix products run in the library", result_strides = [[8, 1]]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = "cuesta.reshape"(%0) : (tensor<8x8xf32>) -> tensor<2x4x8xf32>
  %4 = "cuesta.reshape"(%f) : (tensor<8xf32>) -> tensor<2x4x1xf32>
  %5 = "cuesta.mul"(%3, %4) : (tensor<2x4x8xf32>, tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %6 = "cuesta.sum"(%5) {dims = [1], keepdim = 0 : i64} : (tensor<2x4x8xf32>) -> tensor<2x8xf32>
  return %2, %6 : tensor<8x8xf32>, tensor<2x8xf32>
}
