// RUN: cuesta-opt --pass-pipeline='builtin.module(find-positions)' %s | filecheck %s

// Of a row of floats the maximum, then the first place that has it, or a NaN.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
// CHECK: %[[RAMP:.*]] = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<8xi32>
// CHECK: %[[ROW:.*]] = "cuesta.reshape"(%[[RAMP]]) : (tensor<8xi32>) -> tensor<1x8xi32>
// CHECK: %[[M:.*]] = "cuesta.amax"(%[[X]]) {dims = [1], keepdim = 0 : i64} : (tensor<4x8xf32>) -> tensor<4xf32>
// CHECK: %[[TOP:.*]] = "cuesta.reshape"(%[[M]]) : (tensor<4xf32>) -> tensor<4x1xf32>
// CHECK: %[[EQ:.*]] = "cuesta.eq"(%[[X]], %[[TOP]])
// CHECK: %[[NAN:.*]] = "cuesta.ne"(%[[X]], %[[X]])
// CHECK: %[[FOUND:.*]] = "cuesta.logical_or"(%[[EQ]], %[[NAN]])
// CHECK: %[[END:.*]] = "cuesta.constant"() {value = 2147483647 : i64} : () -> tensor<i32>
// CHECK: %[[AT:.*]] = "cuesta.where"(%[[FOUND]], %[[ROW]], %[[END]])
// CHECK: %[[FIRST:.*]] = "cuesta.amin"(%[[AT]]) {dims = [1], keepdim = 0 : i64} : (tensor<4x8xi32>) -> tensor<4xi32>
// CHECK: %[[R:.*]] = "cuesta.convert"(%[[FIRST]]) : (tensor<4xi32>) -> tensor<4xi64>
// CHECK: return %[[R]]
func.func @rows(%x: tensor<4x8xf32>) -> tensor<4xi64> {
  %0 = "cuesta.argmax"(%x) {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// Where a call tells the length, a position may need 64 bits. A view's rows are those of what lies in memory.
// CHECK-LABEL: func.func @permuted
// CHECK: "cuesta.amin"({{.*}}) {dims = [0], keepdim = 0 : i64} : (tensor<?x4xf32
// CHECK: "cuesta.amin"({{.*}}) {dims = [0], keepdim = 0 : i64} : (tensor<?x4xi64
func.func @permuted(%x: tensor<4x?xf32, ["s0"]> {cuesta.strides = ["s0", 1]}) -> tensor<4xi64> {
  %0 = "cuesta.permute"(%x) {dims = [1, 0]} : (tensor<4x?xf32, ["s0"]>) -> tensor<?x4xf32, ["s0"]>
  %1 = "cuesta.argmin"(%0) {dim = 0 : i64} : (tensor<?x4xf32, ["s0"]>) -> tensor<4xi64>
  return %1 : tensor<4xi64>
}

// A long row in parts of at most 4096: of each the first place of its extreme, of these the first that is the row's.
// CHECK-LABEL: func.func @long
// CHECK-SAME: (%[[X:.*]]: tensor<2x12288xf32>)
// CHECK: %[[P:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<2x12288xf32>) -> tensor<2x3x4096xf32>
// CHECK: %[[M:.*]] = "cuesta.amax"(%[[P]]) {dims = [2], keepdim = 0 : i64} : (tensor<2x3x4096xf32>) -> tensor<2x3xf32>
// CHECK: %[[IN:.*]] = "cuesta.amin"({{.*}}) {dims = [2], keepdim = 0 : i64} : (tensor<2x3x4096xi32>) -> tensor<2x3xi32>
// CHECK: %[[STARTS:.*]] = "cuesta.iota"() {start = 0 : i64, step = 4096 : i64} : () -> tensor<3xi32>
// CHECK: %[[AT:.*]] = "cuesta.add"(%[[IN]], {{.*}}) : (tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>
// CHECK: "cuesta.amax"(%[[M]]) {dims = [1], keepdim = 0 : i64} : (tensor<2x3xf32>) -> tensor<2xf32>
// CHECK: "cuesta.where"({{.*}}, %[[AT]], {{.*}}) : (tensor<2x3xi1>, tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>
func.func @long(%x: tensor<2x12288xf32>) -> tensor<2xi64> {
  %0 = "cuesta.argmax"(%x) {dim = 1 : i64} : (tensor<2x12288xf32>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}

// No parts of about 4096 elements divide a prime.
// CHECK-LABEL: func.func @prime
// CHECK: "cuesta.amax"({{.*}}) {dims = [0], keepdim = 0 : i64} : (tensor<10007xf32>) -> tensor<f32>
func.func @prime(%x: tensor<10007xf32>) -> tensor<i64> {
  %0 = "cuesta.argmax"(%x) {dim = 0 : i64} : (tensor<10007xf32>) -> tensor<i64>
  return %0 : tensor<i64>
}

// Columns, integers and single elements stay.
// CHECK-LABEL: func.func @others
// CHECK-NOT: cuesta.amax
// CHECK-COUNT-3: cuesta.argmax
func.func @others(%x: tensor<4x8xf32>, %y: tensor<4x8xi32>, %z: tensor<1x1xf32>) -> (tensor<8xi64>, tensor<4xi64>, tensor<1xi64>) {
  %0 = "cuesta.argmax"(%x) {dim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8xi64>
  %1 = "cuesta.argmax"(%y) {dim = 1 : i64} : (tensor<4x8xi32>) -> tensor<4xi64>
  %2 = "cuesta.argmax"(%z) {dim = 1 : i64} : (tensor<1x1xf32>) -> tensor<1xi64>
  return %0, %1, %2 : tensor<8xi64>, tensor<4xi64>, tensor<1xi64>
}
