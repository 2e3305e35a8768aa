// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu})' %s | filecheck %s

// What is elementwise on the result joins a sum over windows, with a residual that it adds; a sum of it does not. The
// images, whose channels are not side by side, are copied first, and so is the weight.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"({{.*}}ops = ["copy"]{{.*}} (memref<8x9xbf16>, memref<9x8xf32>)
// CHECK: "host.launch"({{.*}}ops = ["copy"]{{.*}} (memref<64x8x512xbf16>, memref<64x512x8xbf16>)
// CHECK: "host.launch"({{.*}}ops = ["convolution", "add"]
// CHECK: "host.launch"({{.*}}ops = ["sum"]
// CHECK-NOT: host.launch
module {
func.func @graph(%x: tensor<64x8x128x4xbf16> {cuesta.strides = [4096, 512, 4, 1]}, %w: tensor<3x3x8xbf16> {cuesta.strides = [3, 1, 9]}, %z: tensor<64x128x4x8xf32> {cuesta.strides = [4096, 32, 8, 1]}) -> (tensor<64x8xf32> {cuesta.strides = [8, 1]}) {
  %0 = "cuesta.permute"(%x) {dims = [0, 2, 3, 1]} : (tensor<64x8x128x4xbf16>) -> tensor<64x128x4x8xbf16>
  %1 = "cuesta.depthwise"(%0, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], spread = [1, 1]} : (tensor<64x128x4x8xbf16>, tensor<3x3x8xbf16>) -> tensor<64x128x4x8xf32> loc("convolution")
  %2 = "cuesta.add"(%1, %z) : (tensor<64x128x4x8xf32>, tensor<64x128x4x8xf32>) -> tensor<64x128x4x8xf32> loc("add")
  %3 = "cuesta.sum"(%2) {dims = [1, 2], keepdim = 0 : i64} : (tensor<64x128x4x8xf32>) -> tensor<64x8xf32> loc("sum")
  return %3 : tensor<64x8xf32>
}
}

// CHECK: // -----
// -----

// Two sums over windows of one tensor are two kernels.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"({{.*}}ops = ["second"]
// CHECK: "host.launch"({{.*}}ops = ["first", "add"]
module {
func.func @graph(%x: tensor<64x128x4x8xbf16> {cuesta.strides = [4096, 32, 8, 1]}, %w: tensor<3x3x8xbf16> {cuesta.strides = [24, 8, 1]}) -> (tensor<64x128x4x8xf32> {cuesta.strides = [4096, 32, 8, 1]}) {
  %0 = "cuesta.depthwise"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], spread = [1, 1]} : (tensor<64x128x4x8xbf16>, tensor<3x3x8xbf16>) -> tensor<64x128x4x8xf32> loc("first")
  %1 = "cuesta.depthwise"(%x, %w) {stride = [1, 1], padding = [2, 2], dilation = [2, 2], spread = [1, 1]} : (tensor<64x128x4x8xbf16>, tensor<3x3x8xbf16>) -> tensor<64x128x4x8xf32> loc("second")
  %2 = "cuesta.add"(%0, %1) : (tensor<64x128x4x8xf32>, tensor<64x128x4x8xf32>) -> tensor<64x128x4x8xf32> loc("add")
  return %2 : tensor<64x128x4x8xf32>
}
}

// CHECK: // -----
// -----

// Images whose channels lie last in memory are normed along these in one kernel, whatever the order of their dims.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"
// CHECK-NOT: host.launch
module {
func.func @graph(%x: tensor<64x96x8x8xf32> {cuesta.strides = [6144, 1, 768, 96]}, %b: tensor<96x1x1xf32> {cuesta.strides = [1, 1, 1]}) -> (tensor<64x8x8x96xf32> {cuesta.strides = [6144, 768, 96, 1]}) {
  %0 = "cuesta.add"(%x, %b) : (tensor<64x96x8x8xf32>, tensor<96x1x1xf32>) -> tensor<64x96x8x8xf32>
  %1 = "cuesta.permute"(%0) {dims = [0, 2, 3, 1]} : (tensor<64x96x8x8xf32>) -> tensor<64x8x8x96xf32>
  %2 = "cuesta.sum"(%1) {dims = [3], keepdim = 1 : i64} : (tensor<64x8x8x96xf32>) -> tensor<64x8x8x1xf32>
  %3 = "cuesta.sub"(%1, %2) : (tensor<64x8x8x96xf32>, tensor<64x8x8x1xf32>) -> tensor<64x8x8x96xf32>
  return %3 : tensor<64x8x8x96xf32>
}
}

// CHECK: // -----
// -----

// A program steps from row to row and reads a line of channels. Images whose columns lie outside their rows are copied
// first, and so is one image that is repeated.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"({{.*}}ops = ["copy"]{{.*}} (memref<64x8x128x8xbf16>, memref<64x128x8x8xbf16>)
// CHECK: "host.launch"({{.*}}ops = ["turned"]
// CHECK: "host.launch"({{.*}}ops = ["copy"]{{.*}} (memref<8192xbf16>, memref<64x8192xbf16>)
// CHECK: "host.launch"({{.*}}ops = ["repeated"]
module {
func.func @graph(%x: tensor<64x8x128x8xbf16> {cuesta.strides = [8192, 1024, 8, 1]}, %w: tensor<3x3x8xbf16> {cuesta.strides = [24, 8, 1]}, %y: tensor<1x128x8x8xbf16> {cuesta.strides = [8192, 64, 8, 1]}) -> (tensor<64x128x8x8xf32> {cuesta.strides = [8192, 64, 8, 1]}, tensor<64x128x8x8xf32> {cuesta.strides = [8192, 64, 8, 1]}) {
  %0 = "cuesta.permute"(%x) {dims = [0, 2, 1, 3]} : (tensor<64x8x128x8xbf16>) -> tensor<64x128x8x8xbf16>
  %1 = "cuesta.depthwise"(%0, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], spread = [1, 1]} : (tensor<64x128x8x8xbf16>, tensor<3x3x8xbf16>) -> tensor<64x128x8x8xf32> loc("turned")
  %2 = "cuesta.expand"(%y) : (tensor<1x128x8x8xbf16>) -> tensor<64x128x8x8xbf16>
  %3 = "cuesta.depthwise"(%2, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], spread = [1, 1]} : (tensor<64x128x8x8xbf16>, tensor<3x3x8xbf16>) -> tensor<64x128x8x8xf32> loc("repeated")
  return %1, %3 : tensor<64x128x8x8xf32>, tensor<64x128x8x8xf32>
}
}
