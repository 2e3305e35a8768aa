// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// A product of more rows than its weight has, which a kernel reads element by element: it writes row by row.
// CHECK: func.func @graph
// CHECK: "host.launch"({{.*}}outputs = 1{{.*}} : (memref<64x144xbf16>, memref<8x144xbf16>, memref<64x8xf32>) -> ()
func.func @graph(%x: tensor<64x144xbf16> {cuesta.strides = [144, 1]}, %w: tensor<8x144xbf16> {cuesta.strides = [144, 1]}) -> tensor<8xf32> {
  %0 = "cuesta.permute"(%w) {dims = [1, 0]} : (tensor<8x144xbf16>) -> tensor<144x8xbf16>
  %1 = "cuesta.mm"(%x, %0) {product = "16x16x16/1/2"} : (tensor<64x144xbf16>, tensor<144x8xbf16>) -> tensor<64x8xf32>
  %2 = "cuesta.sum"(%1) {dims = [0], keepdim = 0} : (tensor<64x8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
