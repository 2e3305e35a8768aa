// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(decompose,cuesta-to-linalg,form-kernels)' %s | filecheck %s

// What rows share is done again by each tile of rows, of which there are many: tiles are along rows too.
// CHECK: cuesta.parallel = [0, 1], cuesta.sizes = [4096, 64]
// CHECK: "host.launch"
// CHECK-NOT: "host.launch"
// CHECK: return
func.func @graph(%x: tensor<4096x64xf32> {cuesta.strides = [64, 1]}, %v: tensor<64xf32> {cuesta.strides = [1]}) -> (tensor<4096x64xf32> {cuesta.strides = [64, 1]}) {
  %0 = "cuesta.sqrt"(%v) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = "cuesta.mul"(%x, %0) : (tensor<4096x64xf32>, tensor<64xf32>) -> tensor<4096x64xf32>
  return %1 : tensor<4096x64xf32>
}

// CHECK: // -----
// -----

// A kernel with a reduction has tiles of one row, and would do it again for each.
// CHECK: cuesta.parallel = [1], cuesta.sizes = [512, 64, 8]
// CHECK: return
func.func @graph(%x: tensor<512x64x8xf32> {cuesta.strides = [512, 8, 1]}, %v: tensor<64x8xf32> {cuesta.strides = [8, 1]}) -> (tensor<512x64xf32> {cuesta.strides = [64, 1]}) {
  %0 = "cuesta.sqrt"(%v) : (tensor<64x8xf32>) -> tensor<64x8xf32>
  %1 = "cuesta.mul"(%x, %0) : (tensor<512x64x8xf32>, tensor<64x8xf32>) -> tensor<512x64x8xf32>
  %2 = "cuesta.sum"(%1) {dims = [2], keepdim = 0 : i64} : (tensor<512x64x8xf32>) -> tensor<512x64xf32>
  return %2 : tensor<512x64xf32>
}

// CHECK: // -----
// -----

// Each tile may repeat a widening, in a kernel with a reduction too: the tile then reads the narrow tensor.
// CHECK: cuesta.parallel = [0], cuesta.sizes = [512, 64]
// CHECK: "host.launch"
// CHECK-NOT: "host.launch"
// CHECK: return
func.func @graph(%x: tensor<512x64xbf16> {cuesta.strides = [64, 1]}, %v: tensor<64xbf16> {cuesta.strides = [1]}) -> (tensor<512xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.convert"(%v) : (tensor<64xbf16>) -> tensor<64xf32>
  %1 = "cuesta.convert"(%x) : (tensor<512x64xbf16>) -> tensor<512x64xf32>
  %2 = "cuesta.mul"(%1, %0) : (tensor<512x64xf32>, tensor<64xf32>) -> tensor<512x64xf32>
  %3 = "cuesta.sum"(%2) {dims = [1], keepdim = 0 : i64} : (tensor<512x64xf32>) -> tensor<512xf32>
  return %3 : tensor<512xf32>
}
