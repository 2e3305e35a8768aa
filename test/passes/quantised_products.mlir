// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries)' %s | filecheck %s

// A scale for each row of a weight of 8 bits multiplies the sums.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[X:.*]]: tensor<1x64xbf16>, %[[V:.*]]: tensor<8x64xi8>, %[[S:.*]]: tensor<8x1xbf16>)
// CHECK-DAG: %[[XF:.*]] = "cuesta.convert"(%[[X]]) : (tensor<1x64xbf16>) -> tensor<1x64xf32>
// CHECK-DAG: %[[VF:.*]] = "cuesta.convert"({{.*}}) : (tensor<1x8x64xi8>) -> tensor<1x8x64xf32>
// CHECK: %[[P:.*]] = "cuesta.mul"({{.*}}, %[[VF]])
// CHECK: %[[SUM:.*]] = "cuesta.sum"(%[[P]]) {dims = [2], keepdim = 0 : i64} : (tensor<1x8x64xf32>) -> tensor<1x8xf32>
// CHECK: %[[Y:.*]] = "cuesta.mul"(%[[SUM]], %{{.*}}) : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x8xf32>
// CHECK: "cuesta.convert"(%[[Y]]) : (tensor<1x8xf32>) -> tensor<1x8xbf16>
func.func @rows(%x: tensor<1x64xbf16>, %v: tensor<8x64xi8>, %s: tensor<8x1xbf16>) -> tensor<1x8xbf16> {
  %0 = "cuesta.convert"(%v) : (tensor<8x64xi8>) -> tensor<8x64xbf16>
  %1 = "cuesta.mul"(%0, %s) : (tensor<8x64xbf16>, tensor<8x1xbf16>) -> tensor<8x64xbf16>
  %2 = "cuesta.permute"(%1) {dims = [1, 0]} : (tensor<8x64xbf16>) -> tensor<64x8xbf16>
  %3 = "cuesta.mm"(%x, %2) {route = "rows"} : (tensor<1x64xbf16>, tensor<64x8xbf16>) -> tensor<1x8xbf16>
  return %3 : tensor<1x8xbf16>
}

// Two values of 4 bits in a byte, in groups of 16 with a scale and a zero each: each half is multiplied by every other
// element of x, scales multiply within the sum, zeros the sums of x.
// CHECK-LABEL: func.func @groups
// CHECK-SAME: (%[[X:.*]]: tensor<1x64xbf16>, %[[B:.*]]: tensor<8x32xui8>, %[[S:.*]]: tensor<8x4x1xbf16>, %[[Z:.*]]: tensor<8x4x1xbf16>)
// CHECK-DAG: %[[LOW:.*]] = "cuesta.bitwise_and"(%[[B]]
// CHECK-DAG: %[[HIGH:.*]] = "cuesta.bitwise_right_shift"(%[[B]]
// CHECK: "cuesta.slice"({{.*}}) {starts = [0, 0, 0], steps = [1, 1, 1]} : (tensor<1x32x2xbf16>) -> tensor<1x32x1xbf16>
// CHECK: "cuesta.slice"({{.*}}) {starts = [0, 0, 1], steps = [1, 1, 1]} : (tensor<1x32x2xbf16>) -> tensor<1x32x1xbf16>
// CHECK: "cuesta.sum"({{.*}}) {dims = [2, 3], keepdim = 0 : i64} : (tensor<1x8x4x8xf32>) -> tensor<1x8xf32>
// CHECK: "cuesta.sum"({{.*}}) {dims = [3], keepdim = 0 : i64} : (tensor<1x1x4x16xf32>) -> tensor<1x1x4xf32>
// CHECK: "cuesta.sum"({{.*}}) {dims = [2], keepdim = 0 : i64} : (tensor<1x8x4xf32>) -> tensor<1x8xf32>
// CHECK: "cuesta.sub"
func.func @groups(%x: tensor<1x64xbf16>, %b: tensor<8x32xui8>, %s: tensor<8x4x1xbf16>, %z: tensor<8x4x1xbf16>) -> tensor<1x8xbf16> {
  %four = "cuesta.constant"() {value = 4 : i64} : () -> tensor<ui8>
  %fifteen = "cuesta.constant"() {value = 15 : i64} : () -> tensor<ui8>
  %0 = "cuesta.bitwise_and"(%b, %fifteen) : (tensor<8x32xui8>, tensor<ui8>) -> tensor<8x32xui8>
  %1 = "cuesta.bitwise_right_shift"(%b, %four) : (tensor<8x32xui8>, tensor<ui8>) -> tensor<8x32xui8>
  %2 = "cuesta.reshape"(%0) : (tensor<8x32xui8>) -> tensor<8x32x1xui8>
  %3 = "cuesta.reshape"(%1) : (tensor<8x32xui8>) -> tensor<8x32x1xui8>
  %4 = "cuesta.cat"(%2, %3) {dim = 2 : i64} : (tensor<8x32x1xui8>, tensor<8x32x1xui8>) -> tensor<8x32x2xui8>
  %5 = "cuesta.reshape"(%4) : (tensor<8x32x2xui8>) -> tensor<8x4x16xui8>
  %6 = "cuesta.convert"(%5) : (tensor<8x4x16xui8>) -> tensor<8x4x16xbf16>
  %7 = "cuesta.sub"(%6, %z) : (tensor<8x4x16xbf16>, tensor<8x4x1xbf16>) -> tensor<8x4x16xbf16>
  %8 = "cuesta.mul"(%7, %s) : (tensor<8x4x16xbf16>, tensor<8x4x1xbf16>) -> tensor<8x4x16xbf16>
  %9 = "cuesta.reshape"(%8) : (tensor<8x4x16xbf16>) -> tensor<8x64xbf16>
  %10 = "cuesta.permute"(%9) {dims = [1, 0]} : (tensor<8x64xbf16>) -> tensor<64x8xbf16>
  %11 = "cuesta.mm"(%x, %10) {route = "rows"} : (tensor<1x64xbf16>, tensor<64x8xbf16>) -> tensor<1x8xbf16>
  return %11 : tensor<1x8xbf16>
}

// In f32 zeros are subtracted from values: a sum's rounding would show.
// CHECK-LABEL: func.func @exact_zeros
// CHECK: "cuesta.sub"({{.*}}) : (tensor<1x8x64xf32>, tensor<1x8x1xf32>) -> tensor<1x8x64xf32>
// CHECK: "cuesta.sum"
// CHECK-NOT: "cuesta.sub"
func.func @exact_zeros(%x: tensor<1x64xf32>, %v: tensor<8x64xi8>, %z: tensor<8x1xf32>) -> tensor<1x8xf32> {
  %0 = "cuesta.convert"(%v) : (tensor<8x64xi8>) -> tensor<8x64xf32>
  %1 = "cuesta.sub"(%0, %z) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
  %2 = "cuesta.permute"(%1) {dims = [1, 0]} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %3 = "cuesta.mm"(%x, %2) {route = "rows"} : (tensor<1x64xf32>, tensor<64x8xf32>) -> tensor<1x8xf32>
  return %3 : tensor<1x8xf32>
}

// Several rows of x share what is read of the weight.
// CHECK-LABEL: func.func @several
// CHECK: "cuesta.mul"({{.*}}) : (tensor<4x1x64xf32>, tensor<1x8x64xf32>) -> tensor<4x8x64xf32>
// CHECK: "cuesta.sum"({{.*}}) {dims = [2], keepdim = 0 : i64} : (tensor<4x8x64xf32>) -> tensor<4x8xf32>
// CHECK: "cuesta.mul"({{.*}}) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
func.func @several(%x: tensor<4x64xbf16>, %v: tensor<8x64xi8>, %s: tensor<8x1xbf16>) -> tensor<4x8xbf16> {
  %0 = "cuesta.convert"(%v) : (tensor<8x64xi8>) -> tensor<8x64xbf16>
  %1 = "cuesta.mul"(%0, %s) : (tensor<8x64xbf16>, tensor<8x1xbf16>) -> tensor<8x64xbf16>
  %2 = "cuesta.permute"(%1) {dims = [1, 0]} : (tensor<8x64xbf16>) -> tensor<64x8xbf16>
  %3 = "cuesta.mm"(%x, %2) {route = "rows"} : (tensor<4x64xbf16>, tensor<64x8xbf16>) -> tensor<4x8xbf16>
  return %3 : tensor<4x8xbf16>
}

// A factor for each column, values of 32 bits, and more than 16 rows of x: the scaled weight is multiplied.
// CHECK-LABEL: func.func @others
// CHECK: %[[A:.*]] = "cuesta.mul"
// CHECK: %[[B:.*]] = "cuesta.mul"
// CHECK: %[[C:.*]] = "cuesta.mul"
// CHECK: "cuesta.permute"(%[[A]])
// CHECK: "cuesta.permute"(%[[B]])
// CHECK: "cuesta.permute"(%[[C]])
func.func @others(%x: tensor<1x8xbf16>, %y: tensor<17x8xbf16>, %v: tensor<8x8xi8>, %w: tensor<8x8xi32>, %column: tensor<1x8xbf16>, %row: tensor<8x1xbf16>)
    -> (tensor<1x8xbf16>, tensor<1x8xbf16>, tensor<17x8xbf16>) {
  %0 = "cuesta.convert"(%v) : (tensor<8x8xi8>) -> tensor<8x8xbf16>
  %1 = "cuesta.convert"(%w) : (tensor<8x8xi32>) -> tensor<8x8xbf16>
  %2 = "cuesta.mul"(%0, %column) : (tensor<8x8xbf16>, tensor<1x8xbf16>) -> tensor<8x8xbf16>
  %3 = "cuesta.mul"(%1, %row) : (tensor<8x8xbf16>, tensor<8x1xbf16>) -> tensor<8x8xbf16>
  %4 = "cuesta.mul"(%0, %row) : (tensor<8x8xbf16>, tensor<8x1xbf16>) -> tensor<8x8xbf16>
  %5 = "cuesta.permute"(%2) {dims = [1, 0]} : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %6 = "cuesta.permute"(%3) {dims = [1, 0]} : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %7 = "cuesta.permute"(%4) {dims = [1, 0]} : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %8 = "cuesta.mm"(%x, %5) {route = "rows"} : (tensor<1x8xbf16>, tensor<8x8xbf16>) -> tensor<1x8xbf16>
  %9 = "cuesta.mm"(%x, %6) {route = "rows"} : (tensor<1x8xbf16>, tensor<8x8xbf16>) -> tensor<1x8xbf16>
  %10 = "cuesta.mm"(%y, %7) {route = "rows"} : (tensor<17x8xbf16>, tensor<8x8xbf16>) -> tensor<17x8xbf16>
  return %8, %9, %10 : tensor<1x8xbf16>, tensor<1x8xbf16>, tensor<17x8xbf16>
}
