// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg)' %s | filecheck %s

// A check tells whether any index is out of range; then negative ones count from the end, and the
// read stays inside the memory whatever the check said.
// CHECK-LABEL: func.func @index
// CHECK-SAME: (%[[W:.*]]: tensor<10x8xf32>, %[[I:.*]]: tensor<4xi64>)
// CHECK: %[[BAD:.*]] = linalg.generic {{.*}}iterator_types = ["reduction"]} ins(%[[I]] : tensor<4xi64>)
// CHECK-DAG: %[[MINUS_10:.*]] = arith.constant -10 : i64
// CHECK: %[[LOW:.*]] = arith.cmpi slt, %[[AT:.*]], %[[MINUS_10]]
// CHECK-DAG: %[[C10:.*]] = arith.constant 10 : i64
// CHECK: %[[HIGH:.*]] = arith.cmpi sge, %[[AT]], %[[C10]]
// CHECK: arith.ori %[[LOW]], %[[HIGH]]
// CHECK: "host.check"(%[[BAD]]) {message = "index out of range: the indexed dim has size 10"}
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]} ins(%[[I]] : tensor<4xi64>)
// CHECK-NEXT: ^bb0(%[[IN:.*]]: i64, %{{.*}}: f32):
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : i64
// CHECK-DAG: %[[C9:.*]] = arith.constant 9 : i64
// CHECK-DAG: %[[SIZE:.*]] = arith.constant 10 : i64
// CHECK: %[[NEGATIVE:.*]] = arith.cmpi slt, %[[IN]], %[[C0]]
// CHECK-NEXT: %[[BACK:.*]] = arith.addi %[[IN]], %[[SIZE]]
// CHECK-NEXT: %[[WRAPPED:.*]] = arith.select %[[NEGATIVE]], %[[BACK]], %[[IN]]
// CHECK-NEXT: %[[CAPPED:.*]] = arith.minsi %[[WRAPPED]], %[[C9]]
// CHECK-NEXT: %[[CLAMPED:.*]] = arith.maxsi %[[CAPPED]], %[[C0]]
// CHECK-NEXT: %[[P:.*]] = arith.index_cast %[[CLAMPED]] : i64 to index
// CHECK-NEXT: %[[J:.*]] = linalg.index 1
// CHECK-NEXT: tensor.extract %[[W]][%[[P]], %[[J]]]
func.func @index(%w: tensor<10x8xf32>, %i: tensor<4xi64>) -> tensor<4x8xf32> {
  %0 = "cuesta.index"(%w, %i) {dims = [0]} : (tensor<10x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Positions that the graph computes within the tensor's size are taken as they are.
// CHECK-LABEL: func.func @windows
// CHECK-SAME: (%[[X:.*]]: tensor<4x2048xf32>)
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]}
// CHECK-NOT: arith.select
// CHECK-NOT: arith.minsi
// CHECK: tensor.extract %[[X]]
func.func @windows(%x: tensor<4x2048xf32>) -> tensor<4x255x16xf32> {
  %0 = "cuesta.iota"() {start = 0 : i64, step = 8 : i64} : () -> tensor<255xi64>
  %1 = "cuesta.reshape"(%0) : (tensor<255xi64>) -> tensor<255x1xi64>
  %2 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<16xi64>
  %3 = "cuesta.add"(%1, %2) : (tensor<255x1xi64>, tensor<16xi64>) -> tensor<255x16xi64>
  %4 = "cuesta.index"(%x, %3) {dims = [1], in_range} : (tensor<4x2048xf32>, tensor<255x16xi64>) -> tensor<4x255x16xf32>
  return %4 : tensor<4x255x16xf32>
}

// One past the end is clamped.
// CHECK-LABEL: func.func @past_the_end
// CHECK: arith.minsi
func.func @past_the_end(%x: tensor<4x2047xf32>) -> tensor<4x255x16xf32> {
  %0 = "cuesta.iota"() {start = 0 : i64, step = 8 : i64} : () -> tensor<255xi64>
  %1 = "cuesta.reshape"(%0) : (tensor<255xi64>) -> tensor<255x1xi64>
  %2 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<16xi64>
  %3 = "cuesta.add"(%1, %2) : (tensor<255x1xi64>, tensor<16xi64>) -> tensor<255x16xi64>
  %4 = "cuesta.index"(%x, %3) {dims = [1], in_range} : (tensor<4x2047xf32>, tensor<255x16xi64>) -> tensor<4x255x16xf32>
  return %4 : tensor<4x255x16xf32>
}

// The second half of a row, then the first: both are within the row, so these positions are taken as they are.
// CHECK-LABEL: func.func @halves
// CHECK: arith.select
// CHECK-NOT: arith.select
// CHECK-NOT: arith.minsi
// CHECK: tensor.extract
func.func @halves(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %0 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<64xi64>
  %1 = "cuesta.constant"() {value = 32 : i64} : () -> tensor<i64>
  %2 = "cuesta.constant"() {value = -32 : i64} : () -> tensor<i64>
  %3 = "cuesta.add"(%0, %1) : (tensor<64xi64>, tensor<i64>) -> tensor<64xi64>
  %4 = "cuesta.add"(%0, %2) : (tensor<64xi64>, tensor<i64>) -> tensor<64xi64>
  %5 = "cuesta.lt"(%0, %1) : (tensor<64xi64>, tensor<i64>) -> tensor<64xi1>
  %6 = "cuesta.where"(%5, %3, %4) : (tensor<64xi1>, tensor<64xi64>, tensor<64xi64>) -> tensor<64xi64>
  %7 = "cuesta.index"(%x, %6) {dims = [1], in_range} : (tensor<4x64xf32>, tensor<64xi64>) -> tensor<4x64xf32>
  return %7 : tensor<4x64xf32>
}

// Of rows of 63 the last of these positions is outside.
// CHECK-LABEL: func.func @halves_past_the_end
// CHECK: arith.minsi
func.func @halves_past_the_end(%x: tensor<4x63xf32>) -> tensor<4x64xf32> {
  %0 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<64xi64>
  %1 = "cuesta.constant"() {value = 32 : i64} : () -> tensor<i64>
  %2 = "cuesta.constant"() {value = -32 : i64} : () -> tensor<i64>
  %3 = "cuesta.add"(%0, %1) : (tensor<64xi64>, tensor<i64>) -> tensor<64xi64>
  %4 = "cuesta.add"(%0, %2) : (tensor<64xi64>, tensor<i64>) -> tensor<64xi64>
  %5 = "cuesta.lt"(%0, %1) : (tensor<64xi64>, tensor<i64>) -> tensor<64xi1>
  %6 = "cuesta.where"(%5, %3, %4) : (tensor<64xi1>, tensor<64xi64>, tensor<64xi64>) -> tensor<64xi64>
  %7 = "cuesta.index"(%x, %6) {dims = [1], in_range} : (tensor<4x63xf32>, tensor<64xi64>) -> tensor<4x64xf32>
  return %7 : tensor<4x64xf32>
}

// The indexed dims are not adjacent: the indices' dim stands first, the dim between them after it.
// CHECK-LABEL: func.func @apart
// CHECK-SAME: (%[[X:.*]]: tensor<5x6x7xf32>,
// CHECK-COUNT-2: "host.check"
// CHECK: %[[P:.*]] = arith.index_cast
// CHECK: %[[J:.*]] = linalg.index 1
// CHECK: %[[Q:.*]] = arith.index_cast
// CHECK-NEXT: tensor.extract %[[X]][%[[P]], %[[J]], %[[Q]]]
func.func @apart(%x: tensor<5x6x7xf32>, %i: tensor<4xi64>, %j: tensor<4xi64>) -> tensor<4x6xf32> {
  %0 = "cuesta.index"(%x, %i, %j) {dims = [0, 2]} : (tensor<5x6x7xf32>, tensor<4xi64>, tensor<4xi64>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @gather
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[I:.*]]: tensor<4x3xi64>)
// CHECK: "host.check"
// CHECK: linalg.generic {{.*}} ins(%[[I]] : tensor<4x3xi64>)
// CHECK: %[[ROW:.*]] = linalg.index 0
// CHECK: %[[P:.*]] = arith.index_cast %{{.*}} : i64 to index
// CHECK-NEXT: tensor.extract %[[X]][%[[ROW]], %[[P]]]
func.func @gather(%x: tensor<4x8xf32>, %i: tensor<4x3xi64>) -> tensor<4x3xf32> {
  %0 = "cuesta.gather"(%x, %i) {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x3xi64>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// A flip knows its positions: nothing to check.
// CHECK-LABEL: func.func @flip
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
// CHECK-NOT: host.check
// CHECK: %[[ROW:.*]] = linalg.index 0
// CHECK: %[[J:.*]] = linalg.index 1
// CHECK-NEXT: %[[LAST:.*]] = arith.constant 7 : index
// CHECK-NEXT: %[[BACK:.*]] = arith.subi %[[LAST]], %[[J]]
// CHECK-NEXT: tensor.extract %[[X]][%[[ROW]], %[[BACK]]]
func.func @flip(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "cuesta.flip"(%x) {dims = [1]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// A range cannot leave what torch has inferred: no check.
// CHECK-LABEL: func.func @range
// CHECK-NOT: host.check
// CHECK: tensor.extract
func.func @range(%x: tensor<4x6xf32>) -> tensor<3x6xf32> {
  %i = "cuesta.iota"() {start = 0, step = 1} : () -> tensor<3xi64>
  %0 = "cuesta.index"(%x, %i) {dims = [0]} : (tensor<4x6xf32>, tensor<3xi64>) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}

// Fewer rows than x has, here one: its position is 0.
// CHECK-LABEL: func.func @gather_one_row
// CHECK: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK: tensor.extract %{{.*}}[%[[ZERO]], %{{.*}}] : tensor<4x6xf32>
func.func @gather_one_row(%x: tensor<4x6xf32>, %i: tensor<1x2xi64>) -> tensor<1x2xf32> {
  %0 = "cuesta.gather"(%x, %i) {dim = 1} : (tensor<4x6xf32>, tensor<1x2xi64>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}

// Before and past its ends a window reads a number; what it reads for it stays inside.
// CHECK-LABEL: func.func @window
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>)
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK: %[[TWICE:.*]] = arith.muli %[[I]], %[[C2]]
// CHECK-DAG: %[[MINUS_1:.*]] = arith.constant -1 : index
// CHECK: %[[AT:.*]] = arith.addi %[[TWICE]], %[[MINUS_1]]
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK: %[[FROM:.*]] = arith.cmpi sge, %[[AT]], %[[C0]]
// CHECK: %[[P:.*]] = arith.maxsi %[[AT]], %[[C0]]
// CHECK-NOT: arith.minsi
// CHECK: %[[IN:.*]] = tensor.extract %[[X]][%[[P]]]
// CHECK: %[[OUTSIDE:.*]] = arith.constant 5.000000e-01 : f32
// CHECK: arith.select %[[FROM]], %[[IN]], %[[OUTSIDE]]
func.func @window(%x: tensor<8xf32>) -> tensor<4xf32> {
  %0 = "cuesta.window"(%x) {starts = [-1], steps = [2], divisors = [1], outside = 0.5 : f64} : (tensor<8xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// (i + 1 - 2) // 2 as (i + 1) // 2 - 1: the number that is divided is not negative.
// CHECK-LABEL: func.func @window_of_repeated
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK: %[[N:.*]] = arith.addi %[[I]], %[[C1]]
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK: %[[Q:.*]] = arith.divui %[[N]], %[[C2]]
// CHECK: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: arith.subi %[[Q]], %[[ONE]]
func.func @window_of_repeated(%x: tensor<4xf32>) -> tensor<8xf32> {
  %0 = "cuesta.window"(%x) {starts = [-1], steps = [1], divisors = [2], outside = 0.0 : f64} : (tensor<4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// The last row again, but 0 in the columns that x has not.
// CHECK-LABEL: func.func @window_that_repeats_rows
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf32>)
// CHECK-NOT: arith.cmpi
// CHECK: %[[ROW:.*]] = arith.minsi
// CHECK: %[[INSIDE:.*]] = arith.cmpi sle
// CHECK: %[[COLUMN:.*]] = arith.minsi
// CHECK: %[[IN:.*]] = tensor.extract %[[X]][%[[ROW]], %[[COLUMN]]]
// CHECK: arith.select %[[INSIDE]], %[[IN]]
func.func @window_that_repeats_rows(%x: tensor<3x4xf32>) -> tensor<5x6xf32> {
  %0 = "cuesta.window"(%x) {starts = [0, 0], steps = [1, 1], divisors = [1, 1], outside = 0.0 : f64, repeated = [0]} : (tensor<3x4xf32>) -> tensor<5x6xf32>
  return %0 : tensor<5x6xf32>
}

// Many positions are looked at row by row, and then the rows' results.
// CHECK-LABEL: func.func @many_rows
// CHECK-SAME: (%[[X:.*]]: tensor<256x8xf32>, %[[I:.*]]: tensor<256x512xi64>)
// CHECK: %[[ROWS:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]} ins(%[[I]] : tensor<256x512xi64>)
// CHECK: %[[BAD:.*]] = linalg.generic {{.*}}iterator_types = ["reduction"]} ins(%[[ROWS]] : tensor<256xi8>)
// CHECK: "host.check"(%[[BAD]])
func.func @many_rows(%x: tensor<256x8xf32>, %i: tensor<256x512xi64>) -> tensor<256x512xf32> {
  %0 = "cuesta.gather"(%x, %i) {dim = 1} : (tensor<256x8xf32>, tensor<256x512xi64>) -> tensor<256x512xf32>
  return %0 : tensor<256x512xf32>
}

// Negative positions are out of range.
// CHECK-LABEL: func.func @from_zero
// CHECK-NOT: -10
// CHECK-DAG: %[[C10:.*]] = arith.constant 10 : i64
// CHECK: arith.cmpi sge, %{{.*}}, %[[C10]]
// CHECK-NOT: -6
// CHECK-DAG: %[[C6:.*]] = arith.constant 6 : i64
// CHECK: arith.cmpi sge, %{{.*}}, %[[C6]]
func.func @from_zero(%w: tensor<10x8xf32>, %x: tensor<6x8xf32>, %i: tensor<4xi64>, %j: tensor<5x8xi64>) -> (tensor<4x8xf32>, tensor<5x8xf32>) {
  %0 = "cuesta.index"(%w, %i) {dims = [0], from_zero} : (tensor<10x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %1 = "cuesta.gather"(%x, %j) {dim = 0, from_zero} : (tensor<6x8xf32>, tensor<5x8xi64>) -> tensor<5x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<5x8xf32>
}
