// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg)' %s | filecheck %s

// Views stay, in the type that memory has: a bool is a byte.
// CHECK-LABEL: func.func @views
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xi8> {cuesta.dtype = "i1", cuesta.strides = [12, 4, 1]}) -> (tensor<2x6xi8> {cuesta.dtype = "i1", cuesta.strides = [6, 1]})
// CHECK-NEXT: %[[S:.*]] = "cuesta.slice"(%[[X]]) {starts = [0, 0, 0], steps = [1, 1, 2]} : (tensor<2x3x4xi8>) -> tensor<2x3x2xi8>
// CHECK-NEXT: %[[P:.*]] = "cuesta.permute"(%[[S]]) {dims = [0, 2, 1]} : (tensor<2x3x2xi8>) -> tensor<2x2x3xi8>
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[P]]) : (tensor<2x2x3xi8>) -> tensor<2x6xi8>
// CHECK-NEXT: return %[[R]]
func.func @views(%x: tensor<2x3x4xi1> {cuesta.strides = [12, 4, 1]}) -> (tensor<2x6xi1> {cuesta.strides = [6, 1]}) {
  %0 = "cuesta.slice"(%x) {starts = [0, 0, 0], steps = [1, 1, 2]} : (tensor<2x3x4xi1>) -> tensor<2x3x2xi1>
  %1 = "cuesta.permute"(%0) {dims = [0, 2, 1]} : (tensor<2x3x2xi1>) -> tensor<2x2x3xi1>
  %2 = "cuesta.reshape"(%1) : (tensor<2x2x3xi1>) -> tensor<2x6xi1>
  return %2 : tensor<2x6xi1>
}

// A permute that is to be written is copied by a generic, whose result lies in the order of its dims.
// CHECK-LABEL: func.func @written
// CHECK: %[[C:.*]] = linalg.generic {indexing_maps = [#[[T:.*]], #{{.*}}], iterator_types = ["parallel", "parallel"]} ins(%arg0 {{.*}} {cuesta.row_major}
// CHECK: return %[[C]]
func.func @written(%x: tensor<2x3xf32> {cuesta.strides = [3, 1]}) -> tensor<3x2xf32> {
  %0 = "cuesta.permute"(%x) {dims = [1, 0], written} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @windows
// CHECK: "cuesta.unfold"(%{{.*}}) {dim = 1 : i64, step = 2 : i64} : (tensor<2x5xi8>) -> tensor<2x2x3xi8>
func.func @windows(%x: tensor<2x5xi1> {cuesta.strides = [5, 1]}) -> (tensor<2x2x3xi1> {cuesta.strides = [6, 3, 1]}) {
  %0 = "cuesta.unfold"(%x) {dim = 1, step = 2} : (tensor<2x5xi1>) -> tensor<2x2x3xi1>
  return %0 : tensor<2x2x3xi1>
}

// A value has no address here, so that a copy is the value. What no generic writes, one writes to its place.
// CHECK-LABEL: func.func @cat_of_copy
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>, %[[Y:.*]]: tensor<2x1xf32>)
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[X]]
// CHECK: %[[Y2:.*]] = "cuesta.reshape"(%[[Y]]) : (tensor<2x1xf32>) -> tensor<2xf32>
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[Y2]]
// CHECK: %[[C:.*]] = "cuesta.cat"(%[[A]], %[[B]]) {dim = 1 : i64}
// CHECK-NEXT: return %[[C]]
func.func @cat_of_copy(%x: tensor<2x3xf32>, %y: tensor<2x1xf32>) -> tensor<2x5xf32> {
  %0 = "cuesta.copy"(%x) {strides = [1, 2]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "cuesta.expand"(%y) : (tensor<2x1xf32>) -> tensor<2x2xf32>
  %2 = "cuesta.cat"(%0, %1) {dim = 1 : i64} : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2x5xf32>
  return %2 : tensor<2x5xf32>
}

// A constant and a range go to memory where somebody wants them there.
// CHECK-LABEL: func.func @returned
// CHECK: %[[C:.*]] = linalg.generic
// CHECK: arith.constant 2.000000e+00 : f32
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.index 0
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : i64
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : i64
// CHECK: %[[STEPS:.*]] = arith.muli %{{.*}}, %[[C2]]
// CHECK-NEXT: arith.addi %[[C1]], %[[STEPS]]
// CHECK: return %[[C]], %[[R]]
func.func @returned() -> (tensor<4xf32>, tensor<4xi64>) {
  %0 = "cuesta.constant"() {value = 2.0 : f64} : () -> tensor<4xf32>
  %1 = "cuesta.iota"() {start = 1 : i64, step = 2 : i64} : () -> tensor<4xi64>
  return %0, %1 : tensor<4xf32>, tensor<4xi64>
}

// A call stays and remembers which of the types that share a byte it meant.
// CHECK-LABEL: func.func @call
// CHECK-NEXT: "aten.call"(%{{.*}}) {{.*}}dtypes = ["ui8", "ui8", "i64"]{{.*}} : (tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi64>)
func.func @call(%x: tensor<4xui8>) -> tensor<4xui8> {
  %0:2 = "aten.call"(%x) {args = "[\22%0\22]", overload = "aten.sort.default", reason = "", result_strides = [[1], [1]]} : (tensor<4xui8>) -> (tensor<4xui8>, tensor<4xi64>)
  return %0#0 : tensor<4xui8>
}

// A range of floats is computed in f64, so that it rounds once, as torch's does.
// CHECK-LABEL: func.func @floats
// CHECK: linalg.index 0
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f64
// CHECK: arith.addf %{{.*}}, %{{.*}} : f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @floats() -> tensor<6xf32> {
  %0 = "cuesta.iota"() {start = 0.5, step = 0.1} : () -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
