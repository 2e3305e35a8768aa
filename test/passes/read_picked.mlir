// RUN: cuesta-opt --pass-pipeline='builtin.module(read-picked)' %s | filecheck %s

// The target's element of each row, from the logits in memory and the row's own numbers; 0 for a target that is no
// class.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: (%[[X:.*]]: tensor<8x5000xbf16>, %[[M:.*]]: tensor<8x1xf32>, %[[T:.*]]: tensor<8x1xi64>)
// CHECK: %[[G:.*]] = "cuesta.gather"(%[[X]], %[[T]]) {dim = 1 : i64} : (tensor<8x5000xbf16>, tensor<8x1xi64>) -> tensor<8x1xbf16>
// CHECK-NEXT: %[[W:.*]] = "cuesta.convert"(%[[G]]) : (tensor<8x1xbf16>) -> tensor<8x1xf32>
// CHECK-NEXT: %[[S:.*]] = "cuesta.sub"(%[[W]], %[[M]])
// CHECK: %[[LOW:.*]] = "cuesta.ge"(%[[T]]
// CHECK: %[[HIGH:.*]] = "cuesta.lt"(%[[T]]
// CHECK: %[[IN:.*]] = "cuesta.logical_and"(%[[LOW]], %[[HIGH]])
// CHECK: %[[P:.*]] = "cuesta.where"(%[[IN]], %[[S]]
// CHECK: return %[[P]]
func.func @loss(%x: tensor<8x5000xbf16>, %m: tensor<8x1xf32>, %t: tensor<8x1xi64>) -> tensor<8x1xf32> {
  %0 = "cuesta.convert"(%x) : (tensor<8x5000xbf16>) -> tensor<8x5000xf32>
  %1 = "cuesta.sub"(%0, %m) : (tensor<8x5000xf32>, tensor<8x1xf32>) -> tensor<8x5000xf32>
  %2 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<5000xi64>
  %3 = "cuesta.eq"(%2, %t) : (tensor<5000xi64>, tensor<8x1xi64>) -> tensor<8x5000xi1>
  %4 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<f32>
  %5 = "cuesta.where"(%3, %1, %4) : (tensor<8x5000xi1>, tensor<8x5000xf32>, tensor<f32>) -> tensor<8x5000xf32>
  %6 = "cuesta.sum"(%5) {dims = [1], keepdim = 1 : i64} : (tensor<8x5000xf32>) -> tensor<8x1xf32>
  return %6 : tensor<8x1xf32>
}

// Stays a sum: a row that one block holds; a value for each class, which would be read at the positions as well; a mask
// that picks another place.
// CHECK-LABEL: func.func @sums
// CHECK-NOT: "cuesta.gather"
// CHECK: return
func.func @sums(%x: tensor<8x1000xf32>, %y: tensor<8x5000xf32>, %c: tensor<5000xf32>, %t: tensor<8x1xi64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %z = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<f32>
  %0 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<1000xi64>
  %1 = "cuesta.eq"(%0, %t) : (tensor<1000xi64>, tensor<8x1xi64>) -> tensor<8x1000xi1>
  %2 = "cuesta.where"(%1, %x, %z) : (tensor<8x1000xi1>, tensor<8x1000xf32>, tensor<f32>) -> tensor<8x1000xf32>
  %3 = "cuesta.sum"(%2) {dims = [1], keepdim = 0 : i64} : (tensor<8x1000xf32>) -> tensor<8xf32>
  %4 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<5000xi64>
  %5 = "cuesta.eq"(%4, %t) : (tensor<5000xi64>, tensor<8x1xi64>) -> tensor<8x5000xi1>
  %6 = "cuesta.mul"(%y, %c) : (tensor<8x5000xf32>, tensor<5000xf32>) -> tensor<8x5000xf32>
  %7 = "cuesta.where"(%5, %6, %z) : (tensor<8x5000xi1>, tensor<8x5000xf32>, tensor<f32>) -> tensor<8x5000xf32>
  %8 = "cuesta.sum"(%7) {dims = [1], keepdim = 0 : i64} : (tensor<8x5000xf32>) -> tensor<8xf32>
  %9 = "cuesta.iota"() {start = 1 : i64, step = 1 : i64} : () -> tensor<5000xi64>
  %10 = "cuesta.eq"(%9, %t) : (tensor<5000xi64>, tensor<8x1xi64>) -> tensor<8x5000xi1>
  %11 = "cuesta.where"(%10, %y, %z) : (tensor<8x5000xi1>, tensor<8x5000xf32>, tensor<f32>) -> tensor<8x5000xf32>
  %12 = "cuesta.sum"(%11) {dims = [1], keepdim = 0 : i64} : (tensor<8x5000xf32>) -> tensor<8xf32>
  return %3, %8, %12 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
