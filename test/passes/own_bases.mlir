// RUN: cuesta-opt --pass-pipeline='builtin.module(own-bases)' %s | filecheck %s

// The second sum has zeros of its own, and so has the first: what else reads the constant is no write.
// CHECK-LABEL: func.func @two_sums
// CHECK: %[[SHARED:.*]] = "cuesta.constant"
// CHECK: %[[ZEROS:.*]] = "cuesta.constant"() {value = 0.000000e+00 : f64} : () -> tensor<4x8xf32>
// CHECK: "cuesta.scatter"(%[[ZEROS]], %arg0
// CHECK: %[[OTHER:.*]] = "cuesta.constant"() {value = 0.000000e+00 : f64} : () -> tensor<4x8xf32>
// CHECK: "cuesta.scatter"(%[[OTHER]], %arg1
// CHECK: "cuesta.maximum"(%{{.*}}, %[[SHARED]])
func.func @two_sums(%a: tensor<9x8xf32>, %b: tensor<9x8xf32>, %at: tensor<9x8xi64>) -> tensor<4x8xf32> {
  %zeros = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<4x8xf32>
  %0 = "cuesta.scatter"(%zeros, %a, %at) {combine = "add", operandSegmentSizes = array<i32: 1, 1, 1>, walks = [-1, 1]} : (tensor<4x8xf32>, tensor<9x8xf32>, tensor<9x8xi64>) -> tensor<4x8xf32>
  %1 = "cuesta.scatter"(%zeros, %b, %at) {combine = "add", operandSegmentSizes = array<i32: 1, 1, 1>, walks = [-1, 1]} : (tensor<4x8xf32>, tensor<9x8xf32>, tensor<9x8xi64>) -> tensor<4x8xf32>
  %2 = "cuesta.maximum"(%0, %zeros) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = "cuesta.add"(%1, %2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// A constant with one user, and a tensor that the graph gets, stay as they are.
// CHECK-LABEL: func.func @alone
// CHECK-COUNT-1: "cuesta.constant"
// CHECK-NOT: "cuesta.constant"
// CHECK: "cuesta.scatter"(%arg0
// CHECK: "cuesta.scatter"(%arg0
func.func @alone(%x: tensor<4x8xf32>, %a: tensor<9x8xf32>, %at: tensor<9x8xi64>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %zeros = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<4x8xf32>
  %0 = "cuesta.scatter"(%zeros, %a, %at) {combine = "add", operandSegmentSizes = array<i32: 1, 1, 1>, walks = [-1, 1]} : (tensor<4x8xf32>, tensor<9x8xf32>, tensor<9x8xi64>) -> tensor<4x8xf32>
  %1 = "cuesta.scatter"(%x, %a, %at) {combine = "add", operandSegmentSizes = array<i32: 1, 1, 1>, walks = [-1, 1]} : (tensor<4x8xf32>, tensor<9x8xf32>, tensor<9x8xi64>) -> tensor<4x8xf32>
  %2 = "cuesta.scatter"(%x, %a, %at) {combine = "max", operandSegmentSizes = array<i32: 1, 1, 1>, walks = [-1, 1]} : (tensor<4x8xf32>, tensor<9x8xf32>, tensor<9x8xi64>) -> tensor<4x8xf32>
  return %0, %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
