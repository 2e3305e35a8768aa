// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries)' %s | filecheck %s

// CHECK-LABEL: func.func @library
// CHECK-NEXT: "aten.call"
func.func @library(%a: tensor<9x2x3xf32>, %b: tensor<9x3x4xf32>) -> tensor<9x2x4xf32> {
  %0 = "cuesta.mm"(%a, %b) {route = "library"} : (tensor<9x2x3xf32>, tensor<9x3x4xf32>) -> tensor<9x2x4xf32>
  return %0 : tensor<9x2x4xf32>
}

// CHECK-LABEL: func.func @columns
// CHECK-SAME: (%[[A:.*]]: tensor<9x2x3xf32>, %[[B:.*]]: tensor<9x3x4xf32>)
// CHECK-NEXT: %[[L:.*]] = "cuesta.reshape"(%[[A]]) : (tensor<9x2x3xf32>) -> tensor<9x2x3x1xf32>
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[B]]) : (tensor<9x3x4xf32>) -> tensor<9x1x3x4xf32>
// CHECK-NEXT: %[[P:.*]] = "cuesta.mul"(%[[L]], %[[R]]) : {{.*}} -> tensor<9x2x3x4xf32>
// CHECK-NEXT: %[[S:.*]] = "cuesta.sum"(%[[P]]) {dims = [2], keepdim = 0 : i64}
// CHECK-NEXT: return %[[S]]
func.func @columns(%a: tensor<9x2x3xf32>, %b: tensor<9x3x4xf32>) -> tensor<9x2x4xf32> {
  %0 = "cuesta.mm"(%a, %b) {route = "columns"} : (tensor<9x2x3xf32>, tensor<9x3x4xf32>) -> tensor<9x2x4xf32>
  return %0 : tensor<9x2x4xf32>
}

// What is narrow is multiplied and summed in f32.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[A:.*]]: tensor<2x3xbf16>, %[[B:.*]]: tensor<3x4xbf16>)
// CHECK-DAG: %[[WA:.*]] = "cuesta.convert"(%[[A]]) : {{.*}} -> tensor<2x3xf32>
// CHECK-DAG: %[[WB:.*]] = "cuesta.convert"(%[[B]]) : {{.*}} -> tensor<3x4xf32>
// CHECK: %[[T:.*]] = "cuesta.permute"(%[[WB]]) {dims = [1, 0]}
// CHECK: %[[P:.*]] = "cuesta.mul"({{.*}}) : (tensor<2x1x3xf32>, tensor<1x4x3xf32>) -> tensor<2x4x3xf32>
// CHECK-NEXT: %[[S:.*]] = "cuesta.sum"(%[[P]]) {dims = [2], keepdim = 0 : i64}
// CHECK-NEXT: %[[N:.*]] = "cuesta.convert"(%[[S]]) : (tensor<2x4xf32>) -> tensor<2x4xbf16>
// CHECK-NEXT: return %[[N]]
func.func @rows(%a: tensor<2x3xbf16>, %b: tensor<3x4xbf16>) -> tensor<2x4xbf16> {
  %0 = "cuesta.mm"(%a, %b) {route = "rows"} : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xbf16>
  return %0 : tensor<2x4xbf16>
}

// CHECK-LABEL: func.func @scaled
// CHECK-SAME: (%[[C:.*]]: tensor<4xf32>,
// CHECK: %[[S:.*]] = "cuesta.sum"
// CHECK: %[[SA:.*]] = "cuesta.mul"(%[[S]],
// CHECK: %[[CB:.*]] = "cuesta.mul"(%[[C]],
// CHECK-NEXT: "cuesta.add"(%[[SA]], %[[CB]])
func.func @scaled(%c: tensor<4xf32>, %a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %0 = "cuesta.addmm"(%c, %a, %b) {beta = 2.0 : f64, alpha = 0.5 : f64, route = "columns"} : (tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// As in BLAS, beta = 0 leaves the bias out, NaN or not.
// CHECK-LABEL: func.func @no_bias
// CHECK-NOT: "cuesta.add"
// CHECK: return
func.func @no_bias(%c: tensor<4xf32>, %a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %0 = "cuesta.addmm"(%c, %a, %b) {beta = 0.0 : f64, alpha = 1.0 : f64, route = "rows"} : (tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
