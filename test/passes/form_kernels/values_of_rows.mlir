// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu})' %s | filecheck %s

// A condition of each row is part of the rows' mask and of a value of each row. The value's ops do not join the mask's
// kernel first, whose programs would then walk whole rows of 1048576: one kernel reads the rows and writes them.
// CHECK: func.func @graph
// CHECK-COUNT-1: host.launch
// CHECK-NOT: host.launch
func.func @graph(%x: tensor<512x1048576xf32> {cuesta.strides = [1048576, 1]}, %t: tensor<512x1xi64> {cuesta.strides = [1, 1]}, %g: tensor<f32> {cuesta.strides = []}) -> (tensor<512x1048576xf32> {cuesta.strides = [1048576, 1]}) {
  %i = "cuesta.constant"() {value = -100 : i64} : () -> tensor<i64>
  %n = "cuesta.constant"() {value = 1048576 : i64} : () -> tensor<i64>
  %z = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<f32>
  %0 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<1048576xi64>
  %1 = "cuesta.ne"(%t, %i) : (tensor<512x1xi64>, tensor<i64>) -> tensor<512x1xi1>
  %2 = "cuesta.eq"(%0, %t) : (tensor<1048576xi64>, tensor<512x1xi64>) -> tensor<512x1048576xi1>
  %3 = "cuesta.logical_and"(%2, %1) : (tensor<512x1048576xi1>, tensor<512x1xi1>) -> tensor<512x1048576xi1>
  %4 = "cuesta.where"(%3, %g, %z) : (tensor<512x1048576xi1>, tensor<f32>, tensor<f32>) -> tensor<512x1048576xf32>
  %5 = "cuesta.lt"(%t, %n) : (tensor<512x1xi64>, tensor<i64>) -> tensor<512x1xi1>
  %6 = "cuesta.logical_and"(%5, %1) : (tensor<512x1xi1>, tensor<512x1xi1>) -> tensor<512x1xi1>
  %7 = "cuesta.where"(%6, %g, %z) : (tensor<512x1xi1>, tensor<f32>, tensor<f32>) -> tensor<512x1xf32>
  %e = "cuesta.exp"(%x) : (tensor<512x1048576xf32>) -> tensor<512x1048576xf32>
  %8 = "cuesta.mul"(%e, %7) : (tensor<512x1048576xf32>, tensor<512x1xf32>) -> tensor<512x1048576xf32>
  %9 = "cuesta.sub"(%4, %8) : (tensor<512x1048576xf32>, tensor<512x1048576xf32>) -> tensor<512x1048576xf32>
  return %9 : tensor<512x1048576xf32>
}
