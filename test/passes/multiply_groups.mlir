// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(multiply-groups)' %s | filecheck %s

// Windows are rows of a padded copy with each group's channels side by side, copied for the call, which wants them
// without overlaps. Only the results that are read are computed.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%[[X:.*]]: tensor<2x32x70xbf16>, %[[W:.*]]: tensor<64x8x16xbf16>, %[[B:.*]]: tensor<64xbf16>)
// CHECK: %[[COPY:.*]] = "cuesta.window"{{.*}}starts = [0, 0, -8, 0]{{.*}} -> tensor<4x2x85x8xbf16>
// CHECK: %[[FLAT:.*]] = "cuesta.reshape"(%[[COPY]]) : (tensor<4x2x85x8xbf16>) -> tensor<4x2x680xbf16>
// CHECK: %[[WINDOWS:.*]] = "cuesta.unfold"(%[[FLAT]]) {dim = 2 : i64, step = 8 : i64} : (tensor<4x2x680xbf16>) -> tensor<4x2x70x128xbf16>
// CHECK: %[[LEFT:.*]] = "cuesta.reshape"(%[[WINDOWS]]) : (tensor<4x2x70x128xbf16>) -> tensor<4x140x128xbf16>
// CHECK: %[[RIGHT:.*]] = "cuesta.permute"(%{{.*}}) {dims = [0, 2, 1]} : (tensor<4x16x128xbf16>) -> tensor<4x128x16xbf16>
// CHECK: %[[ALONG:.*]] = "cuesta.reshape"(%[[B]]) : (tensor<64xbf16>) -> tensor<4x1x16xbf16>
// CHECK: "aten.call"(%[[ALONG]], %[[LEFT]], %[[RIGHT]]) {{.*}}operand_strides = {{\[\[}}16, 16, 1], [17920, 128, 1], [2048, 1, 128]], overload = "aten.baddbmm.default"
// CHECK: "cuesta.reshape"(%{{.*}}) : (tensor<2x4x16x70xbf16>) -> tensor<2x64x70xbf16>
module attributes {cuesta.target = "cpu"} {
func.func @forward(%x: tensor<2x32x70xbf16>, %w: tensor<64x8x16xbf16>, %b: tensor<64xbf16>) -> tensor<2x64x70xbf16> {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [1], padding = [8], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 4 : i64, onednn} : (tensor<2x32x70xbf16>, tensor<64x8x16xbf16>, tensor<64xbf16>) -> tensor<2x64x71xbf16>
  %1 = "cuesta.slice"(%0) {starts = [0, 0, 0], steps = [1, 1, 1]} : (tensor<2x64x71xbf16>) -> tensor<2x64x70xbf16>
  return %1 : tensor<2x64x70xbf16>
}
}

// CHECK: // -----
// -----

// Short windows, f32, and windows whose copy is large stay with oneDNN; so does what oneDNN does not compute.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-4: "cuesta.convolution"
// CHECK-NOT: "aten.call"
// CHECK: return
module attributes {cuesta.target = "cpu"} {
func.func @others(%x: tensor<2x32x70xbf16>, %w: tensor<64x8x9xbf16>, %y: tensor<2x32x70xf32>, %v: tensor<64x8x16xf32>, %z: tensor<8x32x9000xbf16>, %u: tensor<64x8x16xbf16>) -> (tensor<2x64x62xbf16>, tensor<2x64x55xf32>, tensor<8x64x8985xbf16>, tensor<2x64x55xbf16>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 4 : i64, onednn} : (tensor<2x32x70xbf16>, tensor<64x8x9xbf16>) -> tensor<2x64x62xbf16>
  %1 = "cuesta.convolution"(%y, %v) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 4 : i64, onednn} : (tensor<2x32x70xf32>, tensor<64x8x16xf32>) -> tensor<2x64x55xf32>
  %2 = "cuesta.convolution"(%z, %u) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 4 : i64, onednn} : (tensor<8x32x9000xbf16>, tensor<64x8x16xbf16>) -> tensor<8x64x8985xbf16>
  %3 = "cuesta.convolution"(%x, %u) {stride = [1], padding = [0], dilation = [1], transposed = 0 : i64, output_padding = [0], groups = 4 : i64} : (tensor<2x32x70xbf16>, tensor<64x8x16xbf16>) -> tensor<2x64x55xbf16>
  return %0, %1, %2, %3 : tensor<2x64x62xbf16>, tensor<2x64x55xf32>, tensor<8x64x8985xbf16>, tensor<2x64x55xbf16>
}
}
