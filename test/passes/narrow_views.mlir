// RUN: cuesta-opt --pass-pipeline='builtin.module(narrow-views)' %s | filecheck %s

// What is computed is narrowed before it is permuted.
// CHECK-LABEL: func.func @transposed
// CHECK: %[[E:.*]] = "cuesta.exp"
// CHECK-NEXT: %[[N:.*]] = "cuesta.convert"(%[[E]]) : (tensor<2x24x256xf32>) -> tensor<2x24x256xbf16>
// CHECK-NEXT: %[[P:.*]] = "cuesta.permute"(%[[N]]) {dims = [0, 2, 1]} : (tensor<2x24x256xbf16>) -> tensor<2x256x24xbf16>
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[P]]) : (tensor<2x256x24xbf16>) -> tensor<512x24xbf16>
// CHECK-NEXT: return %[[R]]
func.func @transposed(%x: tensor<2x24x256xf32>) -> tensor<512x24xbf16> {
  %0 = "cuesta.exp"(%x) : (tensor<2x24x256xf32>) -> tensor<2x24x256xf32>
  %1 = "cuesta.permute"(%0) {dims = [0, 2, 1]} : (tensor<2x24x256xf32>) -> tensor<2x256x24xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<2x256x24xf32>) -> tensor<512x24xf32>
  %3 = "cuesta.convert"(%2) : (tensor<512x24xf32>) -> tensor<512x24xbf16>
  return %3 : tensor<512x24xbf16>
}

// An argument, a reshape alone, a wider type, or a view that others read, too.
// CHECK-LABEL: func.func @stays
// CHECK: "cuesta.permute"(%arg0)
// CHECK: "cuesta.convert"({{.*}}) : (tensor<256x24xf32>) -> tensor<256x24xbf16>
// CHECK: "cuesta.convert"({{.*}}) : (tensor<24x256xf32>) -> tensor<24x256xbf16>
// CHECK: "cuesta.convert"({{.*}}) : (tensor<256x24xf32>) -> tensor<256x24xf64>
func.func @stays(%x: tensor<24x256xf32>) -> (tensor<256x24xbf16>, tensor<24x256xbf16>, tensor<256x24xf64>, tensor<256x24xbf16>, tensor<256x24xf32>) {
  %0 = "cuesta.permute"(%x) {dims = [1, 0]} : (tensor<24x256xf32>) -> tensor<256x24xf32>
  %1 = "cuesta.convert"(%0) : (tensor<256x24xf32>) -> tensor<256x24xbf16>
  %2 = "cuesta.exp"(%x) : (tensor<24x256xf32>) -> tensor<24x256xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<24x256xf32>) -> tensor<24x256xf32>
  %4 = "cuesta.convert"(%3) : (tensor<24x256xf32>) -> tensor<24x256xbf16>
  %5 = "cuesta.permute"(%2) {dims = [1, 0]} : (tensor<24x256xf32>) -> tensor<256x24xf32>
  %6 = "cuesta.convert"(%5) : (tensor<256x24xf32>) -> tensor<256x24xf64>
  %7 = "cuesta.convert"(%5) : (tensor<256x24xf32>) -> tensor<256x24xbf16>
  return %1, %4, %6, %7, %5 : tensor<256x24xbf16>, tensor<24x256xbf16>, tensor<256x24xf64>, tensor<256x24xbf16>, tensor<256x24xf32>
}

// Ops of ours convert what they read permuted.
// CHECK-LABEL: func.func @widened
// CHECK-SAME: (%[[X:.*]]: tensor<24x256xbf16>, %[[Y:.*]]: tensor<256x24xf32>)
// CHECK-NEXT: %[[P:.*]] = "cuesta.permute"(%[[X]]) {dims = [1, 0]} : (tensor<24x256xbf16>) -> tensor<256x24xbf16>
// CHECK-NEXT: %[[W:.*]] = "cuesta.convert"(%[[P]]) : (tensor<256x24xbf16>) -> tensor<256x24xf32>
// CHECK-NEXT: "cuesta.add"(%[[W]], %[[Y]])
func.func @widened(%x: tensor<24x256xbf16>, %y: tensor<256x24xf32>) -> tensor<256x24xf32> {
  %0 = "cuesta.convert"(%x) : (tensor<24x256xbf16>) -> tensor<24x256xf32>
  %1 = "cuesta.permute"(%0) {dims = [1, 0]} : (tensor<24x256xf32>) -> tensor<256x24xf32>
  %2 = "cuesta.add"(%1, %y) : (tensor<256x24xf32>, tensor<256x24xf32>) -> tensor<256x24xf32>
  return %2 : tensor<256x24xf32>
}

// The caller reads the permuted tensor: it is written in f32.
// CHECK-LABEL: func.func @returned_wide
// CHECK: "cuesta.permute"({{.*}}) {dims = [1, 0]} : (tensor<24x256xf32>) -> tensor<256x24xf32>
func.func @returned_wide(%x: tensor<24x256xbf16>) -> tensor<256x24xf32> {
  %0 = "cuesta.convert"(%x) : (tensor<24x256xbf16>) -> tensor<24x256xf32>
  %1 = "cuesta.permute"(%0) {dims = [1, 0]} : (tensor<24x256xf32>) -> tensor<256x24xf32>
  return %1 : tensor<256x24xf32>
}

// Parts of a widened tensor are widened apart, unless the whole is in memory, as the caller gets it.
// CHECK-LABEL: func.func @parts
// CHECK-SAME: (%[[X:.*]]: tensor<64x32xbf16>, %[[Y:.*]]: tensor<64x32xbf16>
// CHECK: %[[A:.*]] = "cuesta.slice"(%[[X]]) {starts = [0, 16], steps = [1, 1]} : (tensor<64x32xbf16>) -> tensor<64x16xbf16>
// CHECK: "cuesta.convert"(%[[A]]) : (tensor<64x16xbf16>) -> tensor<64x16xf32>
// CHECK: %[[B:.*]] = "cuesta.slice"(%[[X]]) {starts = [0, 0], steps = [1, 1]}
// CHECK: "cuesta.convert"(%[[B]])
// CHECK: %[[WIDE:.*]] = "cuesta.convert"(%[[Y]]) : (tensor<64x32xbf16>) -> tensor<64x32xf32>
// CHECK: "cuesta.slice"(%[[WIDE]])
func.func @parts(%x: tensor<64x32xbf16>, %y: tensor<64x32xbf16>) -> (tensor<128x16xf32>, tensor<64x32xf32>, tensor<64x16xf32>) {
  %0 = "cuesta.convert"(%x) : (tensor<64x32xbf16>) -> tensor<64x32xf32>
  %1 = "cuesta.slice"(%0) {starts = [0, 16], steps = [1, 1]} : (tensor<64x32xf32>) -> tensor<64x16xf32>
  %2 = "cuesta.slice"(%0) {starts = [0, 0], steps = [1, 1]} : (tensor<64x32xf32>) -> tensor<64x16xf32>
  %3 = "cuesta.cat"(%1, %2) {dim = 0 : i64} : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<128x16xf32>
  %4 = "cuesta.convert"(%y) : (tensor<64x32xbf16>) -> tensor<64x32xf32>
  %5 = "cuesta.slice"(%4) {starts = [0, 16], steps = [1, 1]} : (tensor<64x32xf32>) -> tensor<64x16xf32>
  %6 = "cuesta.exp"(%5) : (tensor<64x16xf32>) -> tensor<64x16xf32>
  return %3, %4, %6 : tensor<128x16xf32>, tensor<64x32xf32>, tensor<64x16xf32>
}
