// RUN: cuesta-opt --pass-pipeline='builtin.module(reduce-rows-first)' %s | filecheck %s

// The rows of what is permuted are summed where they lie, then the sums of rows.
// CHECK-LABEL: func.func @bias_of_tokens
// CHECK-SAME: (%[[X:.*]]: tensor<4x24x256xbf16>)
// CHECK-NEXT: %[[W:.*]] = "cuesta.convert"(%[[X]]) : (tensor<4x24x256xbf16>) -> tensor<4x24x256xf32>
// CHECK-NEXT: %[[R:.*]] = "cuesta.sum"(%[[W]]) {dims = [2], keepdim = 1 : i64} : (tensor<4x24x256xf32>) -> tensor<4x24x1xf32>
// CHECK-NEXT: %[[S:.*]] = "cuesta.sum"(%[[R]]) {dims = [0, 2], keepdim = 0 : i64} : (tensor<4x24x1xf32>) -> tensor<24xf32>
// CHECK: return
func.func @bias_of_tokens(%x: tensor<4x24x256xbf16>) -> tensor<1x24xbf16> {
  %0 = "cuesta.permute"(%x) {dims = [0, 2, 1]} : (tensor<4x24x256xbf16>) -> tensor<4x256x24xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<4x256x24xbf16>) -> tensor<1024x24xbf16>
  %2 = "cuesta.convert"(%1) : (tensor<1024x24xbf16>) -> tensor<1024x24xf32>
  %3 = "cuesta.sum"(%2) {dims = [0], keepdim = 1 : i64} : (tensor<1024x24xf32>) -> tensor<1x24xf32>
  %4 = "cuesta.convert"(%3) : (tensor<1x24xf32>) -> tensor<1x24xbf16>
  return %4 : tensor<1x24xbf16>
}

// Two dims are kept, in another order than they have in memory.
// CHECK-LABEL: func.func @kept_in_another_order
// CHECK-SAME: (%[[X:.*]]: tensor<4x24x8x256xf32>)
// CHECK-NEXT: %[[R:.*]] = "cuesta.sum"(%[[X]]) {dims = [3], keepdim = 1 : i64} : (tensor<4x24x8x256xf32>) -> tensor<4x24x8x1xf32>
// CHECK-NEXT: %[[S:.*]] = "cuesta.sum"(%[[R]]) {dims = [0, 3], keepdim = 0 : i64} : (tensor<4x24x8x1xf32>) -> tensor<24x8xf32>
// CHECK-NEXT: "cuesta.permute"(%[[S]]) {dims = [1, 0]} : (tensor<24x8xf32>) -> tensor<8x24xf32>
func.func @kept_in_another_order(%x: tensor<4x24x8x256xf32>) -> tensor<8x24xf32> {
  %0 = "cuesta.permute"(%x) {dims = [0, 3, 2, 1]} : (tensor<4x24x8x256xf32>) -> tensor<4x256x8x24xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<4x256x8x24xf32>) -> tensor<1024x8x24xf32>
  %2 = "cuesta.sum"(%1) {dims = [0], keepdim = 0 : i64} : (tensor<1024x8x24xf32>) -> tensor<8x24xf32>
  return %2 : tensor<8x24xf32>
}

// The rows are kept: what is reduced is permuted for nothing.
// CHECK-LABEL: func.func @sequence_first
// CHECK-SAME: (%[[X:.*]]: tensor<4x24x256xbf16>)
// CHECK-NEXT: %[[W:.*]] = "cuesta.convert"(%[[X]]) : (tensor<4x24x256xbf16>) -> tensor<4x24x256xf32>
// CHECK-NEXT: "cuesta.sum"(%[[W]]) {dims = [0, 1], keepdim = 0 : i64} : (tensor<4x24x256xf32>) -> tensor<256xf32>
func.func @sequence_first(%x: tensor<4x24x256xbf16>) -> tensor<1x256xf32> {
  %0 = "cuesta.permute"(%x) {dims = [1, 0, 2]} : (tensor<4x24x256xbf16>) -> tensor<24x4x256xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<24x4x256xbf16>) -> tensor<96x256xbf16>
  %2 = "cuesta.convert"(%1) : (tensor<96x256xbf16>) -> tensor<96x256xf32>
  %3 = "cuesta.sum"(%2) {dims = [0], keepdim = 1 : i64} : (tensor<96x256xf32>) -> tensor<1x256xf32>
  return %3 : tensor<1x256xf32>
}

// No reshape that would copy; rows that are kept; short rows; a reshape that joins what is kept.
// CHECK-LABEL: func.func @stays
// CHECK: "cuesta.sum"({{.*}}) {dims = [0, 1], keepdim = 0 : i64} : (tensor<4x256x24xf32>) -> tensor<24xf32>
// CHECK: "cuesta.sum"({{.*}}) {dims = [0], keepdim = 0 : i64} : (tensor<96x256xf32>) -> tensor<256xf32>
// CHECK: "cuesta.sum"({{.*}}) {dims = [0], keepdim = 0 : i64} : (tensor<128x24xf32>) -> tensor<24xf32>
// CHECK: "cuesta.sum"({{.*}}) {dims = [0], keepdim = 0 : i64} : (tensor<256x96xf32>) -> tensor<96xf32>
func.func @stays(%x: tensor<4x24x256xf32>, %y: tensor<4x24x32xf32>, %z: tensor<4x24x256xf32>) -> (tensor<24xf32>, tensor<256xf32>, tensor<24xf32>, tensor<96xf32>) {
  %0 = "cuesta.permute"(%x) {dims = [0, 2, 1]} : (tensor<4x24x256xf32>) -> tensor<4x256x24xf32>
  %1 = "cuesta.sum"(%0) {dims = [0, 1], keepdim = 0 : i64} : (tensor<4x256x24xf32>) -> tensor<24xf32>
  %2 = "cuesta.reshape"(%x) : (tensor<4x24x256xf32>) -> tensor<96x256xf32>
  %3 = "cuesta.sum"(%2) {dims = [0], keepdim = 0 : i64} : (tensor<96x256xf32>) -> tensor<256xf32>
  %4 = "cuesta.permute"(%y) {dims = [0, 2, 1]} : (tensor<4x24x32xf32>) -> tensor<4x32x24xf32>
  %5 = "cuesta.reshape"(%4) : (tensor<4x32x24xf32>) -> tensor<128x24xf32>
  %6 = "cuesta.sum"(%5) {dims = [0], keepdim = 0 : i64} : (tensor<128x24xf32>) -> tensor<24xf32>
  %7 = "cuesta.permute"(%z) {dims = [2, 0, 1]} : (tensor<4x24x256xf32>) -> tensor<256x4x24xf32>
  %8 = "cuesta.reshape"(%7) : (tensor<256x4x24xf32>) -> tensor<256x96xf32>
  %9 = "cuesta.sum"(%8) {dims = [0], keepdim = 0 : i64} : (tensor<256x96xf32>) -> tensor<96xf32>
  return %1, %3, %6, %9 : tensor<24xf32>, tensor<256xf32>, tensor<24xf32>, tensor<96xf32>
}
