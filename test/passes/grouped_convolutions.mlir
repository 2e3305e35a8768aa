// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(grouped-convolutions)' %s | filecheck %s

// Only the windows whose results are read are computed. They overlap in a copy with the channels of a group side by
// side, and gelu has the dims of the product.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%[[X:.*]]: tensor<2x32x70xbf16>, %[[W:.*]]: tensor<64x8x16xbf16>, %[[B:.*]]: tensor<64xbf16>)
// CHECK: %[[GROUPS:.*]] = "cuesta.permute"(%{{.*}}) {dims = [1, 0, 3, 2]}
// CHECK: %[[COPY:.*]] = "cuesta.window"(%[[GROUPS]]) {{.*}}outside = 0.000000e+00 : f64, starts = [0, 0, -8, 0]{{.*}} -> tensor<4x2x85x8xbf16>
// CHECK: %[[FLAT:.*]] = "cuesta.reshape"(%[[COPY]])
// CHECK: %[[TURNED:.*]] = "cuesta.permute"(%[[W]]) {dims = [0, 2, 1]}
// CHECK: %[[WINDOWS:.*]] = "cuesta.unfold"(%[[FLAT]]) {dim = 2 : i64, step = 8 : i64} : (tensor<4x2x680xbf16>) -> tensor<4x2x70x128xbf16>
// CHECK: %[[LEFT:.*]] = "cuesta.expand"
// CHECK: %[[RIGHT:.*]] = "cuesta.permute"(%[[WINDOWS]]) {dims = [0, 1, 3, 2]}
// CHECK: %[[SUM:.*]] = "cuesta.mm"(%[[LEFT]], %[[RIGHT]]) {product = "{{.*}}"} : {{.*}} -> tensor<4x2x16x70xf32>
// CHECK: %[[BIASED:.*]] = "cuesta.add"(%[[SUM]],
// CHECK: %[[NARROW:.*]] = "cuesta.convert"(%[[BIASED]])
// CHECK: %[[GELU:.*]] = "cuesta.gelu"(%[[NARROW]]) : (tensor<4x2x16x70xbf16>)
// CHECK: %[[BACK:.*]] = "cuesta.permute"(%[[GELU]]) {dims = [1, 0, 2, 3]}
// CHECK: "cuesta.reshape"(%[[BACK]]) : (tensor<2x4x16x70xbf16>) -> tensor<2x64x70xbf16>
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @forward(%x: tensor<2x32x70xbf16>, %w: tensor<64x8x16xbf16>, %b: tensor<64xbf16>) -> tensor<2x70x64xbf16> {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [1], padding = [8], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 4 : i64, cudnn = "tensor_cores"} : (tensor<2x32x70xbf16>, tensor<64x8x16xbf16>, tensor<64xbf16>) -> tensor<2x64x71xbf16>
  %1 = "cuesta.slice"(%0) {starts = [0, 0, 0], steps = [1, 1, 1]} : (tensor<2x64x71xbf16>) -> tensor<2x64x70xbf16>
  %2 = "cuesta.gelu"(%1) : (tensor<2x64x70xbf16>) -> tensor<2x64x70xbf16>
  %3 = "cuesta.permute"(%2) {dims = [0, 2, 1]} : (tensor<2x64x70xbf16>) -> tensor<2x70x64xbf16>
  return %3 : tensor<2x70x64xbf16>
}
}

// -----

// Both gradients read one copy of the results' gradient. The weight's is summed along all samples at once; the last
// place of the weight meets the first of a window in the images'.
// CHECK: // -----
// CHECK-LABEL: func.func @backward
// CHECK-SAME: (%[[G:.*]]: tensor<2x64x71xbf16>, %[[X:.*]]: tensor<2x32x70xbf16>, %[[W:.*]]: tensor<64x8x16xbf16>)
// CHECK: %[[COPY:.*]] = "cuesta.window"{{.*}}starts = [0, 0, -7, 0]{{.*}} -> tensor<4x2x86x16xbf16>
// CHECK: %[[ROWS:.*]] = "cuesta.reshape"(%[[COPY]]) : (tensor<4x2x86x16xbf16>) -> tensor<4x2x1376xbf16>
// CHECK: "cuesta.window"{{.*}}starts = [0, 0, -8, 0]{{.*}} -> tensor<4x2x86x8xbf16>
// CHECK: %[[WINDOWS:.*]] = "cuesta.unfold"(%{{.*}}) {dim = 1 : i64, step = 8 : i64} : (tensor<4x1376xbf16>) -> tensor<4x157x128xbf16>
// CHECK: %[[LONG:.*]] = "cuesta.reshape"(%[[ROWS]])
// CHECK: "cuesta.slice"(%[[LONG]]) {starts = [0, 112], steps = [1, 1]} : {{.*}} -> tensor<4x2512xbf16>
// CHECK: "cuesta.mm"(%{{.*}}, %[[WINDOWS]]) {{.*}} -> tensor<4x16x128xf32>
// CHECK: %[[DW:.*]] = "cuesta.permute"(%{{.*}}) {dims = [0, 2, 1]} : (tensor<64x16x8xbf16>) -> tensor<64x8x16xbf16>
// CHECK: "cuesta.flip"(%{{.*}}) {dims = [2]} : (tensor<4x8x16x16xbf16>)
// CHECK: "cuesta.unfold"(%[[ROWS]]) {dim = 2 : i64, step = 16 : i64} : (tensor<4x2x1376xbf16>) -> tensor<4x2x70x256xbf16>
// CHECK: "cuesta.mm"{{.*}} -> tensor<4x2x8x70xf32>
// CHECK: %[[DX:.*]] = "cuesta.reshape"(%{{.*}}) : (tensor<2x4x8x70xbf16>) -> tensor<2x32x70xbf16>
// CHECK: %[[DB:.*]] = "aten.call"{{.*}}[false, false, true]{{.*}}positions = [2]
// CHECK: return %[[DX]], %[[DW]], %[[DB]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @backward(%g: tensor<2x64x71xbf16>, %x: tensor<2x32x70xbf16>, %w: tensor<64x8x16xbf16>) -> (tensor<2x32x70xbf16>, tensor<64x8x16xbf16>, tensor<64xbf16>) {
  %0:3 = "aten.call"(%g, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, [0], [1], [8], [1], false, [0], 4, [true, true, true]]", overload = "aten.convolution_backward.default", reason = "", result_strides = [[2240, 70, 1], [128, 16, 1], [1]]} : (tensor<2x64x71xbf16>, tensor<2x32x70xbf16>, tensor<64x8x16xbf16>) -> (tensor<2x32x70xbf16>, tensor<64x8x16xbf16>, tensor<64xbf16>)
  return %0#0, %0#1, %0#2 : tensor<2x32x70xbf16>, tensor<64x8x16xbf16>, tensor<64xbf16>
}
}

// -----

// Short windows, full f32 and windows with gaps stay.
// CHECK: // -----
// CHECK-LABEL: func.func @left
// CHECK-COUNT-3: "cuesta.convolution"
// CHECK-NOT: "cuesta.mm"
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @left(%x: tensor<2x32x70xbf16>, %y: tensor<2x32x70xf32>, %w: tensor<64x8x15xbf16>, %v: tensor<64x8x16xf32>, %u: tensor<64x8x16xbf16>) -> (tensor<2x64x56xbf16>, tensor<2x64x55xf32>, tensor<2x64x40xbf16>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 4 : i64} : (tensor<2x32x70xbf16>, tensor<64x8x15xbf16>) -> tensor<2x64x56xbf16>
  %1 = "cuesta.convolution"(%y, %v) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 4 : i64} : (tensor<2x32x70xf32>, tensor<64x8x16xf32>) -> tensor<2x64x55xf32>
  %2 = "cuesta.convolution"(%x, %u) {stride = [1], padding = [0], dilation = [2], transposed = 0 : i64, output_padding = [0], groups = 4 : i64} : (tensor<2x32x70xbf16>, tensor<64x8x16xbf16>) -> tensor<2x64x40xbf16>
  return %0, %1, %2 : tensor<2x64x56xbf16>, tensor<2x64x55xf32>, tensor<2x64x40xbf16>
}
}
