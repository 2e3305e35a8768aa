// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(sum-depthwise-gradients)' %s | filecheck %s

// The weight's gradient is a sum over windows of the padded images; the images' stays a call, without the weight's.
// CHECK-LABEL: func.func @gradients
// CHECK: %[[H:.*]] = "cuesta.unfold"({{.*}}) {dim = 1 : i64, step = 2 : i64} : (tensor<2x12x12x8xf32>) -> tensor<2x4x12x8x5xf32>
// CHECK: %[[W:.*]] = "cuesta.unfold"(%[[H]]) {dim = 2 : i64, step = 2 : i64} : (tensor<2x4x12x8x5xf32>) -> tensor<2x4x4x8x5x5xf32>
// CHECK: %[[P:.*]] = "cuesta.permute"(%[[W]]) {dims = [4, 5, 0, 1, 2, 3]}
// CHECK: %[[G:.*]] = "cuesta.unfold"({{.*}}) {dim = 1 : i64, step = 1 : i64} : (tensor<2x4x4x8xf32>) -> tensor<2x4x4x8x1xf32>
// CHECK: %[[M:.*]] = "cuesta.mul"(%[[P]],
// CHECK: %[[S:.*]] = "cuesta.sum"(%[[M]]) {dims = [2, 3, 4], keepdim = 0 : i64}
// CHECK: %[[T:.*]] = "cuesta.permute"(%[[S]]) {dims = [2, 0, 1]}
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[T]]) : (tensor<8x5x5xf32>) -> tensor<8x1x5x5xf32>
// CHECK: %[[X:.*]] = "aten.call"({{.*}}[true, false, false]{{.*}}positions = [0], {{.*}}result_strides = {{\[\[}}512, 1, 64, 8]]
// CHECK: %[[B:.*]] = "cuesta.sum"({{.*}}dims = [0, 2, 3]
// CHECK: return %[[X]], %[[R]], %[[B]]
// One number for both dims.
// CHECK-LABEL: func.func @of_the_weight
// CHECK: cuesta.unfold{{.*}}tensor<2x4x12x8x5xf32>
// CHECK-NOT: "aten.call"
// CHECK: return
module attributes {cuesta.target = "cpu"} {
func.func @gradients(%g: tensor<2x8x4x4xf32>, %x: tensor<2x8x8x8xf32> {cuesta.strides = [512, 1, 64, 8]}, %w: tensor<8x1x5x5xf32>) -> (tensor<2x8x8x8xf32>, tensor<8x1x5x5xf32>, tensor<8xf32>) {
  %0:3 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [8], [2, 2], [2, 2], [1, 1], false, [0, 0], 8, [true, true, true]]", overload = "aten.convolution_backward.default", reason = "", operand_strides = [[128, 1, 32, 8], [512, 1, 64, 8], [25, 1, 5, 1]], result_strides = [[512, 1, 64, 8], [25, 1, 5, 1], [1]]} : (tensor<2x8x4x4xf32>, tensor<2x8x8x8xf32>, tensor<8x1x5x5xf32>) -> (tensor<2x8x8x8xf32>, tensor<8x1x5x5xf32>, tensor<8xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x8x8x8xf32>, tensor<8x1x5x5xf32>, tensor<8xf32>
}
func.func @of_the_weight(%g: tensor<2x8x4x4xf32>, %x: tensor<2x8x8x8xf32> {cuesta.strides = [512, 1, 64, 8]}, %w: tensor<8x1x5x5xf32>) -> tensor<8x1x5x5xf32> {
  %0 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [0], [2], [2], [1], false, [0], 8, [false, true, false]]", overload = "aten.convolution_backward.default", positions = [1], reason = "", result_strides = [[25, 1, 5, 1]]} : (tensor<2x8x4x4xf32>, tensor<2x8x8x8xf32>, tensor<8x1x5x5xf32>) -> tensor<8x1x5x5xf32>
  return %0 : tensor<8x1x5x5xf32>
}
}

// CHECK: // -----
// -----

// A window that oneDNN has a kernel for, row-major images, more than one channel in a group, and images that are much
// larger than the weight stay.
// CHECK-LABEL: func.func @others
// CHECK-NOT: cuesta.unfold
// CHECK-COUNT-4: "aten.call"
module attributes {cuesta.target = "cpu"} {
func.func @others(%g: tensor<2x8x8x8xf32>, %x: tensor<2x8x8x8xf32> {cuesta.strides = [512, 1, 64, 8]}, %y: tensor<2x8x8x8xf32>, %u: tensor<8x1x3x3xf32>, %w: tensor<8x1x5x5xf32>, %v: tensor<8x2x5x5xf32>, %h: tensor<2x8x80x80xf32>, %z: tensor<2x8x80x80xf32> {cuesta.strides = [51200, 1, 640, 8]}) -> (tensor<8x1x3x3xf32>, tensor<8x1x5x5xf32>, tensor<8x2x5x5xf32>, tensor<8x1x5x5xf32>) {
  %0 = "aten.call"(%g, %x, %u) {args = "[\22%0\22, \22%1\22, \22%2\22, [0], [1, 1], [1, 1], [1, 1], false, [0, 0], 8, [false, true, false]]", overload = "aten.convolution_backward.default", positions = [1], reason = "", result_strides = [[9, 1, 3, 1]]} : (tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>, tensor<8x1x3x3xf32>) -> tensor<8x1x3x3xf32>
  %1 = "aten.call"(%g, %y, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [0], [1, 1], [2, 2], [1, 1], false, [0, 0], 8, [false, true, false]]", overload = "aten.convolution_backward.default", positions = [1], reason = "", result_strides = [[25, 25, 5, 1]]} : (tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>, tensor<8x1x5x5xf32>) -> tensor<8x1x5x5xf32>
  %2 = "aten.call"(%g, %x, %v) {args = "[\22%0\22, \22%1\22, \22%2\22, [0], [1, 1], [2, 2], [1, 1], false, [0, 0], 4, [false, true, false]]", overload = "aten.convolution_backward.default", positions = [1], reason = "", result_strides = [[50, 1, 10, 2]]} : (tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>, tensor<8x2x5x5xf32>) -> tensor<8x2x5x5xf32>
  %3 = "aten.call"(%h, %z, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [0], [1, 1], [2, 2], [1, 1], false, [0, 0], 8, [false, true, false]]", overload = "aten.convolution_backward.default", positions = [1], reason = "", result_strides = [[25, 1, 5, 1]]} : (tensor<2x8x80x80xf32>, tensor<2x8x80x80xf32>, tensor<8x1x5x5xf32>) -> tensor<8x1x5x5xf32>
  return %0, %1, %2, %3 : tensor<8x1x3x3xf32>, tensor<8x1x5x5xf32>, tensor<8x2x5x5xf32>, tensor<8x1x5x5xf32>
}
}
