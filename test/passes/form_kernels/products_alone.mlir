// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{epilogues=false})' %s | filecheck %s

// What reads the product is a kernel of its own.
// CHECK: func.func @kernel(
// CHECK-NOT: math.exp
// CHECK: cuesta.product = [0, 2, 1]
// CHECK-NOT: math.exp
// CHECK: func.func @kernel_2(
// CHECK: math.exp
// CHECK: func.func @graph
// CHECK-SAME: reason = "epilogue_fusion is off"
func.func @graph(%a: tensor<64x32xf32> {cuesta.strides = [32, 1]}, %b: tensor<32x64xf32> {cuesta.strides = [64, 1]}) -> (tensor<64x64xf32> {cuesta.strides = [64, 1]}) {
  %0 = "cuesta.mm"(%a, %b) {product = "64x64x32 by 8x48"} : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
  %1 = "cuesta.exp"(%0) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}
