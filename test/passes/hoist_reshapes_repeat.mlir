// RUN: cuesta-opt --pass-pipeline='builtin.module(hoist-reshapes{repeat=true})' %s | filecheck %s

// The wide tensor is computed twice from the narrow one, the channels' numbers reshaped along with it.
// CHECK-LABEL: func.func @statistics
// CHECK-SAME: (%[[X:.*]]: tensor<8x4x6xbf16>, %[[M:.*]]: tensor<1x4x1xf32>)
// CHECK-NEXT: %[[PARTS:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<8x4x6xbf16>) -> tensor<2x4x4x6xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = "cuesta.convert"(%[[PARTS]])
// CHECK-NEXT: %[[W:.*]] = "cuesta.convert"(%[[X]])
// CHECK-NEXT: %[[N:.*]] = "cuesta.reshape"(%[[M]]) : (tensor<1x4x1xf32>) -> tensor<1x1x4x1xf32>
// CHECK-NEXT: %[[CENTRED:.*]] = "cuesta.sub"(%[[WIDE]], %[[N]])
// CHECK-NEXT: %[[C:.*]] = "cuesta.sub"(%[[W]], %[[M]])
// CHECK-NEXT: %[[S:.*]] = "cuesta.sum"(%[[CENTRED]])
// CHECK-NEXT: return %[[S]], %[[C]]
func.func @statistics(%x: tensor<8x4x6xbf16>, %m: tensor<1x4x1xf32>) -> (tensor<2x4xf32>, tensor<8x4x6xf32>) {
  %0 = "cuesta.convert"(%x) : (tensor<8x4x6xbf16>) -> tensor<8x4x6xf32>
  %1 = "cuesta.sub"(%0, %m) : (tensor<8x4x6xf32>, tensor<1x4x1xf32>) -> tensor<8x4x6xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<8x4x6xf32>) -> tensor<2x4x4x6xf32>
  %3 = "cuesta.sum"(%2) {dims = [1, 3], keepdim = 0 : i64} : (tensor<2x4x4x6xf32>) -> tensor<2x4xf32>
  return %3, %1 : tensor<2x4xf32>, tensor<8x4x6xf32>
}

// Costly to compute again; made of two tensors; or the channels are cut where the reshape is.
// CHECK-LABEL: func.func @read_instead
// CHECK-NEXT: %[[E:.*]] = "cuesta.exp"
// CHECK-NEXT: "cuesta.reshape"(%[[E]])
// CHECK-NEXT: %[[A:.*]] = "cuesta.add"
// CHECK-NEXT: "cuesta.reshape"(%[[A]])
// CHECK-NEXT: %[[M:.*]] = "cuesta.mul"
// CHECK-NEXT: "cuesta.reshape"(%[[M]])
func.func @read_instead(%x: tensor<8x6xf32>, %y: tensor<8x6xf32>, %z: tensor<6xf32>) -> (tensor<48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>) {
  %0 = "cuesta.exp"(%x) : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<8x6xf32>) -> tensor<48xf32>
  %2 = "cuesta.add"(%x, %y) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<8x6xf32>) -> tensor<48xf32>
  %4 = "cuesta.mul"(%x, %z) : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
  %5 = "cuesta.reshape"(%4) : (tensor<8x6xf32>) -> tensor<48xf32>
  return %1, %3, %5, %0, %2, %4 : tensor<48xf32>, tensor<48xf32>, tensor<48xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>
}

// A single number stays one: the reshape stays behind it.
// CHECK-LABEL: func.func @number
// CHECK: %[[C:.*]] = "cuesta.convert"(%{{.*}}) : (tensor<bf16>) -> tensor<f32>
// CHECK-NEXT: "cuesta.reshape"(%[[C]]) : (tensor<f32>) -> tensor<1xf32>
func.func @number(%x: tensor<bf16>) -> (tensor<1xf32>, tensor<f32>) {
  %0 = "cuesta.convert"(%x) : (tensor<bf16>) -> tensor<f32>
  %1 = "cuesta.reshape"(%0) : (tensor<f32>) -> tensor<1xf32>
  return %1, %0 : tensor<1xf32>, tensor<f32>
}

// Also one that is computed, and has no other user.
// CHECK-LABEL: func.func @computed_number
// CHECK: %[[D:.*]] = "cuesta.div"(%{{.*}}, %{{.*}}) : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK-NEXT: "cuesta.reshape"(%[[D]]) : (tensor<f32>) -> tensor<1xf32>
func.func @computed_number(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "cuesta.div"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "cuesta.reshape"(%0) : (tensor<f32>) -> tensor<1xf32>
  %2 = "cuesta.sum"(%1) {dims = [0], keepdim = 0 : i64} : (tensor<1xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// Two results that are one value: what the caller writes in one is seen in the other.
// CHECK-LABEL: func.func @one_memory
// CHECK-NEXT: %[[N:.*]] = "cuesta.neg"
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[N]])
// CHECK-NEXT: %[[V:.*]] = "cuesta.reshape"(%[[N]])
// CHECK-NEXT: %[[S:.*]] = "cuesta.slice"(%[[V]])
// CHECK-NEXT: return %[[N]], %[[R]], %[[S]]
func.func @one_memory(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<1x3x4xf32>, tensor<5xf32>) {
  %0 = "cuesta.neg"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<3x4xf32>) -> tensor<1x3x4xf32>
  %2 = "cuesta.reshape"(%0) : (tensor<3x4xf32>) -> tensor<12xf32>
  %3 = "cuesta.slice"(%2) {starts = [2], steps = [2]} : (tensor<12xf32>) -> tensor<5xf32>
  return %0, %1, %3 : tensor<3x4xf32>, tensor<1x3x4xf32>, tensor<5xf32>
}

// The only user of an op whose operands broadcast: two values in a byte, in groups of four.
// CHECK-LABEL: func.func @unpacked
// CHECK-SAME: (%[[X:.*]]: tensor<8x16x1xui8>, %[[Y:.*]]: tensor<8x16x1xui8>, %[[C:.*]]: tensor<1x1x2xi1>)
// CHECK-DAG: %[[CR:.*]] = "cuesta.reshape"(%[[C]]) : (tensor<1x1x2xi1>) -> tensor<1x1x1x2xi1>
// CHECK-DAG: %[[XR:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<8x16x1xui8>) -> tensor<8x8x2x1xui8>
// CHECK-DAG: %[[YR:.*]] = "cuesta.reshape"(%[[Y]]) : (tensor<8x16x1xui8>) -> tensor<8x8x2x1xui8>
// CHECK: "cuesta.where"(%[[CR]], %[[XR]], %[[YR]]) : {{.*}} -> tensor<8x8x2x2xui8>
func.func @unpacked(%x: tensor<8x16x1xui8>, %y: tensor<8x16x1xui8>, %c: tensor<1x1x2xi1>) -> tensor<8x8x2x2xf32> {
  %0 = "cuesta.where"(%c, %x, %y) : (tensor<1x1x2xi1>, tensor<8x16x1xui8>, tensor<8x16x1xui8>) -> tensor<8x16x2xui8>
  %1 = "cuesta.reshape"(%0) : (tensor<8x16x2xui8>) -> tensor<8x8x4xui8>
  %2 = "cuesta.convert"(%1) : (tensor<8x8x4xui8>) -> tensor<8x8x4xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<8x8x4xf32>) -> tensor<8x8x2x2xf32>
  %4 = "cuesta.exp"(%3) : (tensor<8x8x2x2xf32>) -> tensor<8x8x2x2xf32>
  return %4 : tensor<8x8x2x2xf32>
}

// Halves of rows that are swapped: a reshape that splits the heads before them moves above the concatenation, the
// slices and what lies between. One that cuts the rows stays.
// CHECK-LABEL: func.func @swapped_halves
// CHECK: %[[X:.*]] = "cuesta.reshape"(%{{.*}}) : (tensor<8x64xf32>) -> tensor<2x4x64xf32>
// CHECK: %[[A:.*]] = "cuesta.slice"(%[[X]]) {starts = [0, 0, 0], steps = [1, 1, 1]} : {{.*}} -> tensor<2x4x32xf32>
// CHECK: %[[Y:.*]] = "cuesta.reshape"(%{{.*}}) : (tensor<8x64xf32>) -> tensor<2x4x64xf32>
// CHECK: %[[B:.*]] = "cuesta.slice"(%[[Y]]) {starts = [0, 0, 32], steps = [1, 1, 1]} : {{.*}} -> tensor<2x4x32xf32>
// CHECK: %[[N:.*]] = "cuesta.neg"(%[[B]])
// CHECK: %[[C:.*]] = "cuesta.cat"(%[[N]], %[[A]]) {dim = 2 : i64}
// CHECK: "cuesta.exp"(%[[C]])
// CHECK: %[[D:.*]] = "cuesta.cat"({{.*}} -> tensor<8x64xf32>
// CHECK: "cuesta.reshape"(%[[D]]) : (tensor<8x64xf32>) -> tensor<16x32xf32>
func.func @swapped_halves(%x: tensor<8x64xf32>, %y: tensor<8x32xf32>) -> (tensor<2x4x64xf32>, tensor<16x32xf32>) {
  %0 = "cuesta.slice"(%x) {starts = [0, 0], steps = [1, 1]} : (tensor<8x64xf32>) -> tensor<8x32xf32>
  %1 = "cuesta.slice"(%x) {starts = [0, 32], steps = [1, 1]} : (tensor<8x64xf32>) -> tensor<8x32xf32>
  %2 = "cuesta.neg"(%1) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %3 = "cuesta.cat"(%2, %0) {dim = 1 : i64} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32>
  %4 = "cuesta.reshape"(%3) : (tensor<8x64xf32>) -> tensor<2x4x64xf32>
  %5 = "cuesta.exp"(%4) : (tensor<2x4x64xf32>) -> tensor<2x4x64xf32>
  %6 = "cuesta.cat"(%y, %y) {dim = 1 : i64} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32>
  %7 = "cuesta.reshape"(%6) : (tensor<8x64xf32>) -> tensor<16x32xf32>
  %8 = "cuesta.exp"(%7) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  return %5, %8 : tensor<2x4x64xf32>, tensor<16x32xf32>
}

// A norm's result that is converted for a product behind the reshape is converted before it: the norm's kernel writes
// it. What sums columns of it reads what was written.
// CHECK-LABEL: func.func @norm
// CHECK: %[[N:.*]] = "cuesta.sub"
// CHECK-NEXT: %[[C:.*]] = "cuesta.convert"(%[[N]]) : (tensor<2x4x8xf32>) -> tensor<2x4x8xbf16>
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[C]]) : (tensor<2x4x8xbf16>) -> tensor<8x8xbf16>
// CHECK-NEXT: %[[P:.*]] = "aten.call"(%[[R]]
// CHECK-NEXT: %[[W:.*]] = "cuesta.convert"(%[[R]])
// CHECK-NEXT: %[[S:.*]] = "cuesta.sum"(%[[W]]) {dims = [0]
// CHECK-NEXT: return %[[P]], %[[S]]
func.func @norm(%x: tensor<2x4x8xf32>, %w: tensor<8x8xbf16>) -> (tensor<8x8xbf16>, tensor<8xf32>) {
  %0 = "cuesta.amax"(%x) {dims = [2], keepdim = 1 : i64} : (tensor<2x4x8xf32>) -> tensor<2x4x1xf32>
  %1 = "cuesta.sub"(%x, %0) : (tensor<2x4x8xf32>, tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
  %3 = "cuesta.convert"(%2) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %4 = "aten.call"(%3, %w) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[8, 1]]} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %5 = "cuesta.convert"(%3) : (tensor<8x8xbf16>) -> tensor<8x8xf32>
  %6 = "cuesta.sum"(%5) {dims = [0], keepdim = 0 : i64} : (tensor<8x8xf32>) -> tensor<8xf32>
  return %4, %6 : tensor<8x8xbf16>, tensor<8xf32>
}

// A sum of rows behind the reshape is computed with it: the reshape moves up.
// CHECK-LABEL: func.func @rows
// CHECK: %[[R:.*]] = "cuesta.reshape"(%{{.*}}) : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
// CHECK: %[[S:.*]] = "cuesta.sub"(%[[R]]
// CHECK-NEXT: "cuesta.sum"(%[[S]])
func.func @rows(%x: tensor<2x4x8xf32>) -> tensor<8xf32> {
  %0 = "cuesta.amax"(%x) {dims = [2], keepdim = 1 : i64} : (tensor<2x4x8xf32>) -> tensor<2x4x1xf32>
  %1 = "cuesta.sub"(%x, %0) : (tensor<2x4x8xf32>, tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
  %3 = "cuesta.sum"(%2) {dims = [1], keepdim = 0 : i64} : (tensor<8x8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// What follows a sum stays there, where its reader spreads it over more elements, through reshapes that only add dims of
// 1, and where it is repeated first.
// CHECK-LABEL: func.func @behind_a_sum
// CHECK: %[[E:.*]] = "cuesta.exp"(%{{.*}}) : (tensor<1x1x8xf32>) -> tensor<1x1x8xf32>
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[E]]) : (tensor<1x1x8xf32>) -> tensor<1x2x4xf32>
// CHECK: "cuesta.expand"(%[[R]])
func.func @behind_a_sum(%x: tensor<1x8x16xf32>, %w: tensor<32x2x4xf32>) -> tensor<32x2xf32> {
  %0 = "cuesta.sum"(%x) {dims = [2], keepdim = 0 : i64} : (tensor<1x8x16xf32>) -> tensor<1x8xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<1x8xf32>) -> tensor<1x1x8xf32>
  %2 = "cuesta.exp"(%1) : (tensor<1x1x8xf32>) -> tensor<1x1x8xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<1x1x8xf32>) -> tensor<1x2x4xf32>
  %4 = "cuesta.expand"(%3) : (tensor<1x2x4xf32>) -> tensor<32x2x4xf32>
  %5 = "cuesta.mul"(%4, %w) : (tensor<32x2x4xf32>, tensor<32x2x4xf32>) -> tensor<32x2x4xf32>
  %6 = "cuesta.sum"(%5) {dims = [2], keepdim = 0 : i64} : (tensor<32x2x4xf32>) -> tensor<32x2xf32>
  return %6 : tensor<32x2xf32>
}

// Only calls and the caller read the sum, part by part in another order: it is written in that order.
// CHECK-LABEL: func.func @written_permuted
// CHECK-SAME: (%[[X:.*]]: tensor<32x96xbf16>, %[[W:.*]]: tensor<96x96xbf16>, %[[B:.*]]: tensor<96xbf16>)
// CHECK: %[[M:.*]] = "aten.call"(%[[X]], %[[W]])
// CHECK-DAG: %[[M3:.*]] = "cuesta.reshape"(%[[M]]) : (tensor<32x96xbf16>) -> tensor<32x3x32xbf16>
// CHECK-DAG: %[[B3:.*]] = "cuesta.reshape"(%[[B]]) : (tensor<96xbf16>) -> tensor<1x3x32xbf16>
// CHECK: %[[A:.*]] = "cuesta.add"(%[[M3]], %[[B3]]) : (tensor<32x3x32xbf16>, tensor<1x3x32xbf16>) -> tensor<32x3x32xbf16>
// CHECK-NEXT: %[[P:.*]] = "cuesta.permute"(%[[A]]) {dims = [1, 0, 2]}
// CHECK-NEXT: return %[[P]]
func.func @written_permuted(%x: tensor<32x96xbf16>, %w: tensor<96x96xbf16>, %b: tensor<96xbf16>) -> tensor<3x32x32xbf16> {
  %0 = "aten.call"(%x, %w) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[96, 1]]} : (tensor<32x96xbf16>, tensor<96x96xbf16>) -> tensor<32x96xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<32x96xbf16>) -> tensor<4x8x96xbf16>
  %2 = "cuesta.add"(%1, %b) : (tensor<4x8x96xbf16>, tensor<96xbf16>) -> tensor<4x8x96xbf16>
  %3 = "cuesta.reshape"(%2) : (tensor<4x8x96xbf16>) -> tensor<32x3x32xbf16>
  %4 = "cuesta.permute"(%3) {dims = [1, 0, 2]} : (tensor<32x3x32xbf16>) -> tensor<3x32x32xbf16>
  return %4 : tensor<3x32x32xbf16>
}

// A permute that moves the rows' dim would be written element by element; a norm's kernel is not parted.
// CHECK-LABEL: func.func @not_written_permuted
// CHECK: %[[A:.*]] = "cuesta.add"(%{{.*}}, %{{.*}}) : (tensor<32x96xbf16>, tensor<96xbf16>)
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[A]])
// CHECK-NEXT: "cuesta.permute"(%[[R]]) {dims = [1, 2, 0]}
// CHECK: %[[E:.*]] = "cuesta.add"(%{{.*}}, %{{.*}}) : (tensor<32x96xf32>, tensor<96xf32>)
// CHECK-NEXT: %[[S:.*]] = "cuesta.reshape"(%[[E]])
// CHECK-NEXT: "cuesta.permute"(%[[S]]) {dims = [1, 0, 2]}
func.func @not_written_permuted(%x: tensor<32x96xbf16>, %b: tensor<96xbf16>, %y: tensor<32x96xf32>, %c: tensor<96xf32>) -> (tensor<3x32x32xbf16>, tensor<3x32x32xf32>) {
  %0 = "cuesta.add"(%x, %b) : (tensor<32x96xbf16>, tensor<96xbf16>) -> tensor<32x96xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<32x96xbf16>) -> tensor<32x3x32xbf16>
  %2 = "cuesta.permute"(%1) {dims = [1, 2, 0]} : (tensor<32x3x32xbf16>) -> tensor<3x32x32xbf16>
  %3 = "cuesta.sum"(%y) {dims = [1], keepdim = 1 : i64} : (tensor<32x96xf32>) -> tensor<32x1xf32>
  %4 = "cuesta.sub"(%y, %3) : (tensor<32x96xf32>, tensor<32x1xf32>) -> tensor<32x96xf32>
  %5 = "cuesta.add"(%4, %c) : (tensor<32x96xf32>, tensor<96xf32>) -> tensor<32x96xf32>
  %6 = "cuesta.reshape"(%5) : (tensor<32x96xf32>) -> tensor<32x3x32xf32>
  %7 = "cuesta.permute"(%6) {dims = [1, 0, 2]} : (tensor<32x3x32xf32>) -> tensor<3x32x32xf32>
  return %2, %7 : tensor<3x32x32xbf16>, tensor<3x32x32xf32>
}

// What a depthwise product's kernel rounds stays with it, with the bias before it: else it would write wide sums.
// CHECK-LABEL: func.func @rounded_windows
// CHECK: %[[S:.*]] = "cuesta.depthwise"
// CHECK-NEXT: %[[B:.*]] = "cuesta.add"(%[[S]], %{{.*}}) : (tensor<2x8x8x16xf32>, tensor<16xf32>)
// CHECK-NEXT: %[[N:.*]] = "cuesta.convert"(%[[B]]) : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xbf16>
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[N]])
// CHECK-NEXT: "cuesta.add"(%[[R]], %{{.*}}) : (tensor<2x64x16xbf16>, tensor<2x64x16xbf16>)
func.func @rounded_windows(%x: tensor<2x8x8x16xbf16>, %w: tensor<3x3x16xbf16>, %bias: tensor<16xf32>, %y: tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16> {
  %0 = "cuesta.depthwise"(%x, %w) {dilation = [1, 1], spread = [1, 1], padding = [1, 1], stride = [1, 1]} : (tensor<2x8x8x16xbf16>, tensor<3x3x16xbf16>) -> tensor<2x8x8x16xf32>
  %1 = "cuesta.add"(%0, %bias) : (tensor<2x8x8x16xf32>, tensor<16xf32>) -> tensor<2x8x8x16xf32>
  %2 = "cuesta.convert"(%1) : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xbf16>
  %3 = "cuesta.reshape"(%2) : (tensor<2x8x8x16xbf16>) -> tensor<2x64x16xbf16>
  %4 = "cuesta.add"(%3, %y) : (tensor<2x64x16xbf16>, tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16>
  return %4 : tensor<2x64x16xbf16>
}
