// RUN: cuesta-opt --pass-pipeline='builtin.module(repeat-positions)' %s | filecheck %s

// Each reader counts for itself: the mask, and the positions that it is made of. A constant stays one.
// CHECK-LABEL: func.func @masks
// CHECK: %[[ZERO:.*]] = "cuesta.constant"
// CHECK-DAG: %[[P:.*]] = "cuesta.iota"
// CHECK-DAG: %[[Q:.*]] = "cuesta.iota"
// CHECK-DAG: %[[M:.*]] = "cuesta.eq"(%{{.*}}, %[[ZERO]])
// CHECK-DAG: %[[N:.*]] = "cuesta.eq"(%{{.*}}, %[[ZERO]])
// CHECK-COUNT-2: "cuesta.where"
// CHECK-NOT: "cuesta.eq"
func.func @masks(%a: tensor<8x1xf32>, %b: tensor<8x1xf32>) -> (tensor<8x2xf32>, tensor<8x2xf32>) {
  %zero = "cuesta.constant"() {value = 0 : i64} : () -> tensor<i64>
  %at = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<2xi64>
  %first = "cuesta.eq"(%at, %zero) : (tensor<2xi64>, tensor<i64>) -> tensor<2xi1>
  %0 = "cuesta.where"(%first, %a, %b) : (tensor<2xi1>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x2xf32>
  %1 = "cuesta.where"(%first, %b, %a) : (tensor<2xi1>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x2xf32>
  return %0, %1 : tensor<8x2xf32>, tensor<8x2xf32>
}

// What is computed from a tensor, and what is dear, is computed once.
// CHECK-LABEL: func.func @once
// CHECK-COUNT-1: "cuesta.eq"
// CHECK-COUNT-1: "cuesta.sin"
// CHECK-NOT: "cuesta.eq"
// CHECK-NOT: "cuesta.sin"
func.func @once(%n: tensor<i64>, %a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %at = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<8xi64>
  %own = "cuesta.eq"(%at, %n) : (tensor<8xi64>, tensor<i64>) -> tensor<8xi1>
  %angle = "cuesta.iota"() {start = 0.0 : f64, step = 1.0 : f64} : () -> tensor<8xf32>
  %sin = "cuesta.sin"(%angle) : (tensor<8xf32>) -> tensor<8xf32>
  %0 = "cuesta.where"(%own, %a, %sin) : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = "cuesta.where"(%own, %sin, %a) : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// Calls share what they read from memory, and the caller.
// CHECK-LABEL: func.func @calls
// CHECK-COUNT-1: "cuesta.eq"
// CHECK-NOT: "cuesta.eq"
// CHECK: return
func.func @calls(%x: tensor<8xi1>) -> (tensor<8xi1>, tensor<8xi1>, tensor<8xi1>) {
  %four = "cuesta.constant"() {value = 4 : i64} : () -> tensor<i64>
  %at = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<8xi64>
  %mask = "cuesta.eq"(%at, %four) : (tensor<8xi64>, tensor<i64>) -> tensor<8xi1>
  %0 = "aten.call"(%x, %mask) {args = "[\22%0\22, \22%1\22]", overload = "aten.logical_and.default", route = "shim", reason = ""} : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
  %1 = "aten.call"(%x, %mask) {args = "[\22%0\22, \22%1\22]", overload = "aten.logical_or.default", route = "shim", reason = ""} : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
  return %0, %1, %mask : tensor<8xi1>, tensor<8xi1>, tensor<8xi1>
}

// What is computed from a table that is the same for all rows is computed by each reader.
// CHECK-LABEL: func.func @repeated_table
// CHECK-COUNT-2: "cuesta.add"
// CHECK-NOT: "cuesta.add"
func.func @repeated_table(%table: tensor<8xi64>, %a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %one = "cuesta.constant"() {value = 1 : i64} : () -> tensor<i64>
  %rows = "cuesta.expand"(%table) : (tensor<8xi64>) -> tensor<4x8xi64>
  %at = "cuesta.add"(%rows, %one) : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xi64>
  %0 = "cuesta.gather"(%a, %at) {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  %1 = "cuesta.gather"(%b, %at) {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// Positions that differ in each row, as those that a model computes, are computed once.
// CHECK-LABEL: func.func @positions_of_each_row
// CHECK-COUNT-1: "cuesta.add"
// CHECK-NOT: "cuesta.add"
func.func @positions_of_each_row(%rows: tensor<4x8xi64>, %a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %one = "cuesta.constant"() {value = 1 : i64} : () -> tensor<i64>
  %at = "cuesta.add"(%rows, %one) : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xi64>
  %0 = "cuesta.gather"(%a, %at) {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  %1 = "cuesta.gather"(%b, %at) {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xi64>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
