// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(pad-groups)' %s | filecheck %s

// Groups of 24 channels get 32, of 40 results 64, with zeros in images, weight and bias; the result is cut.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%[[X:[^:]*]]: tensor<2x48x8x8xbf16>{{.*}}, %[[W:[^:]*]]: tensor<80x24x3x3xbf16>{{.*}}, %[[B:[^:]*]]: tensor<80xbf16>
// CHECK: %[[X2:.*]] = "cuesta.window"(%{{.*}}) {{.*}}outside = 0.0{{.*}} : (tensor<2x8x8x2x24xbf16>) -> tensor<2x8x8x2x32xbf16>
// CHECK: %[[W2:.*]] = "cuesta.window"(%{{.*}}) {{.*}} : (tensor<2x40x3x3x24xbf16>) -> tensor<2x64x3x3x32xbf16>
// CHECK: %[[B2:.*]] = "cuesta.window"(%{{.*}}) {{.*}} : (tensor<2x40xbf16>) -> tensor<2x64xbf16>
// CHECK: %[[Y:.*]] = "cuesta.convolution"({{.*}}groups = 2{{.*}}operand_strides = {{\[\[}}4096, 1, 512, 64], [288, 1, 96, 32], [1]], {{.*}}result_strides = {{\[\[}}8192, 1, 1024, 128]]
// CHECK: "cuesta.slice"(%{{.*}}) {{.*}} : (tensor<2x8x8x2x64xbf16>) -> tensor<2x8x8x2x40xbf16>
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @forward(%x: tensor<2x48x8x8xbf16>, %w: tensor<80x24x3x3xbf16>, %b: tensor<80xbf16>) -> tensor<2x80x8x8xbf16> {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 2 : i64, cudnn = "tensor_cores", operand_strides = [[3072, 1, 384, 48], [216, 1, 72, 24], [1]], result_strides = [[5120, 1, 640, 80]]} : (tensor<2x48x8x8xbf16>, tensor<80x24x3x3xbf16>, tensor<80xbf16>) -> tensor<2x80x8x8xbf16>
  return %0 : tensor<2x80x8x8xbf16>
}
}

// -----

// Gradients are computed with the same groups.
// CHECK-LABEL: func.func @backward
// CHECK-COUNT-3: "cuesta.window"
// CHECK: %[[G:.*]]:2 = "aten.call"({{.*}}operand_strides = {{\[\[}}4096, 1, 512, 64], [4096, 1, 512, 64], [288, 1, 96, 32]]{{.*}}result_strides = {{\[\[}}4096, 1, 512, 64], [288, 1, 96, 32]]{{.*}} -> (tensor<2x64x8x8xbf16>, tensor<64x32x3x3xbf16>)
// CHECK: "cuesta.slice"(%{{.*}}) {{.*}} -> tensor<2x8x8x2x24xbf16>
// CHECK: "cuesta.slice"(%{{.*}}) {{.*}} -> tensor<2x24x3x3x32xbf16>
// CHECK: "cuesta.slice"(%{{.*}}) {{.*}} -> tensor<2x24x3x3x24xbf16>
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @backward(%g: tensor<2x48x8x8xbf16>, %x: tensor<2x48x8x8xbf16>, %w: tensor<48x24x3x3xbf16>) -> (tensor<2x48x8x8xbf16>, tensor<48x24x3x3xbf16>) {
  %0:2 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, null, [1, 1], [1, 1], [1, 1], false, [0, 0], 2, [true, true, false]]", overload = "aten.convolution_backward.default", reason = "", operand_strides = [[3072, 1, 384, 48], [3072, 1, 384, 48], [216, 1, 72, 24]], result_strides = [[3072, 1, 384, 48], [216, 1, 72, 24]]} : (tensor<2x48x8x8xbf16>, tensor<2x48x8x8xbf16>, tensor<48x24x3x3xbf16>) -> (tensor<2x48x8x8xbf16>, tensor<48x24x3x3xbf16>)
  return %0#0, %0#1 : tensor<2x48x8x8xbf16>, tensor<48x24x3x3xbf16>
}
}

// -----

// cuDNN has kernels for groups of 32; a depthwise convolution has none to pad; and a row-major one stays.
// CHECK-LABEL: func.func @left_alone
// CHECK-NOT: "cuesta.window"
// CHECK: return
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @left_alone(%x: tensor<2x64x8x8xbf16>, %w: tensor<64x32x3x3xbf16>, %d: tensor<64x1x3x3xbf16>, %y: tensor<2x48x8x8xbf16>, %v: tensor<48x24x3x3xbf16>) -> (tensor<2x64x8x8xbf16>, tensor<2x64x8x8xbf16>, tensor<2x48x8x8xbf16>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 2 : i64, cudnn = "tensor_cores", operand_strides = [[4096, 1, 512, 64], [288, 1, 96, 32]], result_strides = [[4096, 1, 512, 64]]} : (tensor<2x64x8x8xbf16>, tensor<64x32x3x3xbf16>) -> tensor<2x64x8x8xbf16>
  %1 = "cuesta.convolution"(%x, %d) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 64 : i64, cudnn = "tensor_cores", operand_strides = [[4096, 1, 512, 64], [9, 1, 3, 1]], result_strides = [[4096, 1, 512, 64]]} : (tensor<2x64x8x8xbf16>, tensor<64x1x3x3xbf16>) -> tensor<2x64x8x8xbf16>
  %2 = "cuesta.convolution"(%y, %v) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 2 : i64, cudnn = "tensor_cores", operand_strides = [[3072, 64, 8, 1], [216, 9, 3, 1]], result_strides = [[3072, 64, 8, 1]]} : (tensor<2x48x8x8xbf16>, tensor<48x24x3x3xbf16>) -> tensor<2x48x8x8xbf16>
  return %0, %1, %2 : tensor<2x64x8x8xbf16>, tensor<2x64x8x8xbf16>, tensor<2x48x8x8xbf16>
}
}

// -----

// What a norm computes in training reads the channels where they lie, reductions as well: with the dims of the slice.
// CHECK-LABEL: func.func @statistics
// CHECK: %[[PART:.*]] = "cuesta.slice"(%{{.*}}) {{.*}} -> tensor<2x8x8x2x40xbf16>
// CHECK: %[[WIDE:.*]] = "cuesta.convert"(%[[PART]])
// CHECK: %[[SUM:.*]] = "cuesta.sum"(%[[WIDE]]) {dims = [0, 1, 2], keepdim = 1 : i64} : (tensor<2x8x8x2x40xf32>) -> tensor<1x1x1x2x40xf32>
// CHECK: %[[APART:.*]] = "cuesta.sub"(%[[WIDE]], %{{.*}}) : (tensor<2x8x8x2x40xf32>, tensor<1x1x1x2x40xf32>)
// CHECK: %[[SQUARES:.*]] = "cuesta.square"(%[[APART]])
// CHECK: %[[VARIANCE:.*]] = "cuesta.sum"(%[[SQUARES]]) {dims = [0, 1, 2], keepdim = 0 : i64} : {{.*}} -> tensor<2x40xf32>
// CHECK: %[[FLAT:.*]] = "cuesta.reshape"(%[[VARIANCE]]) : (tensor<2x40xf32>) -> tensor<80xf32>
// CHECK: return %[[FLAT]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @statistics(%x: tensor<2x48x8x8xbf16>, %w: tensor<80x24x3x3xbf16>) -> tensor<80xf32> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 2 : i64, cudnn = "tensor_cores", operand_strides = [[3072, 1, 384, 48], [216, 1, 72, 24]], result_strides = [[5120, 1, 640, 80]]} : (tensor<2x48x8x8xbf16>, tensor<80x24x3x3xbf16>) -> tensor<2x80x8x8xbf16>
  %1 = "cuesta.convert"(%0) : (tensor<2x80x8x8xbf16>) -> tensor<2x80x8x8xf32>
  %2 = "cuesta.sum"(%1) {dims = [0, 2, 3], keepdim = 1 : i64} : (tensor<2x80x8x8xf32>) -> tensor<1x80x1x1xf32>
  %3 = "cuesta.sub"(%1, %2) : (tensor<2x80x8x8xf32>, tensor<1x80x1x1xf32>) -> tensor<2x80x8x8xf32>
  %4 = "cuesta.square"(%3) : (tensor<2x80x8x8xf32>) -> tensor<2x80x8x8xf32>
  %5 = "cuesta.sum"(%4) {dims = [0, 2, 3], keepdim = 0 : i64} : (tensor<2x80x8x8xf32>) -> tensor<80xf32>
  return %5 : tensor<80xf32>
}
}

// -----

// So do those of the images' gradient; what is computed beside it for them alone is computed in their dims, from bf16.
// CHECK-LABEL: func.func @sums_of_gradients
// CHECK: %[[PART:.*]] = "cuesta.slice"(%{{.*}}) {{.*}} -> tensor<2x8x8x2x24xbf16>
// CHECK: %[[Y:.*]] = "cuesta.convert"(%{{.*}}) : (tensor<2x8x8x2x24xbf16>) -> tensor<2x8x8x2x24xf32>
// CHECK: %[[PRODUCT:.*]] = "cuesta.mul"({{.*}}) : (tensor<2x8x8x2x24xf32>, tensor<2x8x8x2x24xf32>)
// CHECK: "cuesta.sum"(%[[PRODUCT]]) {dims = [0, 1, 2], keepdim = 0 : i64}
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @sums_of_gradients(%g: tensor<2x48x8x8xbf16>, %x: tensor<2x48x8x8xbf16>, %w: tensor<48x24x3x3xbf16>, %y: tensor<2x48x8x8xbf16>, %m: tensor<1x48x1x1xf32>) -> tensor<48xf32> {
  %0 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, null, [1, 1], [1, 1], [1, 1], false, [0, 0], 2, [true, false, false]]", overload = "aten.convolution_backward.default", positions = [0], reason = "", operand_strides = [[3072, 1, 384, 48], [3072, 1, 384, 48], [216, 1, 72, 24]], result_strides = [[3072, 1, 384, 48]]} : (tensor<2x48x8x8xbf16>, tensor<2x48x8x8xbf16>, tensor<48x24x3x3xbf16>) -> tensor<2x48x8x8xbf16>
  %1 = "cuesta.convert"(%y) : (tensor<2x48x8x8xbf16>) -> tensor<2x48x8x8xf32>
  %2 = "cuesta.sub"(%1, %m) : (tensor<2x48x8x8xf32>, tensor<1x48x1x1xf32>) -> tensor<2x48x8x8xf32>
  %3 = "cuesta.convert"(%0) : (tensor<2x48x8x8xbf16>) -> tensor<2x48x8x8xf32>
  %4 = "cuesta.mul"(%3, %2) : (tensor<2x48x8x8xf32>, tensor<2x48x8x8xf32>) -> tensor<2x48x8x8xf32>
  %5 = "cuesta.sum"(%4) {dims = [0, 2, 3], keepdim = 0 : i64} : (tensor<2x48x8x8xf32>) -> tensor<48xf32>
  return %5 : tensor<48xf32>
}
}
