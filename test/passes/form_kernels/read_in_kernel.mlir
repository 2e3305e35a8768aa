// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// A result is written in the order in which it is read outside its kernel, though its kernel sums it in another one.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"({{.*}}) {kernel = @kernels::@kernel{{.*}}outputs = 2 : i64}
// CHECK-SAME: memref<6x4x64xbf16>
// CHECK-NOT: "host.launch"
// CHECK: "host.aten"
func.func @graph(%x: tensor<4x6x64xbf16>, %w: tensor<64x64xbf16>) -> (tensor<24x64xbf16>, tensor<4x6xf32>) {
  %0 = "cuesta.exp"(%x) : (tensor<4x6x64xbf16>) -> tensor<4x6x64xbf16>
  %1 = "cuesta.convert"(%0) : (tensor<4x6x64xbf16>) -> tensor<4x6x64xf32>
  %2 = "cuesta.sum"(%1) {dims = [2], keepdim = 0 : i64} : (tensor<4x6x64xf32>) -> tensor<4x6xf32>
  %3 = "cuesta.permute"(%0) {dims = [1, 0, 2]} : (tensor<4x6x64xbf16>) -> tensor<6x4x64xbf16>
  %4 = "cuesta.reshape"(%3) : (tensor<6x4x64xbf16>) -> tensor<24x64xbf16>
  %5 = "aten.call"(%4, %w) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[64, 1]]} : (tensor<24x64xbf16>, tensor<64x64xbf16>) -> tensor<24x64xbf16>
  return %5, %2 : tensor<24x64xbf16>, tensor<4x6xf32>
}
