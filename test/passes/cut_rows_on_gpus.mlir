// RUN: cuesta-opt --pass-pipeline='builtin.module(cut-rows{parts=8})' %s | filecheck %s

// All dims that count rows are one, cut into at least eight parts. A reshape that only counts rows by other dims is part
// of what is cut. The totals come where the sums were.
// CHECK-LABEL: func.func @norm
// CHECK-SAME: (%[[ARG_X:.*]]: tensor<4x24x768xf32>, %[[ARG_S:.*]]: tensor<4x24x1xf32>, %[[W:.*]]: tensor<768xf32>)
// CHECK: %[[X:.*]] = "cuesta.reshape"(%[[ARG_X]]) : (tensor<4x24x768xf32>) -> tensor<8x12x768xf32>
// CHECK: %[[S:.*]] = "cuesta.reshape"(%[[ARG_S]]) : (tensor<4x24x1xf32>) -> tensor<8x12x1xf32>
// CHECK: %[[P:.*]] = "cuesta.mul"(%[[X]], %[[S]])
// CHECK: %[[M:.*]] = "cuesta.mul"(%[[P]], %[[W]]) : (tensor<8x12x768xf32>, tensor<768xf32>) -> tensor<8x12x768xf32>
// CHECK: %[[PARTS:.*]] = "cuesta.sum"(%[[M]]) {dims = [1], keepdim = 0 : i64} : (tensor<8x12x768xf32>) -> tensor<8x768xf32>
// CHECK: %[[TOTAL:.*]] = "cuesta.sum"(%[[PARTS]]) {dims = [0], keepdim = 0 : i64} : (tensor<8x768xf32>) -> tensor<768xf32>
// CHECK: %[[ROWS:.*]] = "cuesta.sum"(%[[M]]) {dims = [2], keepdim = 1 : i64} : (tensor<8x12x768xf32>) -> tensor<8x12x1xf32>
// CHECK: %[[D:.*]] = "cuesta.sub"(%[[P]], %[[ROWS]])
// CHECK: %[[N:.*]] = "cuesta.convert"(%[[D]]) : (tensor<8x12x768xf32>) -> tensor<8x12x768xbf16>
// CHECK: "cuesta.reshape"(%[[N]]) : (tensor<8x12x768xbf16>) -> tensor<96x768xbf16>
// CHECK: %[[BIAS:.*]] = "cuesta.sum"({{.*}}) {dims = [1], keepdim = 0 : i64} : (tensor<8x12x768xf32>) -> tensor<8x768xf32>
// CHECK: "cuesta.sum"(%[[BIAS]]) {dims = [0], keepdim = 0 : i64}
func.func @norm(%x: tensor<4x24x768xf32>, %s: tensor<4x24x1xf32>, %w: tensor<768xf32>) -> (tensor<96x768xbf16>, tensor<768xf32>, tensor<768xf32>) {
  %0 = "cuesta.mul"(%x, %s) : (tensor<4x24x768xf32>, tensor<4x24x1xf32>) -> tensor<4x24x768xf32>
  %1 = "cuesta.mul"(%0, %w) : (tensor<4x24x768xf32>, tensor<768xf32>) -> tensor<4x24x768xf32>
  %2 = "cuesta.sum"(%1) {dims = [0, 1], keepdim = 0} : (tensor<4x24x768xf32>) -> tensor<768xf32>
  %3 = "cuesta.sum"(%1) {dims = [2], keepdim = 1} : (tensor<4x24x768xf32>) -> tensor<4x24x1xf32>
  %4 = "cuesta.sub"(%0, %3) : (tensor<4x24x768xf32>, tensor<4x24x1xf32>) -> tensor<4x24x768xf32>
  %5 = "cuesta.convert"(%4) : (tensor<4x24x768xf32>) -> tensor<4x24x768xbf16>
  %6 = "cuesta.reshape"(%5) : (tensor<4x24x768xbf16>) -> tensor<96x768xbf16>
  %7 = "cuesta.convert"(%6) : (tensor<96x768xbf16>) -> tensor<96x768xf32>
  %8 = "cuesta.sum"(%7) {dims = [0], keepdim = 0} : (tensor<96x768xf32>) -> tensor<768xf32>
  return %6, %2, %8 : tensor<96x768xbf16>, tensor<768xf32>, tensor<768xf32>
}

// Nothing is cut where a row does not fit a block, where there are too few rows for parts of four, or where a value
// counts only some of the rows.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: cuesta.reshape
func.func @whole(%x: tensor<64x9000xf32>, %y: tensor<28x4096xf32>, %z: tensor<4x24x768xf32>, %p: tensor<24x768xf32>) -> (tensor<9000xf32>, tensor<64x1xf32>, tensor<4096xf32>, tensor<28x1xf32>, tensor<768xf32>, tensor<4x24x1xf32>) {
  %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<64x9000xf32>) -> tensor<9000xf32>
  %1 = "cuesta.sum"(%x) {dims = [1], keepdim = 1} : (tensor<64x9000xf32>) -> tensor<64x1xf32>
  %2 = "cuesta.sum"(%y) {dims = [0], keepdim = 0} : (tensor<28x4096xf32>) -> tensor<4096xf32>
  %3 = "cuesta.sum"(%y) {dims = [1], keepdim = 1} : (tensor<28x4096xf32>) -> tensor<28x1xf32>
  %4 = "cuesta.add"(%z, %p) : (tensor<4x24x768xf32>, tensor<24x768xf32>) -> tensor<4x24x768xf32>
  %5 = "cuesta.sum"(%z) {dims = [0, 1], keepdim = 0} : (tensor<4x24x768xf32>) -> tensor<768xf32>
  %6 = "cuesta.sum"(%4) {dims = [2], keepdim = 1} : (tensor<4x24x768xf32>) -> tensor<4x24x1xf32>
  return %0, %1, %2, %3, %5, %6 : tensor<9000xf32>, tensor<64x1xf32>, tensor<4096xf32>, tensor<28x1xf32>, tensor<768xf32>, tensor<4x24x1xf32>
}

// Rows that are read and written in another order of their dims: 16 is cut into 2 of 8, and 6 stays apart. Nothing is
// copied into another order: the permutes are of the cut rows.
// CHECK-LABEL: func.func @sequence_first
// CHECK-SAME: (%[[ARG_X:.*]]: tensor<6x16x768xbf16>, %[[ARG_Y:.*]]: tensor<16x6x768xf32>)
// CHECK: %[[X:.*]] = "cuesta.reshape"(%[[ARG_X]]) : (tensor<6x16x768xbf16>) -> tensor<6x2x8x768xbf16>
// CHECK: %[[P:.*]] = "cuesta.permute"(%[[X]]) {dims = [1, 2, 0, 3]} : (tensor<6x2x8x768xbf16>) -> tensor<2x8x6x768xbf16>
// CHECK: %[[W:.*]] = "cuesta.convert"(%[[P]]) : (tensor<2x8x6x768xbf16>) -> tensor<2x8x6x768xf32>
// CHECK: %[[Y:.*]] = "cuesta.reshape"(%[[ARG_Y]]) : (tensor<16x6x768xf32>) -> tensor<2x8x6x768xf32>
// CHECK: %[[M:.*]] = "cuesta.mul"(%[[W]], %[[Y]])
// CHECK: %[[ROWS:.*]] = "cuesta.sum"(%[[M]]) {dims = [3], keepdim = 1 : i64} : (tensor<2x8x6x768xf32>) -> tensor<2x8x6x1xf32>
// CHECK: %[[PARTS:.*]] = "cuesta.sum"(%[[M]]) {dims = [1], keepdim = 0 : i64} : (tensor<2x8x6x768xf32>) -> tensor<2x6x768xf32>
// CHECK: "cuesta.sum"(%[[PARTS]]) {dims = [0, 1], keepdim = 0 : i64} : (tensor<2x6x768xf32>) -> tensor<768xf32>
// CHECK: %[[N:.*]] = "cuesta.convert"({{.*}}) : (tensor<2x8x6x768xf32>) -> tensor<2x8x6x768xbf16>
// CHECK: %[[Q:.*]] = "cuesta.permute"(%[[N]]) {dims = [2, 0, 1, 3]} : (tensor<2x8x6x768xbf16>) -> tensor<6x2x8x768xbf16>
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[Q]]) : (tensor<6x2x8x768xbf16>) -> tensor<96x768xbf16>
// CHECK: return %[[R]]
func.func @sequence_first(%x: tensor<6x16x768xbf16>, %y: tensor<16x6x768xf32>) -> (tensor<96x768xbf16>, tensor<768xf32>) {
  %0 = "cuesta.permute"(%x) {dims = [1, 0, 2]} : (tensor<6x16x768xbf16>) -> tensor<16x6x768xbf16>
  %1 = "cuesta.convert"(%0) : (tensor<16x6x768xbf16>) -> tensor<16x6x768xf32>
  %2 = "cuesta.mul"(%1, %y) : (tensor<16x6x768xf32>, tensor<16x6x768xf32>) -> tensor<16x6x768xf32>
  %3 = "cuesta.sum"(%2) {dims = [2], keepdim = 1} : (tensor<16x6x768xf32>) -> tensor<16x6x1xf32>
  %4 = "cuesta.sum"(%2) {dims = [0, 1], keepdim = 0} : (tensor<16x6x768xf32>) -> tensor<768xf32>
  %5 = "cuesta.sub"(%2, %3) : (tensor<16x6x768xf32>, tensor<16x6x1xf32>) -> tensor<16x6x768xf32>
  %6 = "cuesta.convert"(%5) : (tensor<16x6x768xf32>) -> tensor<16x6x768xbf16>
  %7 = "cuesta.permute"(%6) {dims = [1, 0, 2]} : (tensor<16x6x768xbf16>) -> tensor<6x16x768xbf16>
  %8 = "cuesta.reshape"(%7) : (tensor<6x16x768xbf16>) -> tensor<96x768xbf16>
  return %8, %4 : tensor<96x768xbf16>, tensor<768xf32>
}

// A sum over the first dim only, beside one along a part of the rest: there is a program for each of 16 rows, and 64 of
// them for each sum, which are cut into two parts of 32. Where there are programs enough, nothing is cut.
// CHECK-LABEL: func.func @bias
// CHECK: %[[X:.*]] = "cuesta.reshape"(%{{.*}}) : (tensor<64x2x8x1024xf32>) -> tensor<2x32x2x8x1024xf32>
// CHECK: %[[ROWS:.*]] = "cuesta.sum"(%[[X]]) {dims = [4], keepdim = 1 : i64} : (tensor<2x32x2x8x1024xf32>) -> tensor<2x32x2x8x1xf32>
// CHECK: %[[D:.*]] = "cuesta.sub"(%[[X]], %[[ROWS]])
// CHECK: %[[PARTS:.*]] = "cuesta.sum"(%[[D]]) {dims = [1], keepdim = 0 : i64} : (tensor<2x32x2x8x1024xf32>) -> tensor<2x2x8x1024xf32>
// CHECK: %[[TOTAL:.*]] = "cuesta.sum"(%[[PARTS]]) {dims = [0], keepdim = 0 : i64} : (tensor<2x2x8x1024xf32>) -> tensor<2x8x1024xf32>
// CHECK: "cuesta.reshape"({{.*}}) : (tensor<2x8x1024xf32>) -> tensor<1x2x8x1024xf32>
// CHECK: "cuesta.sum"(%{{.*}}) {dims = [3], keepdim = 1 : i64} : (tensor<64x4x8x1024xf32>) -> tensor<64x4x8x1xf32>
func.func @bias(%x: tensor<64x2x8x1024xf32>, %y: tensor<64x4x8x1024xf32>) -> (tensor<64x2x8x1024xf32>, tensor<1x2x8x1024xf32>, tensor<64x4x8x1xf32>, tensor<1x4x8x1024xf32>) {
  %0 = "cuesta.sum"(%x) {dims = [3], keepdim = 1} : (tensor<64x2x8x1024xf32>) -> tensor<64x2x8x1xf32>
  %1 = "cuesta.sub"(%x, %0) : (tensor<64x2x8x1024xf32>, tensor<64x2x8x1xf32>) -> tensor<64x2x8x1024xf32>
  %2 = "cuesta.sum"(%1) {dims = [0], keepdim = 1} : (tensor<64x2x8x1024xf32>) -> tensor<1x2x8x1024xf32>
  %3 = "cuesta.sum"(%y) {dims = [3], keepdim = 1} : (tensor<64x4x8x1024xf32>) -> tensor<64x4x8x1xf32>
  %4 = "cuesta.sum"(%y) {dims = [0], keepdim = 1} : (tensor<64x4x8x1024xf32>) -> tensor<1x4x8x1024xf32>
  return %1, %2, %3, %4 : tensor<64x2x8x1024xf32>, tensor<1x2x8x1024xf32>, tensor<64x4x8x1xf32>, tensor<1x4x8x1024xf32>
}
