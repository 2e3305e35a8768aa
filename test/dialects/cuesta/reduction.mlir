// RUN: cuesta-opt %s | filecheck %s

// CHECK-LABEL: func.func @dims
// CHECK: "cuesta.sum"(%{{.*}}) {dims = [0, 2], keepdim = 0 : i64} : (tensor<2x3x4xf32>) -> tensor<3xf32>
// CHECK: "cuesta.amax"(%{{.*}}) {dims = [2], keepdim = 1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x1xf32>
func.func @dims(%x: tensor<2x3x4xf32>) -> (tensor<3xf32>, tensor<2x3x1xf32>) {
  %0 = "cuesta.sum"(%x) {dims = [0, 2], keepdim = 0} : (tensor<2x3x4xf32>) -> tensor<3xf32>
  %1 = "cuesta.amax"(%x) {dims = [2], keepdim = 1} : (tensor<2x3x4xf32>) -> tensor<2x3x1xf32>
  return %0, %1 : tensor<3xf32>, tensor<2x3x1xf32>
}

// CHECK-LABEL: func.func @one_dim
// CHECK: "cuesta.argmax"(%{{.*}}) {dim = 1 : i64} : (tensor<2x3xf32>) -> tensor<2xi64>
// CHECK: "cuesta.argmin"(%{{.*}}) {dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<3xi64>
// CHECK: "cuesta.cumsum"(%{{.*}}) {dim = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @one_dim(%x: tensor<2x3xf32>) -> (tensor<2xi64>, tensor<3xi64>, tensor<2x3xf32>) {
  %0 = "cuesta.argmax"(%x) {dim = 1} : (tensor<2x3xf32>) -> tensor<2xi64>
  %1 = "cuesta.argmin"(%x) {dim = 0} : (tensor<2x3xf32>) -> tensor<3xi64>
  %2 = "cuesta.cumsum"(%x) {dim = 1} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1, %2 : tensor<2xi64>, tensor<3xi64>, tensor<2x3xf32>
}
