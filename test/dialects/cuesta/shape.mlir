// RUN: cuesta-opt %s | filecheck %s

// CHECK-LABEL: func.func @views
// CHECK: "cuesta.reshape"(%{{.*}}) : (tensor<4x6xf32>) -> tensor<2x2x6xf32>
// CHECK: "cuesta.permute"(%{{.*}}) {dims = [2, 0, 1]} : (tensor<2x2x6xf32>) -> tensor<6x2x2xf32>
// CHECK: "cuesta.slice"(%{{.*}}) {starts = [1, 0, 0], steps = [2, 1, 1]} : (tensor<6x2x2xf32>) -> tensor<3x1x2xf32>
// CHECK: "cuesta.expand"(%{{.*}}) : (tensor<3x1x2xf32>) -> tensor<5x3x4x2xf32>
func.func @views(%x: tensor<4x6xf32>) -> tensor<5x3x4x2xf32> {
  %0 = "cuesta.reshape"(%x) : (tensor<4x6xf32>) -> tensor<2x2x6xf32>
  %1 = "cuesta.permute"(%0) {dims = [2, 0, 1]} : (tensor<2x2x6xf32>) -> tensor<6x2x2xf32>
  %2 = "cuesta.slice"(%1) {starts = [1, 0, 0], steps = [2, 1, 1]} : (tensor<6x2x2xf32>) -> tensor<3x1x2xf32>
  %3 = "cuesta.expand"(%2) : (tensor<3x1x2xf32>) -> tensor<5x3x4x2xf32>
  return %3 : tensor<5x3x4x2xf32>
}

// CHECK-LABEL: func.func @windows
// CHECK: "cuesta.unfold"(%{{.*}}) {dim = 0 : i64, step = 2 : i64} : (tensor<6x3xf32>) -> tensor<2x3x4xf32>
func.func @windows(%x: tensor<6x3xf32>) -> tensor<2x3x4xf32> {
  %0 = "cuesta.unfold"(%x) {dim = 0, step = 2} : (tensor<6x3xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @moves
// CHECK: "cuesta.cat"(%{{.*}}, %{{.*}}) {dim = 0 : i64} : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
// CHECK: "cuesta.flip"(%{{.*}}) {dims = [0, 1]} : (tensor<3x3xf32>) -> tensor<3x3xf32>
// CHECK: "cuesta.copy"(%{{.*}}) {strides = [1, 3]} : (tensor<3x3xf32>) -> tensor<3x3xf32>
func.func @moves(%x: tensor<2x3xf32>, %y: tensor<1x3xf32>) -> tensor<3x3xf32> {
  %0 = "cuesta.cat"(%x, %y) {dim = 0} : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
  %1 = "cuesta.flip"(%0) {dims = [0, 1]} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %2 = "cuesta.copy"(%1) {strides = [1, 3]} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  return %2 : tensor<3x3xf32>
}

// CHECK-LABEL: func.func @numbers
// CHECK: "cuesta.constant"() {value = 2.500000e+00 : f64} : () -> tensor<2x3xbf16>
// CHECK: "cuesta.constant"() {value = 1 : i64} : () -> tensor<i1>
// CHECK: "cuesta.iota"() {start = 0 : i64, step = 2 : i64} : () -> tensor<5xi64>
func.func @numbers() -> (tensor<2x3xbf16>, tensor<i1>, tensor<5xi64>) {
  %0 = "cuesta.constant"() {value = 2.5} : () -> tensor<2x3xbf16>
  %1 = "cuesta.constant"() {value = 1} : () -> tensor<i1>
  %2 = "cuesta.iota"() {start = 0, step = 2} : () -> tensor<5xi64>
  return %0, %1, %2 : tensor<2x3xbf16>, tensor<i1>, tensor<5xi64>
}
