// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// Gradients of edges are computed, returned, and added up for the nodes at both ends by one kernel. Each of its writes
// is atomic.
// CHECK: func.func @graph(
// CHECK: ops = ["tanh", "index_add"], outputs = 3
// CHECK-NOT: host.launch
func.func @graph(%e: tensor<4096x64xf32> {cuesta.strides = [64, 1]}, %i: tensor<4096x1xi64> {cuesta.strides = [1, 1]}, %j: tensor<4096x1xi64> {cuesta.strides = [1, 1]}, %x: tensor<100x64xf32> {cuesta.strides = [64, 1]}, %y: tensor<100x64xf32> {cuesta.strides = [64, 1]}) -> (tensor<4096x64xf32> {cuesta.strides = [64, 1]}, tensor<100x64xf32> {cuesta.strides = [64, 1]}, tensor<100x64xf32> {cuesta.strides = [64, 1]}) {
  %0 = "cuesta.tanh"(%e) : (tensor<4096x64xf32>) -> tensor<4096x64xf32> loc("tanh"("m.py":1:1))
  %1 = "cuesta.expand"(%i) : (tensor<4096x1xi64>) -> tensor<4096x64xi64>
  %2 = "cuesta.scatter"(%x, %0, %1) {combine = "add", in_range, operandSegmentSizes = array<i32: 1, 1, 1>, walks = [-1, 1]} : (tensor<100x64xf32>, tensor<4096x64xf32>, tensor<4096x64xi64>) -> tensor<100x64xf32> loc("index_add"("m.py":2:1))
  %3 = "cuesta.expand"(%j) : (tensor<4096x1xi64>) -> tensor<4096x64xi64>
  %4 = "cuesta.scatter"(%y, %0, %3) {combine = "add", in_range, operandSegmentSizes = array<i32: 1, 1, 1>, walks = [-1, 1]} : (tensor<100x64xf32>, tensor<4096x64xf32>, tensor<4096x64xi64>) -> tensor<100x64xf32> loc("index_add"("m.py":3:1))
  return %0, %2, %4 : tensor<4096x64xf32>, tensor<100x64xf32>, tensor<100x64xf32>
}

// CHECK: // -----
// -----

// Other loops than the scatter's would be walked by each of its programs.
// CHECK: func.func @graph(
// CHECK-DAG: ops = ["tanh"]
// CHECK-DAG: ops = ["exp", "index_add"]
func.func @graph(%e: tensor<4096x64xf32> {cuesta.strides = [64, 1]}, %f: tensor<4096x1xf32> {cuesta.strides = [1, 1]}, %i: tensor<4096x1xi64> {cuesta.strides = [1, 1]}, %x: tensor<100x64xf32> {cuesta.strides = [64, 1]}) -> (tensor<4096x1xf32> {cuesta.strides = [1, 1]}, tensor<100x64xf32> {cuesta.strides = [64, 1]}) {
  %0 = "cuesta.tanh"(%f) : (tensor<4096x1xf32>) -> tensor<4096x1xf32> loc("tanh"("m.py":1:1))
  %1 = "cuesta.exp"(%e) : (tensor<4096x64xf32>) -> tensor<4096x64xf32> loc("exp"("m.py":2:1))
  %2 = "cuesta.mul"(%1, %0) : (tensor<4096x64xf32>, tensor<4096x1xf32>) -> tensor<4096x64xf32> loc("exp"("m.py":2:1))
  %3 = "cuesta.expand"(%i) : (tensor<4096x1xi64>) -> tensor<4096x64xi64>
  %4 = "cuesta.scatter"(%x, %2, %3) {combine = "add", in_range, operandSegmentSizes = array<i32: 1, 1, 1>, walks = [-1, 1]} : (tensor<100x64xf32>, tensor<4096x64xf32>, tensor<4096x64xi64>) -> tensor<100x64xf32> loc("index_add"("m.py":3:1))
  return %0, %4 : tensor<4096x1xf32>, tensor<100x64xf32>
}

// CHECK: // -----
// -----

// Two scatters into one tensor, each of which wants the other's memory.
// CHECK: func.func @graph(
// CHECK-DAG: ops = ["first"], outputs = 1
// CHECK-DAG: ops = ["second"], outputs = 1
func.func @graph(%e: tensor<4096x64xf32> {cuesta.strides = [64, 1]}, %i: tensor<4096x1xi64> {cuesta.strides = [1, 1]}, %j: tensor<4096x1xi64> {cuesta.strides = [1, 1]}, %x: tensor<100x64xf32> {cuesta.strides = [64, 1]}) -> (tensor<100x64xf32> {cuesta.strides = [64, 1]}, tensor<100x64xf32> {cuesta.strides = [64, 1]}) {
  %1 = "cuesta.expand"(%i) : (tensor<4096x1xi64>) -> tensor<4096x64xi64>
  %2 = "cuesta.scatter"(%x, %e, %1) {combine = "add", in_range, operandSegmentSizes = array<i32: 1, 1, 1>, walks = [-1, 1]} : (tensor<100x64xf32>, tensor<4096x64xf32>, tensor<4096x64xi64>) -> tensor<100x64xf32> loc("first"("m.py":1:1))
  %3 = "cuesta.expand"(%j) : (tensor<4096x1xi64>) -> tensor<4096x64xi64>
  %4 = "cuesta.scatter"(%x, %e, %3) {combine = "add", in_range, operandSegmentSizes = array<i32: 1, 1, 1>, walks = [-1, 1]} : (tensor<100x64xf32>, tensor<4096x64xf32>, tensor<4096x64xi64>) -> tensor<100x64xf32> loc("second"("m.py":2:1))
  return %2, %4 : tensor<100x64xf32>, tensor<100x64xf32>
}
