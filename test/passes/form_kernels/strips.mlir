// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// A concatenation lies as its parts do, channels last: programs that each take some channels would walk down columns in
// narrow strips. The channels' factors stay a kernel of their own, so that rows can be shared out as well.
// CHECK: func.func @sum(
// CHECK: func.func @mul(
// CHECK-SAME: cuesta.parallel = [0, 1], cuesta.sizes = [2304, 128]
func.func @graph(%x: tensor<4x96x24x24xf32> {cuesta.strides = [55296, 1, 2304, 96]}, %y: tensor<4x32x24x24xf32> {cuesta.strides = [18432, 1, 768, 32]}, %v: tensor<128x64xf32> {cuesta.strides = [64, 1]}) -> (tensor<4x128x24x24xf32> {cuesta.strides = [73728, 1, 3072, 128]}) {
  %a = "aten.call"(%x) {args = "[\22%0\22, 0]", operand_strides = [[55296, 1, 2304, 96]], overload = "aten.cumsum.default", reason = "", result_strides = [[55296, 1, 2304, 96]]} : (tensor<4x96x24x24xf32>) -> tensor<4x96x24x24xf32> loc("cumsum"("m.py":1:1))
  %b = "aten.call"(%y) {args = "[\22%0\22, 0]", operand_strides = [[18432, 1, 768, 32]], overload = "aten.cumsum.default", reason = "", result_strides = [[18432, 1, 768, 32]]} : (tensor<4x32x24x24xf32>) -> tensor<4x32x24x24xf32> loc("cumsum"("m.py":1:1))
  %0 = "cuesta.cat"(%a, %b) {dim = 1 : i64} : (tensor<4x96x24x24xf32>, tensor<4x32x24x24xf32>) -> tensor<4x128x24x24xf32> loc("copy"("m.py":2:1))
  %1 = "cuesta.sum"(%v) {dims = [1], keepdim = 0} : (tensor<128x64xf32>) -> tensor<128xf32> loc("sum"("m.py":3:1))
  %2 = "cuesta.reshape"(%1) : (tensor<128xf32>) -> tensor<128x1x1xf32>
  %3 = "cuesta.mul"(%0, %2) : (tensor<4x128x24x24xf32>, tensor<128x1x1xf32>) -> tensor<4x128x24x24xf32> loc("mul"("m.py":4:1))
  return %3 : tensor<4x128x24x24xf32>
}

// CHECK: // -----
// -----

// Row-major, each program has rows of its channels: the factor is computed there.
// CHECK: func.func @sum_mul(
// CHECK-SAME: cuesta.parallel = [1]
func.func @graph(%x: tensor<4x96x24x24xf32> {cuesta.strides = [55296, 576, 24, 1]}, %y: tensor<4x32x24x24xf32> {cuesta.strides = [18432, 576, 24, 1]}, %v: tensor<128x64xf32> {cuesta.strides = [64, 1]}) -> (tensor<4x128x24x24xf32> {cuesta.strides = [73728, 576, 24, 1]}) {
  %a = "aten.call"(%x) {args = "[\22%0\22, 0]", operand_strides = [[55296, 576, 24, 1]], overload = "aten.cumsum.default", reason = "", result_strides = [[55296, 576, 24, 1]]} : (tensor<4x96x24x24xf32>) -> tensor<4x96x24x24xf32> loc("cumsum"("m.py":1:1))
  %b = "aten.call"(%y) {args = "[\22%0\22, 0]", operand_strides = [[18432, 576, 24, 1]], overload = "aten.cumsum.default", reason = "", result_strides = [[18432, 576, 24, 1]]} : (tensor<4x32x24x24xf32>) -> tensor<4x32x24x24xf32> loc("cumsum"("m.py":1:1))
  %0 = "cuesta.cat"(%a, %b) {dim = 1 : i64} : (tensor<4x96x24x24xf32>, tensor<4x32x24x24xf32>) -> tensor<4x128x24x24xf32> loc("copy"("m.py":2:1))
  %1 = "cuesta.sum"(%v) {dims = [1], keepdim = 0} : (tensor<128x64xf32>) -> tensor<128xf32> loc("sum"("m.py":3:1))
  %2 = "cuesta.reshape"(%1) : (tensor<128xf32>) -> tensor<128x1x1xf32>
  %3 = "cuesta.mul"(%0, %2) : (tensor<4x128x24x24xf32>, tensor<128x1x1xf32>) -> tensor<4x128x24x24xf32> loc("mul"("m.py":4:1))
  return %3 : tensor<4x128x24x24xf32>
}
