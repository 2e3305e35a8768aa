// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// Images that are cut into parts of samples, and seen whole again, keep their channels last: that view needs no copy.
// CHECK: func.func @graph(
// CHECK: "host.launch"({{.*}}) {{.*}} : (memref<8x72x16xbf16>, memref<8x72x16xbf16>, memref<8x16xf32>) -> ()
// CHECK: "host.launch"({{.*}}) {{.*}} : (memref<9216xbf16>) -> ()
func.func @graph(%x: tensor<16x16x6x6xbf16> {cuesta.strides = [576, 1, 96, 16]}) -> (tensor<8x16xf32> {cuesta.strides = [16, 1]}, tensor<16x16x6x6xbf16> {cuesta.strides = [576, 1, 96, 16]}) {
  %0 = "cuesta.reshape"(%x) : (tensor<16x16x6x6xbf16>) -> tensor<8x2x16x6x6xbf16>
  %1 = "cuesta.exp"(%0) : (tensor<8x2x16x6x6xbf16>) -> tensor<8x2x16x6x6xbf16>
  %2 = "cuesta.convert"(%1) : (tensor<8x2x16x6x6xbf16>) -> tensor<8x2x16x6x6xf32>
  %3 = "cuesta.sum"(%2) {dims = [1, 3, 4], keepdim = 0 : i64} : (tensor<8x2x16x6x6xf32>) -> tensor<8x16xf32>
  %4 = "cuesta.reshape"(%1) : (tensor<8x2x16x6x6xbf16>) -> tensor<16x16x6x6xbf16>
  %5 = "aten.call"(%3) {args = "[\22%0\22, 0, {\22kwargs\22: {}}]", overload = "aten.cumsum.default", reason = "", result_strides = [[16, 1]]} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %6 = "cuesta.neg"(%4) : (tensor<16x16x6x6xbf16>) -> tensor<16x16x6x6xbf16>
  return %5, %6 : tensor<8x16xf32>, tensor<16x16x6x6xbf16>
}

// CHECK: // -----
// -----

// What is repeated beside its channels is copied in the order that it has, for a kernel that computes with it.
// CHECK: func.func @graph(
// CHECK: "host.launch"({{.*}}) {{.*}}ops = ["copy"]{{.*}} : (memref<144x8xbf16>, memref<144x2x8xbf16>) -> ()
// CHECK: "host.launch"({{.*}}) {{.*}} : (memref<2304xbf16>) -> ()
func.func @graph(%x: tensor<4x1x8x6x6xbf16> {cuesta.strides = [288, 288, 1, 48, 8]}) -> (tensor<4x16x6x6xbf16> {cuesta.strides = [576, 1, 96, 16]}) {
  %0 = "cuesta.expand"(%x) : (tensor<4x1x8x6x6xbf16>) -> tensor<4x2x8x6x6xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<4x2x8x6x6xbf16>) -> tensor<4x16x6x6xbf16>
  %2 = "cuesta.exp"(%1) : (tensor<4x16x6x6xbf16>) -> tensor<4x16x6x6xbf16>
  return %2 : tensor<4x16x6x6xbf16>
}
