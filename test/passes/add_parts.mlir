// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(add-parts)' %s | filecheck %s

// Gradients of three parts, each padded to the whole: nothing is added.
// CHECK-LABEL: func.func @apart
// CHECK-SAME: (%[[X:.*]]: tensor<1x8xf32>, %[[Y:.*]]: tensor<1x8xf32>, %[[Z:.*]]: tensor<1x8xf32>)
// CHECK-NEXT: %[[YZ:.*]] = "cuesta.cat"(%[[Y]], %[[Z]]) {dim = 0 : i64} : {{.*}} -> tensor<2x8xf32>
// CHECK-NEXT: %[[XYZ:.*]] = "cuesta.cat"(%[[X]], %[[YZ]]) {dim = 0 : i64} : {{.*}} -> tensor<3x8xf32>
// CHECK-NEXT: return %[[XYZ]]
func.func @apart(%x: tensor<1x8xf32>, %y: tensor<1x8xf32>, %z: tensor<1x8xf32>) -> tensor<3x8xf32> {
  %c1 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<1x8xf32>
  %c2 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<2x8xf32>
  %0 = "cuesta.cat"(%c2, %z) {dim = 0 : i64} : (tensor<2x8xf32>, tensor<1x8xf32>) -> tensor<3x8xf32>
  %1 = "cuesta.cat"(%c1, %y) {dim = 0 : i64} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  %2 = "cuesta.cat"(%1, %c1) {dim = 0 : i64} : (tensor<2x8xf32>, tensor<1x8xf32>) -> tensor<3x8xf32>
  %3 = "cuesta.add"(%0, %2) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = "cuesta.cat"(%x, %c2) {dim = 0 : i64} : (tensor<1x8xf32>, tensor<2x8xf32>) -> tensor<3x8xf32>
  %5 = "cuesta.add"(%3, %4) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %5 : tensor<3x8xf32>
}

// -----

// What overlaps is added: rows 2 and 3. The last one is zeros in both.
// CHECK-LABEL: func.func @overlapping
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[Y:.*]]: tensor<4x8xf32>)
// CHECK-DAG: %[[A:.*]] = "cuesta.slice"(%[[X]]) {starts = [0, 0], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<2x8xf32>
// CHECK-DAG: %[[B:.*]] = "cuesta.slice"(%[[X]]) {starts = [2, 0], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<2x8xf32>
// CHECK-DAG: %[[C:.*]] = "cuesta.slice"(%[[Y]]) {starts = [0, 0], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<2x8xf32>
// CHECK-DAG: %[[D:.*]] = "cuesta.slice"(%[[Y]]) {starts = [2, 0], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<2x8xf32>
// CHECK-DAG: %[[BC:.*]] = "cuesta.add"(%[[B]], %[[C]]) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
// CHECK-DAG: %[[O:.*]] = "cuesta.constant"() {value = 0.000000e+00 : f64} : () -> tensor<1x8xf32>
// CHECK-NOT: cuesta.add
// CHECK: return %{{.*}} : tensor<7x8xf32>
func.func @overlapping(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<7x8xf32> {
  %c2 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<2x8xf32>
  %c3 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<3x8xf32>
  %c1 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<1x8xf32>
  %0 = "cuesta.cat"(%x, %c3) {dim = 0 : i64} : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<7x8xf32>
  %1 = "cuesta.cat"(%c2, %y) {dim = 0 : i64} : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %2 = "cuesta.cat"(%1, %c1) {dim = 0 : i64} : (tensor<6x8xf32>, tensor<1x8xf32>) -> tensor<7x8xf32>
  %3 = "cuesta.add"(%0, %2) : (tensor<7x8xf32>, tensor<7x8xf32>) -> tensor<7x8xf32>
  return %3 : tensor<7x8xf32>
}

// -----

// Padded along two dims: the rows of %y stay whole where %x is zeros.
// CHECK-LABEL: func.func @two_dims
// CHECK-SAME: (%[[X:.*]]: tensor<2x4xf32>, %[[Y:.*]]: tensor<2x8xf32>)
// CHECK-DAG: %[[L:.*]] = "cuesta.slice"(%[[Y]]) {starts = [0, 0], steps = [1, 1]} : (tensor<2x8xf32>) -> tensor<1x8xf32>
// CHECK-DAG: "cuesta.slice"(%[[Y]]) {starts = [1, 0], steps = [1, 1]} : (tensor<2x8xf32>) -> tensor<1x4xf32>
// CHECK-DAG: %[[R:.*]] = "cuesta.slice"(%[[Y]]) {starts = [1, 4], steps = [1, 1]} : (tensor<2x8xf32>) -> tensor<1x4xf32>
// CHECK-DAG: %[[A:.*]] = "cuesta.slice"(%[[X]]) {starts = [0, 0], steps = [1, 1]} : (tensor<2x4xf32>) -> tensor<1x4xf32>
// CHECK: "cuesta.add"(%[[A]], %[[R]]) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
// CHECK-NOT: cuesta.add
func.func @two_dims(%x: tensor<2x4xf32>, %y: tensor<2x8xf32>) -> tensor<3x8xf32> {
  %c = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<2x4xf32>
  %d = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<1x8xf32>
  %0 = "cuesta.cat"(%c, %x) {dim = 1 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
  %1 = "cuesta.cat"(%d, %0) {dim = 0 : i64} : (tensor<1x8xf32>, tensor<2x8xf32>) -> tensor<3x8xf32>
  %2 = "cuesta.cat"(%y, %d) {dim = 0 : i64} : (tensor<2x8xf32>, tensor<1x8xf32>) -> tensor<3x8xf32>
  %3 = "cuesta.add"(%1, %2) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %3 : tensor<3x8xf32>
}

// -----

// Below the same views. The sum is cut where no part is cut: first along the columns.
// CHECK-LABEL: func.func @views
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf32>, %[[Y:.*]]: tensor<4x5xf32>)
// CHECK-NOT: cuesta.slice
// CHECK-NOT: cuesta.add
// CHECK: %[[L:.*]] = "cuesta.cat"(%[[X]], %{{.*}}) {dim = 0 : i64} : (tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<5x4xf32>
// CHECK: %[[R:.*]] = "cuesta.cat"(%{{.*}}, %[[Y]]) {dim = 0 : i64} : (tensor<1x5xf32>, tensor<4x5xf32>) -> tensor<5x5xf32>
// CHECK: %[[S:.*]] = "cuesta.cat"(%[[L]], %[[R]]) {dim = 1 : i64} : {{.*}} -> tensor<5x9xf32>
// CHECK-NEXT: %[[S1:.*]] = "cuesta.reshape"(%[[S]]) : (tensor<5x9xf32>) -> tensor<5x1x9xf32>
// CHECK-NEXT: %[[P:.*]] = "cuesta.permute"(%[[S1]]) {dims = [1, 0, 2]} : (tensor<5x1x9xf32>) -> tensor<1x5x9xf32>
// CHECK-NEXT: return %[[P]]
func.func @views(%x: tensor<3x4xf32>, %y: tensor<4x5xf32>) -> tensor<1x5x9xf32> {
  %c1 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<3x5xf32>
  %c2 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<2x9xf32>
  %c3 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<4x4xf32>
  %c4 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<1x9xf32>
  %0 = "cuesta.cat"(%x, %c1) {dim = 1 : i64} : (tensor<3x4xf32>, tensor<3x5xf32>) -> tensor<3x9xf32>
  %1 = "cuesta.cat"(%0, %c2) {dim = 0 : i64} : (tensor<3x9xf32>, tensor<2x9xf32>) -> tensor<5x9xf32>
  %2 = "cuesta.cat"(%c3, %y) {dim = 1 : i64} : (tensor<4x4xf32>, tensor<4x5xf32>) -> tensor<4x9xf32>
  %3 = "cuesta.cat"(%c4, %2) {dim = 0 : i64} : (tensor<1x9xf32>, tensor<4x9xf32>) -> tensor<5x9xf32>
  %4 = "cuesta.reshape"(%1) : (tensor<5x9xf32>) -> tensor<5x1x9xf32>
  %5 = "cuesta.reshape"(%3) : (tensor<5x9xf32>) -> tensor<5x1x9xf32>
  %6 = "cuesta.permute"(%4) {dims = [1, 0, 2]} : (tensor<5x1x9xf32>) -> tensor<1x5x9xf32>
  %7 = "cuesta.permute"(%5) {dims = [1, 0, 2]} : (tensor<5x1x9xf32>) -> tensor<1x5x9xf32>
  %8 = "cuesta.add"(%6, %7) : (tensor<1x5x9xf32>, tensor<1x5x9xf32>) -> tensor<1x5x9xf32>
  return %8 : tensor<1x5x9xf32>
}

// -----

// One padded part is given a dim of 1, and padded along it: its zeros are seen below the reshape.
// CHECK-LABEL: func.func @dims_of_one
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf32>, %[[Y:.*]]: tensor<2x3x9xf32>)
// CHECK: %[[X1:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<3x4xf32>) -> tensor<1x3x4xf32>
// CHECK: %[[Z:.*]] = "cuesta.constant"() {value = 0.000000e+00 : f64} : () -> tensor<1x3x5xf32>
// CHECK: %[[XZ:.*]] = "cuesta.cat"(%[[X1]], %[[Z]]) {dim = 2 : i64} : (tensor<1x3x4xf32>, tensor<1x3x5xf32>) -> tensor<1x3x9xf32>
// CHECK: %[[XY:.*]] = "cuesta.cat"(%[[XZ]], %[[Y]]) {dim = 0 : i64} : (tensor<1x3x9xf32>, tensor<2x3x9xf32>) -> tensor<3x3x9xf32>
// CHECK-NEXT: return %[[XY]]
func.func @dims_of_one(%x: tensor<3x4xf32>, %y: tensor<2x3x9xf32>) -> tensor<3x3x9xf32> {
  %c1 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<3x5xf32>
  %c2 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<2x3x9xf32>
  %c3 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<1x3x9xf32>
  %0 = "cuesta.cat"(%x, %c1) {dim = 1 : i64} : (tensor<3x4xf32>, tensor<3x5xf32>) -> tensor<3x9xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<3x9xf32>) -> tensor<1x3x9xf32>
  %2 = "cuesta.cat"(%1, %c2) {dim = 0 : i64} : (tensor<1x3x9xf32>, tensor<2x3x9xf32>) -> tensor<3x3x9xf32>
  %3 = "cuesta.cat"(%c3, %y) {dim = 0 : i64} : (tensor<1x3x9xf32>, tensor<2x3x9xf32>) -> tensor<3x3x9xf32>
  %4 = "cuesta.add"(%2, %3) : (tensor<3x3x9xf32>, tensor<3x3x9xf32>) -> tensor<3x3x9xf32>
  return %4 : tensor<3x3x9xf32>
}

// -----

// No zeros; a concatenation that is in memory, as others read it; and one summand that is none.
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-3: "cuesta.add"(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>)
func.func @stays(%x: tensor<2x8xf32>, %y: tensor<2x8xf32>, %z: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %c = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<2x8xf32>
  %0 = "cuesta.cat"(%x, %y) {dim = 0 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %1 = "cuesta.cat"(%y, %x) {dim = 0 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %2 = "cuesta.add"(%0, %1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = "cuesta.cat"(%x, %c) {dim = 0 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %4 = "cuesta.cat"(%c, %y) {dim = 0 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %5 = "cuesta.add"(%3, %4) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = "cuesta.cat"(%c, %x) {dim = 0 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %7 = "cuesta.add"(%6, %z) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2, %3, %5, %7 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
