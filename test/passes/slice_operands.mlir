// RUN: cuesta-opt --pass-pipeline='builtin.module(slice-operands)' %s | filecheck %s

// Two gates read a sum in halves: each adds its own.
// CHECK-LABEL: func.func @gates
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[Y:.*]]: tensor<8xf32>)
// CHECK: %[[A:.*]] = "cuesta.slice"(%[[X]]) {starts = [0, 0], steps = [1, 1]} : {{.*}} -> tensor<4x4xf32>
// CHECK: %[[B:.*]] = "cuesta.slice"(%[[Y]]) {starts = [0], steps = [1]} : {{.*}} -> tensor<4xf32>
// CHECK: %[[S:.*]] = "cuesta.add"(%[[A]], %[[B]]) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
// CHECK: %[[C:.*]] = "cuesta.slice"(%[[X]]) {starts = [0, 4], steps = [1, 1]} : {{.*}} -> tensor<4x4xf32>
// CHECK: %[[D:.*]] = "cuesta.slice"(%[[Y]]) {starts = [4], steps = [1]} : {{.*}} -> tensor<4xf32>
// CHECK: %[[T:.*]] = "cuesta.add"(%[[C]], %[[D]])
// CHECK: "cuesta.sigmoid"(%[[S]])
// CHECK: "cuesta.tanh"(%[[T]])
func.func @gates(%x: tensor<4x8xf32>, %y: tensor<8xf32>) -> tensor<4x4xf32> {
  %0 = "cuesta.add"(%x, %y) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = "cuesta.slice"(%0) {starts = [0, 0], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %2 = "cuesta.slice"(%0) {starts = [0, 4], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %3 = "cuesta.sigmoid"(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "cuesta.tanh"(%2) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = "cuesta.mul"(%3, %4) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %5 : tensor<4x4xf32>
}

// What has one element along a dim, or one number everywhere, is read whole there. Slices move up from op to op.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[Y:.*]]: tensor<4x1xf32>)
// CHECK: %[[A:.*]] = "cuesta.slice"(%[[X]]) {starts = [0, 4], steps = [1, 1]}
// CHECK: %[[B:.*]] = "cuesta.mul"(%[[A]], %[[Y]]) : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
// CHECK: %[[C:.*]] = "cuesta.constant"() {{.*}} : () -> tensor<4x4xf32>
// CHECK: %[[D:.*]] = "cuesta.add"(%[[B]], %[[C]])
// CHECK: "cuesta.tanh"(%[[D]])
func.func @chain(%x: tensor<4x8xf32>, %y: tensor<4x1xf32>) -> tensor<4x4xf32> {
  %0 = "cuesta.mul"(%x, %y) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %1 = "cuesta.constant"() {value = 2.0 : f32} : () -> tensor<4x8xf32>
  %2 = "cuesta.add"(%0, %1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = "cuesta.slice"(%2) {starts = [0, 4], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %4 = "cuesta.tanh"(%3) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %4 : tensor<4x4xf32>
}

// A sum that is returned, one that slices read twice, one of which a slice is returned, and one of values that would
// have to be written.
// CHECK-LABEL: func.func @stay
// CHECK-COUNT-4: "cuesta.add"({{.*}} -> tensor<4x8xf32>
func.func @stay(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x6xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = "cuesta.add"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "cuesta.slice"(%0) {starts = [0, 0], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %2 = "cuesta.tanh"(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "cuesta.add"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = "cuesta.slice"(%3) {starts = [0, 0], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x6xf32>
  %5 = "cuesta.slice"(%3) {starts = [0, 2], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x6xf32>
  %6 = "cuesta.mul"(%4, %5) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %7 = "cuesta.add"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %8 = "cuesta.slice"(%7) {starts = [0, 4], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %9 = "cuesta.cumsum"(%x) {dim = 1} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %10 = "cuesta.add"(%9, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %11 = "cuesta.slice"(%10) {starts = [0, 4], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %12 = "cuesta.tanh"(%11) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %2, %6, %8, %12 : tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x6xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// Columns of positions, each in a shape of its own, as of hashed corners of a grid.
// CHECK-LABEL: func.func @columns
// CHECK-NOT: "cuesta.add"({{.*}} -> tensor<4x8x2xi64>
// CHECK: "cuesta.add"({{.*}}) : (tensor<4x1x1xi64>, tensor<8x1xi64>) -> tensor<4x8x1xi64>
// CHECK: "cuesta.add"({{.*}}) : (tensor<4x1x1xi64>, tensor<8x1xi64>) -> tensor<4x8x1xi64>
// CHECK: "cuesta.bitwise_xor"
func.func @columns(%x: tensor<4x1x2xi64>, %y: tensor<8x2xi64>) -> tensor<4x8xi64> {
  %0 = "cuesta.add"(%x, %y) : (tensor<4x1x2xi64>, tensor<8x2xi64>) -> tensor<4x8x2xi64>
  %1 = "cuesta.slice"(%0) {starts = [0, 0, 0], steps = [1, 1, 1]} : (tensor<4x8x2xi64>) -> tensor<4x8x1xi64>
  %2 = "cuesta.reshape"(%1) : (tensor<4x8x1xi64>) -> tensor<4x8xi64>
  %3 = "cuesta.slice"(%0) {starts = [0, 0, 1], steps = [1, 1, 1]} : (tensor<4x8x2xi64>) -> tensor<4x8x1xi64>
  %4 = "cuesta.reshape"(%3) : (tensor<4x8x1xi64>) -> tensor<4x8xi64>
  %5 = "cuesta.bitwise_xor"(%2, %4) : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
  return %5 : tensor<4x8xi64>
}

// Whole parts of numbers, which the rest is subtracted from as well: a few cheap ops are computed again for each column.
// CHECK-LABEL: func.func @repeated
// CHECK-SAME: (%[[X:.*]]: tensor<4x2xf32>)
// CHECK: %[[A:.*]] = "cuesta.slice"(%[[X]]) {starts = [0, 0], steps = [1, 1]} : {{.*}} -> tensor<4x1xf32>
// CHECK: %[[B:.*]] = "cuesta.floor"(%[[A]])
// CHECK: %[[C:.*]] = "cuesta.convert"(%[[B]]) : (tensor<4x1xf32>) -> tensor<4x1xi64>
// CHECK: %[[D:.*]] = "cuesta.slice"(%[[X]]) {starts = [0, 1], steps = [1, 1]} : {{.*}} -> tensor<4x1xf32>
// CHECK: %[[E:.*]] = "cuesta.floor"(%[[D]])
// CHECK: %[[F:.*]] = "cuesta.convert"(%[[E]]) : (tensor<4x1xf32>) -> tensor<4x1xi64>
// CHECK: "cuesta.bitwise_xor"(%[[C]], %[[F]])
func.func @repeated(%x: tensor<4x2xf32>) -> (tensor<4x1xi64>, tensor<4x2xf32>) {
  %0 = "cuesta.floor"(%x) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = "cuesta.sub"(%x, %0) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = "cuesta.convert"(%0) : (tensor<4x2xf32>) -> tensor<4x2xi64>
  %3 = "cuesta.slice"(%2) {starts = [0, 0], steps = [1, 1]} : (tensor<4x2xi64>) -> tensor<4x1xi64>
  %4 = "cuesta.slice"(%2) {starts = [0, 1], steps = [1, 1]} : (tensor<4x2xi64>) -> tensor<4x1xi64>
  %5 = "cuesta.bitwise_xor"(%3, %4) : (tensor<4x1xi64>, tensor<4x1xi64>) -> tensor<4x1xi64>
  return %5, %1 : tensor<4x1xi64>, tensor<4x2xf32>
}

// An exponential is not computed again: its slices would have it in memory, so the conversion stays whole.
// CHECK-LABEL: func.func @dear
// CHECK: "cuesta.convert"({{.*}}) : (tensor<4x2xf32>) -> tensor<4x2xi64>
func.func @dear(%x: tensor<4x2xf32>) -> (tensor<4x1xi64>, tensor<4x2xf32>) {
  %0 = "cuesta.exp"(%x) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = "cuesta.sub"(%x, %0) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = "cuesta.convert"(%0) : (tensor<4x2xf32>) -> tensor<4x2xi64>
  %3 = "cuesta.slice"(%2) {starts = [0, 0], steps = [1, 1]} : (tensor<4x2xi64>) -> tensor<4x1xi64>
  %4 = "cuesta.slice"(%2) {starts = [0, 1], steps = [1, 1]} : (tensor<4x2xi64>) -> tensor<4x1xi64>
  %5 = "cuesta.bitwise_xor"(%3, %4) : (tensor<4x1xi64>, tensor<4x1xi64>) -> tensor<4x1xi64>
  return %5, %1 : tensor<4x1xi64>, tensor<4x2xf32>
}
