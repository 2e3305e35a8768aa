// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// A call reads parts of a sum, each with strides that it was traced with: the sum is written with its parts one behind
// the other, so that they are views of it. The contiguous dim stays.
// CHECK-LABEL: func.func @graph(
// CHECK: %[[SUM:.*]] = "host.alloc"{{.*}} : () -> memref<3072xbf16>
// CHECK: "host.launch"(%{{.*}}, %{{.*}}, %{{.*}}) {kernel = @kernels::@kernel
// CHECK-NOT: "host.launch"
// CHECK: "host.view"(%[[SUM]]) {offset = 0 : i64} : (memref<3072xbf16>) -> memref<4x2x8x16xbf16, strided<[32, 16, 128, 1]>>
// CHECK: "host.view"(%[[SUM]]) {offset = 2048 : i64}
// CHECK: "host.view"(%[[SUM]]) {offset = 4096 : i64}
// CHECK-NEXT: "host.aten"
func.func @graph(%x: tensor<32x96xbf16>, %b: tensor<3x32xbf16>) -> tensor<4x2x8x16xbf16> {
  %0 = "cuesta.reshape"(%x) : (tensor<32x96xbf16>) -> tensor<32x3x32xbf16>
  %1 = "cuesta.add"(%0, %b) : (tensor<32x3x32xbf16>, tensor<3x32xbf16>) -> tensor<32x3x32xbf16>
  %2 = "cuesta.permute"(%1) {dims = [1, 0, 2]} : (tensor<32x3x32xbf16>) -> tensor<3x32x32xbf16>
  %3 = "cuesta.slice"(%2) {starts = [0, 0, 0], steps = [1, 1, 1]} : (tensor<3x32x32xbf16>) -> tensor<1x32x32xbf16>
  %4 = "cuesta.slice"(%2) {starts = [1, 0, 0], steps = [1, 1, 1]} : (tensor<3x32x32xbf16>) -> tensor<1x32x32xbf16>
  %5 = "cuesta.slice"(%2) {starts = [2, 0, 0], steps = [1, 1, 1]} : (tensor<3x32x32xbf16>) -> tensor<1x32x32xbf16>
  %6 = "cuesta.reshape"(%3) : (tensor<1x32x32xbf16>) -> tensor<8x4x2x16xbf16>
  %7 = "cuesta.reshape"(%4) : (tensor<1x32x32xbf16>) -> tensor<8x4x2x16xbf16>
  %8 = "cuesta.reshape"(%5) : (tensor<1x32x32xbf16>) -> tensor<8x4x2x16xbf16>
  %q = "cuesta.permute"(%6) {dims = [1, 2, 0, 3]} : (tensor<8x4x2x16xbf16>) -> tensor<4x2x8x16xbf16>
  %k = "cuesta.permute"(%7) {dims = [1, 2, 0, 3]} : (tensor<8x4x2x16xbf16>) -> tensor<4x2x8x16xbf16>
  %v = "cuesta.permute"(%8) {dims = [1, 2, 0, 3]} : (tensor<8x4x2x16xbf16>) -> tensor<4x2x8x16xbf16>
  %r = "aten.call"(%q, %k, %v) {args = "[\22%0\22, \22%1\22, \22%2\22]", overload = "aten.scaled_dot_product_attention.default", reason = "", operand_strides = [[32, 16, 128, 1], [32, 16, 128, 1], [32, 16, 128, 1]], result_strides = [[256, 128, 16, 1]]} : (tensor<4x2x8x16xbf16>, tensor<4x2x8x16xbf16>, tensor<4x2x8x16xbf16>) -> tensor<4x2x8x16xbf16>
  return %r : tensor<4x2x8x16xbf16>
}
