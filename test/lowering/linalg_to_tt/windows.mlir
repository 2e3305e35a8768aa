// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// A program sums three rows. Of a 3x1 window it loads five rows of x, each once, and adds each to up to three sums. What
// follows is computed row by row, in the same kernel; the weight is copied by another, as f32.
// CHECK: "tt.func"
// CHECK: sym_name = "copy"
// CHECK: "tt.func"
// CHECK-COUNT-3: "tt.load"({{.*}} -> tensor<1x64xf32>
// CHECK: %[[X:.*]] = "tt.load"({{.*}} -> tensor<8x64xbf16>
// CHECK: %[[WIDE:.*]] = arith.extf %[[X]]
// CHECK: %[[FIRST:.*]] = math.fma %[[WIDE]]
// CHECK: %[[NEXT:.*]] = "tt.load"({{.*}} -> tensor<8x64xbf16>
// CHECK: %[[MORE:.*]] = arith.extf %[[NEXT]]
// CHECK: math.fma %[[MORE]], %{{.*}}, %[[FIRST]]
// CHECK: math.fma %[[MORE]]
// CHECK-COUNT-3: "tt.load"({{.*}} -> tensor<8x64xbf16>
// CHECK-NOT: tt.load
// CHECK-COUNT-3: arith.maximumf
// CHECK-COUNT-3: "tt.store"
// CHECK: cuesta.grid = [264, 1, 1]
module {
func.func @graph(%x: tensor<132x6x8x64xbf16> {cuesta.strides = [3072, 512, 64, 1]}, %w: tensor<64x3x1xbf16> {cuesta.strides = [3, 1, 1]}) -> (tensor<132x6x8x64xbf16> {cuesta.strides = [3072, 512, 64, 1]}) {
  %0 = "cuesta.permute"(%w) {dims = [1, 2, 0]} : (tensor<64x3x1xbf16>) -> tensor<3x1x64xbf16>
  %1 = "cuesta.depthwise"(%x, %0) {stride = [1, 1], padding = [1, 0], dilation = [1, 1], spread = [1, 1]} : (tensor<132x6x8x64xbf16>, tensor<3x1x64xbf16>) -> tensor<132x6x8x64xf32>
  %2 = "cuesta.relu"(%1) : (tensor<132x6x8x64xf32>) -> tensor<132x6x8x64xf32>
  %3 = "cuesta.convert"(%2) : (tensor<132x6x8x64xf32>) -> tensor<132x6x8x64xbf16>
  return %3 : tensor<132x6x8x64xbf16>
}
}

// CHECK: // -----
// -----
// The columns of a large window are a loop, with the sums of all rows as its values. A thread has two neighbouring
// columns, so that the block is one of every second: the first begins its window before the loop, the second ends its
// own behind it. The loop passes on the weights of the last place, and what it loads goes to the sums of both.
// CHECK: "tt.func"
// CHECK: arith.muli %{{.*}} : tensor<4xi32>
// CHECK-COUNT-7: "tt.load"({{.*}} -> tensor<1x64xf32>
// CHECK-COUNT-10: "tt.load"({{.*}} -> tensor<4x64xbf16>
// CHECK: scf.for %{{.*}} = %c1_i32{{.*}} to %c7_i32{{.*}} step %c1_i32{{.*}} iter_args(
// CHECK-COUNT-7: "tt.load"({{.*}} -> tensor<1x64xf32>
// CHECK-COUNT-9: "tt.load"({{.*}} -> tensor<4x64xbf16>
// CHECK: %[[LAST:.*]] = "tt.load"({{.*}} -> tensor<4x64xbf16>
// CHECK: %[[WIDE:.*]] = arith.extf %[[LAST]]
// CHECK-COUNT-2: math.fma %[[WIDE]]
// CHECK: scf.yield
// CHECK-COUNT-10: "tt.load"({{.*}} -> tensor<4x64xbf16>
// CHECK-COUNT-8: "tt.store"
module {
func.func @graph(%x: tensor<264x4x8x64xbf16> {cuesta.strides = [2048, 512, 64, 1]}, %w: tensor<7x7x64xbf16> {cuesta.strides = [448, 64, 1]}) -> (tensor<264x4x8x64xf32> {cuesta.strides = [2048, 512, 64, 1]}) {
  %1 = "cuesta.depthwise"(%x, %w) {stride = [1, 1], padding = [3, 3], dilation = [1, 1], spread = [1, 1]} : (tensor<264x4x8x64xbf16>, tensor<7x7x64xbf16>) -> tensor<264x4x8x64xf32>
  return %1 : tensor<264x4x8x64xf32>
}
}

// CHECK: // -----
// -----
// Of images whose elements lie two apart, a thread has two columns, and a program an even number of rows: the first column
// of a 3x3 window has its second place alone, the next its first and third. For two rows, two lines are loaded at two
// columns each.
// CHECK: "tt.func"
// CHECK-COUNT-9: "tt.load"({{.*}} -> tensor<1x64xf32>
// CHECK: arith.divsi %{{.*}}, %{{.*}} : tensor<4x1xi32>
// CHECK-COUNT-4: "tt.load"({{.*}} -> tensor<4x64xbf16>
// CHECK-NOT: "tt.load"
// CHECK-COUNT-4: "tt.store"
// CHECK: cuesta.grid = [264, 1, 1]
module {
func.func @graph(%x: tensor<264x2x4x64xbf16> {cuesta.strides = [512, 256, 64, 1]}, %w: tensor<3x3x64xbf16> {cuesta.strides = [192, 64, 1]}) -> (tensor<264x2x8x64xf32> {cuesta.strides = [1024, 512, 64, 1]}) {
  %1 = "cuesta.depthwise"(%x, %w) {stride = [1, 1], padding = [-1, -1], dilation = [-1, -1], spread = [2, 2]} : (tensor<264x2x4x64xbf16>, tensor<3x3x64xbf16>) -> tensor<264x2x8x64xf32>
  return %1 : tensor<264x2x8x64xf32>
}
}
