// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// Positions that are counted along a few rows, and the rows of a table that they pick: one kernel for both would have a
// program for each of the few rows, though it copies a thousand times what it counts.
// CHECK: func.func @counted
// CHECK-SAME: cuesta.parallel = [0]
// CHECK: func.func @picked
// CHECK-SAME: cuesta.parallel = [0, 1, 2]
func.func @graph(%x: tensor<8x512xi64> {cuesta.strides = [512, 1]}, %t: tensor<514x768xbf16> {cuesta.strides = [768, 1]})
    -> (tensor<8x512x768xbf16> {cuesta.strides = [393216, 768, 1]}) {
  %0 = "cuesta.cumsum"(%x) {dim = 1 : i64} : (tensor<8x512xi64>) -> tensor<8x512xi64> loc("counted"("m.py":1:1))
  %1 = "cuesta.mul"(%0, %x) : (tensor<8x512xi64>, tensor<8x512xi64>) -> tensor<8x512xi64> loc("counted"("m.py":1:1))
  %2 = "cuesta.index"(%t, %1) {dims = [0], in_range} : (tensor<514x768xbf16>, tensor<8x512xi64>) -> tensor<8x512x768xbf16> loc("picked"("m.py":2:1))
  return %2 : tensor<8x512x768xbf16>
}
