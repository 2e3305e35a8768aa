// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// Elementwise work for channels is done again in every tile, for those channels that the tile has: no launch of its own.
// CHECK: func.func @sqrt_mul(
// CHECK-SAME: cuesta.parallel = [0, 1], cuesta.sizes = [2304, 128]
// CHECK: func.func @graph
// CHECK: "host.launch"
// CHECK-NOT: "host.launch"
func.func @graph(%x: tensor<4x128x24x24xf32> {cuesta.strides = [73728, 1, 3072, 128]}, %v: tensor<128xf32> {cuesta.strides = [1]}) -> (tensor<4x128x24x24xf32> {cuesta.strides = [73728, 1, 3072, 128]}) {
  %1 = "cuesta.sqrt"(%v) : (tensor<128xf32>) -> tensor<128xf32> loc("sqrt"("m.py":3:1))
  %2 = "cuesta.reshape"(%1) : (tensor<128xf32>) -> tensor<128x1x1xf32>
  %3 = "cuesta.mul"(%x, %2) : (tensor<4x128x24x24xf32>, tensor<128x1x1xf32>) -> tensor<4x128x24x24xf32> loc("mul"("m.py":4:1))
  return %3 : tensor<4x128x24x24xf32>
}
