// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(multiply-convolutions)' %s | filecheck %s

// In channels_last a window of one element is a product; with a bias, one that adds it.
// CHECK-LABEL: func.func @network
// CHECK: %[[A:.*]] = "cuesta.reshape"({{.*}}) : (tensor<2x8x8x4xf32>) -> tensor<128x4xf32>
// CHECK: %[[B:.*]] = "cuesta.permute"({{.*}}) {dims = [1, 0]} : (tensor<16x4xf32>) -> tensor<4x16xf32>
// CHECK: %[[P:.*]] = "cuesta.addmm"(%{{.*}}, %[[A]], %[[B]])
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[P]]) : (tensor<128x16xf32>) -> tensor<2x8x8x16xf32>
// CHECK: %[[X:.*]] = "cuesta.permute"(%[[R]]) {dims = [0, 3, 1, 2]}
// CHECK: %[[Y:.*]] = "cuesta.relu"(%[[X]])
// CHECK: "cuesta.mm"
// CHECK-NOT: cuesta.convolution
module attributes {cuesta.target = "cpu"} {
func.func @network(%x: tensor<2x4x8x8xf32> {cuesta.strides = [256, 1, 32, 4]}, %w: tensor<16x4x1x1xf32>, %b: tensor<16xf32>, %v: tensor<8x16x1x1xf32>) -> tensor<2x8x8x8xf32> {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn, result_strides = [[1024, 1, 128, 16]]} : (tensor<2x4x8x8xf32>, tensor<16x4x1x1xf32>, tensor<16xf32>) -> tensor<2x16x8x8xf32>
  %1 = "cuesta.relu"(%0) : (tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32>
  %2 = "cuesta.convolution"(%1, %v) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn, result_strides = [[512, 1, 64, 8]]} : (tensor<2x16x8x8xf32>, tensor<8x16x1x1xf32>) -> tensor<2x8x8x8xf32>
  return %2 : tensor<2x8x8x8xf32>
}
}

// CHECK: // -----
// -----

// Gradients are two products, the weight's in the library, and sums; what is not asked for is not computed.
// CHECK-LABEL: func.func @gradients
// CHECK: %[[G:.*]] = "cuesta.reshape"({{.*}}) : (tensor<2x8x8x16xf32>) -> tensor<128x16xf32>
// CHECK: "cuesta.mm"(%[[G]], {{.*}}) : (tensor<128x16xf32>, tensor<16x4xf32>) -> tensor<128x4xf32>
// CHECK: %[[T:.*]] = "cuesta.permute"(%[[G]]) {dims = [1, 0]}
// CHECK: "cuesta.mm"(%[[T]], {{.*}}) {route = "library"} : (tensor<16x128xf32>, tensor<128x4xf32>) -> tensor<16x4xf32>
// CHECK: "cuesta.sum"{{.*}}dims = [0, 2, 3]
// CHECK-NOT: cuesta.mm
// CHECK: return
// CHECK-LABEL: func.func @of_the_weight
// CHECK: "cuesta.mm"{{.*}}route = "library"
// CHECK-NOT: cuesta.mm
// CHECK: return
module attributes {cuesta.target = "cpu"} {
func.func @gradients(%g: tensor<2x16x8x8xf32>, %x: tensor<2x4x8x8xf32> {cuesta.strides = [256, 1, 32, 4]}, %w: tensor<16x4x1x1xf32>) -> (tensor<2x4x8x8xf32>, tensor<16x4x1x1xf32>, tensor<16xf32>) {
  %0:3 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [16], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [true, true, true]]", overload = "aten.convolution_backward.default", reason = "", result_strides = [[256, 1, 32, 4], [4, 1, 4, 4], [1]]} : (tensor<2x16x8x8xf32>, tensor<2x4x8x8xf32>, tensor<16x4x1x1xf32>) -> (tensor<2x4x8x8xf32>, tensor<16x4x1x1xf32>, tensor<16xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x4x8x8xf32>, tensor<16x4x1x1xf32>, tensor<16xf32>
}
func.func @of_the_weight(%g: tensor<2x16x8x8xf32>, %x: tensor<2x4x8x8xf32> {cuesta.strides = [256, 1, 32, 4]}, %w: tensor<16x4x1x1xf32>) -> tensor<16x4x1x1xf32> {
  %0 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [16], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [false, true, false]]", overload = "aten.convolution_backward.default", positions = [1], reason = "", result_strides = [[4, 1, 4, 4]]} : (tensor<2x16x8x8xf32>, tensor<2x4x8x8xf32>, tensor<16x4x1x1xf32>) -> tensor<16x4x1x1xf32>
  return %0 : tensor<16x4x1x1xf32>
}
}

// CHECK: // -----
// -----

// Large windows side by side over few channels are rows that are copied, whatever the layout of the images; the
// gradient of the images goes back the same way.
// CHECK-LABEL: func.func @patches
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x32x16xf32>, %[[ARG_W:.*]]: tensor<20x3x8x8xf32>)
// CHECK: %[[C:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<2x3x32x16xf32>) -> tensor<2x3x4x8x2x8xf32>
// CHECK: %[[P:.*]] = "cuesta.permute"(%[[C]]) {dims = [0, 2, 4, 1, 3, 5]}
// CHECK: %[[A:.*]] = "cuesta.reshape"(%[[P]]) : (tensor<2x4x2x3x8x8xf32>) -> tensor<16x192xf32>
// CHECK: %[[W:.*]] = "cuesta.reshape"(%[[ARG_W]]) : (tensor<20x3x8x8xf32>) -> tensor<20x192xf32>
// CHECK: %[[B:.*]] = "cuesta.permute"(%[[W]]) {dims = [1, 0]}
// CHECK: "cuesta.mm"(%[[A]], %[[B]])
// CHECK-LABEL: func.func @gradients_of_patches
// CHECK: "cuesta.mm"({{.*}}) : (tensor<16x20xf32>, tensor<20x192xf32>) -> tensor<16x192xf32>
// CHECK: "cuesta.permute"({{.*}}) {dims = [0, 3, 1, 4, 2, 5]} : (tensor<2x4x2x3x8x8xf32>) -> tensor<2x3x4x8x2x8xf32>
// CHECK: "cuesta.mm"({{.*}}) {route = "library"} : (tensor<20x16xf32>, tensor<16x192xf32>) -> tensor<20x192xf32>
// CHECK: "cuesta.reshape"({{.*}}) : (tensor<20x192xf32>) -> tensor<20x3x8x8xf32>
// CHECK-LABEL: func.func @no_patches
// CHECK-COUNT-3: "cuesta.convolution"
// CHECK-NOT: "cuesta.mm"
// CHECK: return
module attributes {cuesta.target = "cpu"} {
func.func @patches(%x: tensor<2x3x32x16xf32>, %w: tensor<20x3x8x8xf32>) -> tensor<2x20x4x2xf32> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [8, 8], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn, result_strides = [[160, 8, 2, 1]]} : (tensor<2x3x32x16xf32>, tensor<20x3x8x8xf32>) -> tensor<2x20x4x2xf32>
  return %0 : tensor<2x20x4x2xf32>
}
func.func @gradients_of_patches(%g: tensor<2x20x4x2xf32>, %x: tensor<2x3x32x16xf32>, %w: tensor<20x3x8x8xf32>) -> (tensor<2x3x32x16xf32>, tensor<20x3x8x8xf32>) {
  // ATen takes one number for all dims.
  %0:2 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [20], [8], [0], [1], false, [0], 1, [true, true, false]]", overload = "aten.convolution_backward.default", positions = [0, 1], reason = "", result_strides = [[1536, 512, 16, 1], [192, 64, 8, 1]]} : (tensor<2x20x4x2xf32>, tensor<2x3x32x16xf32>, tensor<20x3x8x8xf32>) -> (tensor<2x3x32x16xf32>, tensor<20x3x8x8xf32>)
  return %0#0, %0#1 : tensor<2x3x32x16xf32>, tensor<20x3x8x8xf32>
}
// Windows that overlap, that leave a border, and over many channels.
func.func @no_patches(%x: tensor<2x3x32x16xf32>, %y: tensor<2x16x32x16xf32>, %w: tensor<20x3x8x8xf32>, %v: tensor<20x3x9x8xf32>, %u: tensor<20x16x8x8xf32>) -> (tensor<2x20x7x2xf32>, tensor<2x20x3x2xf32>, tensor<2x20x4x2xf32>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [4, 8], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn} : (tensor<2x3x32x16xf32>, tensor<20x3x8x8xf32>) -> tensor<2x20x7x2xf32>
  %1 = "cuesta.convolution"(%x, %v) {stride = [9, 8], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn} : (tensor<2x3x32x16xf32>, tensor<20x3x9x8xf32>) -> tensor<2x20x3x2xf32>
  %2 = "cuesta.convolution"(%y, %u) {stride = [8, 8], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn} : (tensor<2x16x32x16xf32>, tensor<20x16x8x8xf32>) -> tensor<2x20x4x2xf32>
  return %0, %1, %2 : tensor<2x20x7x2xf32>, tensor<2x20x3x2xf32>, tensor<2x20x4x2xf32>
}
}

// CHECK: // -----
// -----

// Row-major images, padding, groups, a window of more, and a call that bitwise_eager wants stay.
// CHECK-LABEL: func.func @others
// CHECK-NOT: "cuesta.mm"
// CHECK-COUNT-4: "cuesta.convolution"
// CHECK: "aten.call"
// CHECK-NOT: "cuesta.mm"
// CHECK: return
module attributes {cuesta.target = "cpu"} {
func.func @others(%x: tensor<2x4x8x8xf32>, %y: tensor<2x4x8x8xf32> {cuesta.strides = [256, 1, 32, 4]}, %w: tensor<16x4x1x1xf32>, %u: tensor<4x1x1x1xf32>, %v: tensor<16x4x3x3xf32>, %g: tensor<2x16x8x8xf32>) -> (tensor<2x16x8x8xf32>, tensor<2x16x10x10xf32>, tensor<2x4x8x8xf32>, tensor<2x16x6x6xf32>, tensor<16x4x1x1xf32>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn} : (tensor<2x4x8x8xf32>, tensor<16x4x1x1xf32>) -> tensor<2x16x8x8xf32>
  %1 = "cuesta.convolution"(%y, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn} : (tensor<2x4x8x8xf32>, tensor<16x4x1x1xf32>) -> tensor<2x16x10x10xf32>
  %2 = "cuesta.convolution"(%y, %u) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 4 : i64, onednn} : (tensor<2x4x8x8xf32>, tensor<4x1x1x1xf32>) -> tensor<2x4x8x8xf32>
  %3 = "cuesta.convolution"(%y, %v) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn} : (tensor<2x4x8x8xf32>, tensor<16x4x3x3xf32>) -> tensor<2x16x6x6xf32>
  %4 = "aten.call"(%g, %y, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [16], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [false, true, false]]", overload = "aten.convolution_backward.default", positions = [1], reason = "with bitwise_eager, ATen's own kernel gives eager's bits", result_strides = [[4, 1, 4, 4]]} : (tensor<2x16x8x8xf32>, tensor<2x4x8x8xf32>, tensor<16x4x1x1xf32>) -> tensor<16x4x1x1xf32>
  return %0, %1, %2, %3, %4 : tensor<2x16x8x8xf32>, tensor<2x16x10x10xf32>, tensor<2x4x8x8xf32>, tensor<2x16x6x6xf32>, tensor<16x4x1x1xf32>
}
}

// CHECK: // -----
// -----

// On a GPU narrow patches of few channels are a product, from four elements side by side on; nothing else is, and f32,
// which tensor cores would compute in another type, is not.
// CHECK-LABEL: func.func @patches_on_a_gpu
// CHECK: %[[P:.*]] = "cuesta.reshape"(%{{.*}}) : (tensor<2x2x2x3x4x4xbf16>) -> tensor<8x48xbf16>
// CHECK: "cuesta.addmm"(%{{.*}}, %[[P]], %{{.*}}) {{.*}} -> tensor<8x16xbf16>
// CHECK-COUNT-3: "cuesta.convolution"
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @patches_on_a_gpu(%x: tensor<2x3x8x8xbf16>, %w: tensor<16x3x4x4xbf16>, %b: tensor<16xbf16>, %v: tensor<16x3x2x2xbf16>, %y: tensor<2x3x8x8xf32>, %u: tensor<16x3x4x4xf32>, %p: tensor<16x3x1x1xbf16>) -> (tensor<2x16x2x2xbf16>, tensor<2x16x4x4xbf16>, tensor<2x16x2x2xf32>, tensor<2x16x8x8xbf16>) {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [4, 4], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores"} : (tensor<2x3x8x8xbf16>, tensor<16x3x4x4xbf16>, tensor<16xbf16>) -> tensor<2x16x2x2xbf16>
  %1 = "cuesta.convolution"(%x, %v) {stride = [2, 2], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores"} : (tensor<2x3x8x8xbf16>, tensor<16x3x2x2xbf16>) -> tensor<2x16x4x4xbf16>
  %2 = "cuesta.convolution"(%y, %u) {stride = [4, 4], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores"} : (tensor<2x3x8x8xf32>, tensor<16x3x4x4xf32>) -> tensor<2x16x2x2xf32>
  %3 = "cuesta.convolution"(%x, %p) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores"} : (tensor<2x3x8x8xbf16>, tensor<16x3x1x1xbf16>) -> tensor<2x16x8x8xbf16>
  return %0, %1, %2, %3 : tensor<2x16x2x2xbf16>, tensor<2x16x4x4xbf16>, tensor<2x16x2x2xf32>, tensor<2x16x8x8xbf16>
}
}

// CHECK: // -----
// -----

// Rows of 147 elements begin at odd multiples of two bytes: they get zeros up to 152, in the gradient of the weight too,
// of which those columns are cut off. Rows of 588 are left, as they begin at multiples of 8 bytes.
// CHECK-LABEL: func.func @odd_rows
// CHECK: %[[P:.*]] = "cuesta.cat"(%{{.*}}, %{{.*}}) {dim = 1 : i64} : (tensor<12x147xbf16>, tensor<12x5xbf16>) -> tensor<12x152xbf16>
// CHECK: %[[W:.*]] = "cuesta.cat"(%{{.*}}, %{{.*}}) {dim = 1 : i64} : (tensor<16x147xbf16>, tensor<16x5xbf16>) -> tensor<16x152xbf16>
// CHECK: "cuesta.addmm"(%{{.*}}, %[[P]], %{{.*}})
// CHECK: %[[G:.*]] = "cuesta.mm"({{.*}} -> tensor<16x152xbf16>
// CHECK: "cuesta.slice"(%[[G]]) {{.*}} -> tensor<16x147xbf16>
// CHECK-LABEL: func.func @even_rows
// CHECK: "cuesta.mm"({{.*}}) : (tensor<4x588xbf16>, tensor<588x16xbf16>)
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @odd_rows(%x: tensor<2x3x21x14xbf16>, %w: tensor<16x3x7x7xbf16>, %b: tensor<16xbf16>, %g: tensor<2x16x3x2xbf16>) -> (tensor<2x16x3x2xbf16>, tensor<16x3x7x7xbf16>) {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [7, 7], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores"} : (tensor<2x3x21x14xbf16>, tensor<16x3x7x7xbf16>, tensor<16xbf16>) -> tensor<2x16x3x2xbf16>
  %1 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [16], [7, 7], [0, 0], [1, 1], false, [0, 0], 1, [false, true, false]]", overload = "aten.convolution_backward.default", positions = [1], reason = "", result_strides = [[147, 49, 7, 1]]} : (tensor<2x16x3x2xbf16>, tensor<2x3x21x14xbf16>, tensor<16x3x7x7xbf16>) -> tensor<16x3x7x7xbf16>
  return %0, %1 : tensor<2x16x3x2xbf16>, tensor<16x3x7x7xbf16>
}
func.func @even_rows(%x: tensor<1x3x28x28xbf16>, %w: tensor<16x3x14x14xbf16>) -> tensor<1x16x2x2xbf16> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [14, 14], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "tensor_cores"} : (tensor<1x3x28x28xbf16>, tensor<16x3x14x14xbf16>) -> tensor<1x16x2x2xbf16>
  return %0 : tensor<1x16x2x2xbf16>
}
}

// CHECK: // -----
// -----

// bf16 as f32; f64 is not oneDNN's.
// CHECK-LABEL: func.func @types
// CHECK: "cuesta.mm"({{.*}}) : (tensor<128x4xbf16>, tensor<4x16xbf16>) -> tensor<128x16xbf16>
// CHECK: "cuesta.convolution"({{.*}}xf64>
// CHECK-NOT: "cuesta.mm"
// CHECK: return
module attributes {cuesta.target = "cpu"} {
func.func @types(%x: tensor<2x4x8x8xbf16> {cuesta.strides = [256, 1, 32, 4]}, %w: tensor<16x4x1x1xbf16>, %y: tensor<2x4x8x8xf64> {cuesta.strides = [256, 1, 32, 4]}, %v: tensor<16x4x1x1xf64>) -> (tensor<2x16x8x8xbf16>, tensor<2x16x8x8xf64>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn, result_strides = [[1024, 1, 128, 16]]} : (tensor<2x4x8x8xbf16>, tensor<16x4x1x1xbf16>) -> tensor<2x16x8x8xbf16>
  %1 = "cuesta.convolution"(%y, %v) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, result_strides = [[1024, 1, 128, 16]]} : (tensor<2x4x8x8xf64>, tensor<16x4x1x1xf64>) -> tensor<2x16x8x8xf64>
  return %0, %1 : tensor<2x16x8x8xbf16>, tensor<2x16x8x8xf64>
}
}

// CHECK: // -----
// -----

// Windows side by side over many channels are rows as well if the images have few elements beside the weight: in bf16 as
// many at most, in f32 half as many.
// CHECK-LABEL: func.func @few_patches
// CHECK: %[[P:.*]] = "cuesta.reshape"(%{{.*}}) : (tensor<1x2x2x16x2x2xbf16>) -> tensor<4x64xbf16>
// CHECK: "cuesta.mm"(%[[P]], {{.*}}) : (tensor<4x64xbf16>, tensor<64x4xbf16>) -> tensor<4x4xbf16>
// CHECK: "cuesta.mm"({{.*}}) : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
// CHECK-COUNT-2: "cuesta.convolution"
// CHECK-NOT: "cuesta.mm"
// CHECK: return
module attributes {cuesta.target = "cpu"} {
func.func @few_patches(%x: tensor<1x16x4x4xbf16>, %w: tensor<4x16x2x2xbf16>, %v: tensor<3x16x2x2xbf16>, %y: tensor<1x16x4x4xf32>, %u: tensor<8x16x2x2xf32>, %t: tensor<4x16x2x2xf32>) -> (tensor<1x4x2x2xbf16>, tensor<1x8x2x2xf32>, tensor<1x3x2x2xbf16>, tensor<1x4x2x2xf32>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [2, 2], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn} : (tensor<1x16x4x4xbf16>, tensor<4x16x2x2xbf16>) -> tensor<1x4x2x2xbf16>
  %1 = "cuesta.convolution"(%y, %u) {stride = [2, 2], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn} : (tensor<1x16x4x4xf32>, tensor<8x16x2x2xf32>) -> tensor<1x8x2x2xf32>
  %2 = "cuesta.convolution"(%x, %v) {stride = [2, 2], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn} : (tensor<1x16x4x4xbf16>, tensor<3x16x2x2xbf16>) -> tensor<1x3x2x2xbf16>
  %3 = "cuesta.convolution"(%y, %t) {stride = [2, 2], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn} : (tensor<1x16x4x4xf32>, tensor<4x16x2x2xf32>) -> tensor<1x4x2x2xf32>
  return %0, %1, %2, %3 : tensor<1x4x2x2xbf16>, tensor<1x8x2x2xf32>, tensor<1x3x2x2xbf16>, tensor<1x4x2x2xf32>
}
}

// CHECK: // -----
// -----

// With a stride, the rows are those of the pixels that are read; the gradients are the library's.
// CHECK-LABEL: func.func @stride
// CHECK: %[[A:.*]] = "cuesta.slice"(%{{.*}}) {starts = [0, 0, 0, 0], steps = [1, 1, 2, 1]} : (tensor<2x4x7x8xf32>) -> tensor<2x4x4x8xf32>
// CHECK: %[[B:.*]] = "cuesta.slice"(%[[A]]) {starts = [0, 0, 0, 0], steps = [1, 1, 1, 3]} : (tensor<2x4x4x8xf32>) -> tensor<2x4x4x3xf32>
// CHECK: "cuesta.mm"({{.*}}) : (tensor<24x4xf32>, tensor<4x16xf32>) -> tensor<24x16xf32>
// CHECK: "cuesta.permute"({{.*}} -> tensor<2x16x4x3xf32>
// CHECK: "aten.call"
// CHECK-NOT: "cuesta.mm"
// CHECK: return
module attributes {cuesta.target = "cpu"} {
func.func @stride(%x: tensor<2x4x7x8xf32> {cuesta.strides = [224, 1, 32, 4]}, %w: tensor<16x4x1x1xf32>, %g: tensor<2x16x4x3xf32>) -> (tensor<2x16x4x3xf32>, tensor<16x4x1x1xf32>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [2, 3], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, onednn} : (tensor<2x4x7x8xf32>, tensor<16x4x1x1xf32>) -> tensor<2x16x4x3xf32>
  %1 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [16], [2, 3], [0, 0], [1, 1], false, [0, 0], 1, [false, true, false]]", overload = "aten.convolution_backward.default", positions = [1], reason = "", result_strides = [[4, 1, 4, 4]]} : (tensor<2x16x4x3xf32>, tensor<2x4x7x8xf32>, tensor<16x4x1x1xf32>) -> tensor<16x4x1x1xf32>
  return %0, %1 : tensor<2x16x4x3xf32>, tensor<16x4x1x1xf32>
}
}
