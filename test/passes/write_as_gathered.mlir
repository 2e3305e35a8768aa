// RUN: cuesta-opt --pass-pipeline='builtin.module(write-as-gathered)' --split-input-file %s | filecheck %s

// Two reads along the rows of a permuted tensor, whose rows are apart in memory: it is written as it is read. Only the
// last positions differ along a row of the result.
// CHECK-LABEL: func.func @gathered
// CHECK: "cuesta.permute"(%arg0) {dims = [0, 2, 1], written}
func.func @gathered(%x: tensor<8x512x512xbf16> {cuesta.strides = [262144, 512, 1]}, %p: tensor<1x512x512xi64>, %q: tensor<1x512x512xi64>) -> (tensor<8x512x512xbf16>, tensor<8x512x512xbf16>) {
  %0 = "cuesta.permute"(%x) {dims = [0, 2, 1]} : (tensor<8x512x512xbf16>) -> tensor<8x512x512xbf16>
  %1 = "cuesta.iota"() {start = 0, step = 1} : () -> tensor<8xi64>
  %2 = "cuesta.reshape"(%1) : (tensor<8xi64>) -> tensor<8x1x1xi64>
  %b = "cuesta.expand"(%2) : (tensor<8x1x1xi64>) -> tensor<8x512x512xi64>
  %3 = "cuesta.iota"() {start = 0, step = 1} : () -> tensor<512xi64>
  %4 = "cuesta.reshape"(%3) : (tensor<512xi64>) -> tensor<512x1xi64>
  %i = "cuesta.expand"(%4) : (tensor<512x1xi64>) -> tensor<8x512x512xi64>
  %j = "cuesta.expand"(%p) : (tensor<1x512x512xi64>) -> tensor<8x512x512xi64>
  %k = "cuesta.expand"(%q) : (tensor<1x512x512xi64>) -> tensor<8x512x512xi64>
  %5 = "cuesta.index"(%0, %b, %i, %j) {dims = [0, 1, 2], in_range} : (tensor<8x512x512xbf16>, tensor<8x512x512xi64>, tensor<8x512x512xi64>, tensor<8x512x512xi64>) -> tensor<8x512x512xbf16>
  %6 = "cuesta.index"(%0, %b, %i, %k) {dims = [0, 1, 2], in_range} : (tensor<8x512x512xbf16>, tensor<8x512x512xi64>, tensor<8x512x512xi64>, tensor<8x512x512xi64>) -> tensor<8x512x512xbf16>
  return %5, %6 : tensor<8x512x512xbf16>, tensor<8x512x512xbf16>
}

// -----

// One read does not pay for the copy, a tensor of few elements is in the cache, and a view whose rows are in memory as
// they are read, of an argument that is itself transposed, needs none.
// CHECK-LABEL: func.func @left_alone
// CHECK-NOT: written
func.func @left_alone(%x: tensor<8x512x512xbf16> {cuesta.strides = [262144, 512, 1]}, %small: tensor<8x64x64xbf16> {cuesta.strides = [4096, 64, 1]}, %transposed: tensor<8x512x512xbf16> {cuesta.strides = [262144, 1, 512]}, %p: tensor<512x512xi64>, %q: tensor<64x64xi64>) -> (tensor<512x512xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<512x512xbf16>, tensor<512x512xbf16>) {
  %0 = "cuesta.iota"() {start = 0, step = 1} : () -> tensor<512xi64>
  %1 = "cuesta.reshape"(%0) : (tensor<512xi64>) -> tensor<512x1xi64>
  %i = "cuesta.expand"(%1) : (tensor<512x1xi64>) -> tensor<512x512xi64>
  %2 = "cuesta.constant"() {value = 0 : i64} : () -> tensor<1x1xi64>
  %b = "cuesta.expand"(%2) : (tensor<1x1xi64>) -> tensor<512x512xi64>
  %3 = "cuesta.permute"(%x) {dims = [0, 2, 1]} : (tensor<8x512x512xbf16>) -> tensor<8x512x512xbf16>
  %4 = "cuesta.index"(%3, %b, %i, %p) {dims = [0, 1, 2], in_range} : (tensor<8x512x512xbf16>, tensor<512x512xi64>, tensor<512x512xi64>, tensor<512x512xi64>) -> tensor<512x512xbf16>
  %5 = "cuesta.permute"(%small) {dims = [0, 2, 1]} : (tensor<8x64x64xbf16>) -> tensor<8x64x64xbf16>
  %c = "cuesta.expand"(%2) : (tensor<1x1xi64>) -> tensor<64x64xi64>
  %6 = "cuesta.index"(%5, %c, %c, %q) {dims = [0, 1, 2], in_range} : (tensor<8x64x64xbf16>, tensor<64x64xi64>, tensor<64x64xi64>, tensor<64x64xi64>) -> tensor<64x64xbf16>
  %7 = "cuesta.index"(%5, %c, %c, %q) {dims = [0, 1, 2], in_range} : (tensor<8x64x64xbf16>, tensor<64x64xi64>, tensor<64x64xi64>, tensor<64x64xi64>) -> tensor<64x64xbf16>
  %8 = "cuesta.permute"(%transposed) {dims = [0, 2, 1]} : (tensor<8x512x512xbf16>) -> tensor<8x512x512xbf16>
  %9 = "cuesta.index"(%8, %b, %i, %p) {dims = [0, 1, 2], in_range} : (tensor<8x512x512xbf16>, tensor<512x512xi64>, tensor<512x512xi64>, tensor<512x512xi64>) -> tensor<512x512xbf16>
  %10 = "cuesta.index"(%8, %b, %i, %p) {dims = [0, 1, 2], in_range} : (tensor<8x512x512xbf16>, tensor<512x512xi64>, tensor<512x512xi64>, tensor<512x512xi64>) -> tensor<512x512xbf16>
  return %4, %6, %7, %9, %10 : tensor<512x512xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<512x512xbf16>, tensor<512x512xbf16>
}

// -----

// Reads along the fastest dim in memory take sectors whole, and what another op reads too is there in any case.
// CHECK-LABEL: func.func @other_reads
// CHECK-NOT: written
func.func @other_reads(%x: tensor<8x512x512xbf16> {cuesta.strides = [262144, 512, 1]}, %p: tensor<512x512xi64>) -> (tensor<512x512xbf16>, tensor<512x512xbf16>, tensor<8x512x512xbf16>, tensor<512x512xbf16>, tensor<512x512xbf16>) {
  %0 = "cuesta.iota"() {start = 0, step = 1} : () -> tensor<512xi64>
  %i = "cuesta.expand"(%0) : (tensor<512xi64>) -> tensor<512x512xi64>
  %1 = "cuesta.constant"() {value = 0 : i64} : () -> tensor<1x1xi64>
  %b = "cuesta.expand"(%1) : (tensor<1x1xi64>) -> tensor<512x512xi64>
  %2 = "cuesta.permute"(%x) {dims = [0, 2, 1]} : (tensor<8x512x512xbf16>) -> tensor<8x512x512xbf16>
  %3 = "cuesta.index"(%2, %b, %i, %p) {dims = [0, 1, 2], in_range} : (tensor<8x512x512xbf16>, tensor<512x512xi64>, tensor<512x512xi64>, tensor<512x512xi64>) -> tensor<512x512xbf16>
  %4 = "cuesta.index"(%2, %b, %i, %p) {dims = [0, 1, 2], in_range} : (tensor<8x512x512xbf16>, tensor<512x512xi64>, tensor<512x512xi64>, tensor<512x512xi64>) -> tensor<512x512xbf16>
  %5 = "cuesta.permute"(%x) {dims = [0, 2, 1]} : (tensor<8x512x512xbf16>) -> tensor<8x512x512xbf16>
  %6 = "cuesta.relu"(%5) : (tensor<8x512x512xbf16>) -> tensor<8x512x512xbf16>
  %7 = "cuesta.index"(%5, %b, %b, %p) {dims = [0, 1, 2], in_range} : (tensor<8x512x512xbf16>, tensor<512x512xi64>, tensor<512x512xi64>, tensor<512x512xi64>) -> tensor<512x512xbf16>
  %8 = "cuesta.index"(%5, %b, %b, %p) {dims = [0, 1, 2], in_range} : (tensor<8x512x512xbf16>, tensor<512x512xi64>, tensor<512x512xi64>, tensor<512x512xi64>) -> tensor<512x512xbf16>
  return %3, %4, %6, %7, %8 : tensor<512x512xbf16>, tensor<512x512xbf16>, tensor<8x512x512xbf16>, tensor<512x512xbf16>, tensor<512x512xbf16>
}
