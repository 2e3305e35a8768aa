// RUN: cuesta-opt --pass-pipeline='builtin.module(sum-one-hot)' %s | filecheck %s

// The gradient of a loss by log-probabilities: one element a row, none where the target is ignored or no class.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: (%[[G:.*]]: tensor<f32>, %[[T:.*]]: tensor<8x1xi64>, %[[V:.*]]: tensor<8x1xi1>)
// CHECK: %[[ROW:.*]] = "cuesta.where"{{.*}} -> tensor<8x100000xf32>
// CHECK: %[[LOW:.*]] = "cuesta.ge"(%[[T]], %{{.*}})
// CHECK: %[[SIZE:.*]] = "cuesta.constant"() {value = 100000 : i64}
// CHECK: %[[HIGH:.*]] = "cuesta.lt"(%[[T]], %[[SIZE]])
// CHECK: %[[IN:.*]] = "cuesta.logical_and"(%[[LOW]], %[[HIGH]])
// CHECK: %[[ALL:.*]] = "cuesta.logical_and"(%[[IN]], %[[V]])
// CHECK: %[[SUM:.*]] = "cuesta.where"(%[[ALL]], %[[G]], %{{.*}}) : {{.*}} -> tensor<8x1xf32>
// CHECK: return %[[ROW]], %[[SUM]]
func.func @loss(%g: tensor<f32>, %t: tensor<8x1xi64>, %v: tensor<8x1xi1>) -> (tensor<8x100000xf32>, tensor<8x1xf32>) {
  %0 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<100000xi64>
  %1 = "cuesta.eq"(%0, %t) : (tensor<100000xi64>, tensor<8x1xi64>) -> tensor<8x100000xi1>
  %2 = "cuesta.logical_and"(%1, %v) : (tensor<8x100000xi1>, tensor<8x1xi1>) -> tensor<8x100000xi1>
  %3 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<f32>
  %4 = "cuesta.where"(%2, %g, %3) : (tensor<8x100000xi1>, tensor<f32>, tensor<f32>) -> tensor<8x100000xf32>
  %5 = "cuesta.sum"(%4) {dims = [1], keepdim = 1 : i64} : (tensor<8x100000xf32>) -> tensor<8x1xf32>
  return %4, %5 : tensor<8x100000xf32>, tensor<8x1xf32>
}

// Rows along another dim than the last, and a sum without that dim.
// CHECK-LABEL: func.func @columns
// CHECK-NOT: "cuesta.sum"
// CHECK: %[[W:.*]] = "cuesta.where"{{.*}} -> tensor<2x1x4xf32>
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[W]]) : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
// CHECK: return %[[R]]
func.func @columns(%g: tensor<2x1x4xf32>, %t: tensor<2x1x4xi64>) -> tensor<2x4xf32> {
  %0 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<100000xi64>
  %1 = "cuesta.reshape"(%0) : (tensor<100000xi64>) -> tensor<100000x1xi64>
  %2 = "cuesta.eq"(%t, %1) : (tensor<2x1x4xi64>, tensor<100000x1xi64>) -> tensor<2x100000x4xi1>
  %3 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<f32>
  %4 = "cuesta.where"(%2, %g, %3) : (tensor<2x100000x4xi1>, tensor<2x1x4xf32>, tensor<f32>) -> tensor<2x100000x4xf32>
  %5 = "cuesta.sum"(%4) {dims = [1], keepdim = 0 : i64} : (tensor<2x100000x4xf32>) -> tensor<2x4xf32>
  return %5 : tensor<2x4xf32>
}

// Stay sums: values that differ along the row, positions that do, a condition that does, places that are counted from
// 1, another value than zero elsewhere, a sum along the rows' other dim, and a row that the program sums that writes
// what is made of it.
// CHECK-LABEL: func.func @sums
// CHECK-COUNT-7: "cuesta.sum"
func.func @sums(%x: tensor<8x100000xf32>, %g: tensor<8x1xf32>, %t: tensor<8x1xi64>, %u: tensor<8x100000xi64>, %v: tensor<8x100000xi1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<100000xf32>, tensor<8xf32>) {
  %z = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<f32>
  %o = "cuesta.constant"() {value = 1.0 : f64} : () -> tensor<f32>
  %r = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<100000xi64>
  %s = "cuesta.iota"() {start = 1 : i64, step = 1 : i64} : () -> tensor<100000xi64>
  %0 = "cuesta.eq"(%r, %t) : (tensor<100000xi64>, tensor<8x1xi64>) -> tensor<8x100000xi1>
  %1 = "cuesta.eq"(%r, %u) : (tensor<100000xi64>, tensor<8x100000xi64>) -> tensor<8x100000xi1>
  %2 = "cuesta.logical_and"(%0, %v) : (tensor<8x100000xi1>, tensor<8x100000xi1>) -> tensor<8x100000xi1>
  %3 = "cuesta.eq"(%s, %t) : (tensor<100000xi64>, tensor<8x1xi64>) -> tensor<8x100000xi1>
  %4 = "cuesta.where"(%0, %x, %z) : (tensor<8x100000xi1>, tensor<8x100000xf32>, tensor<f32>) -> tensor<8x100000xf32>
  %5 = "cuesta.where"(%1, %g, %z) : (tensor<8x100000xi1>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x100000xf32>
  %6 = "cuesta.where"(%2, %g, %z) : (tensor<8x100000xi1>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x100000xf32>
  %7 = "cuesta.where"(%3, %g, %z) : (tensor<8x100000xi1>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x100000xf32>
  %8 = "cuesta.where"(%0, %g, %o) : (tensor<8x100000xi1>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x100000xf32>
  %9 = "cuesta.where"(%0, %g, %z) : (tensor<8x100000xi1>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x100000xf32>
  %10 = "cuesta.sum"(%4) {dims = [1], keepdim = 0 : i64} : (tensor<8x100000xf32>) -> tensor<8xf32>
  %11 = "cuesta.sum"(%5) {dims = [1], keepdim = 0 : i64} : (tensor<8x100000xf32>) -> tensor<8xf32>
  %12 = "cuesta.sum"(%6) {dims = [1], keepdim = 0 : i64} : (tensor<8x100000xf32>) -> tensor<8xf32>
  %13 = "cuesta.sum"(%7) {dims = [1], keepdim = 0 : i64} : (tensor<8x100000xf32>) -> tensor<8xf32>
  %14 = "cuesta.sum"(%8) {dims = [1], keepdim = 0 : i64} : (tensor<8x100000xf32>) -> tensor<8xf32>
  %15 = "cuesta.sum"(%9) {dims = [0], keepdim = 0 : i64} : (tensor<8x100000xf32>) -> tensor<100000xf32>
  %p = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<1000xi64>
  %16 = "cuesta.eq"(%p, %t) : (tensor<1000xi64>, tensor<8x1xi64>) -> tensor<8x1000xi1>
  %17 = "cuesta.where"(%16, %g, %z) : (tensor<8x1000xi1>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x1000xf32>
  %18 = "cuesta.sum"(%17) {dims = [1], keepdim = 0 : i64} : (tensor<8x1000xf32>) -> tensor<8xf32>
  return %10, %11, %12, %13, %14, %15, %18 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<100000xf32>, tensor<8xf32>
}
