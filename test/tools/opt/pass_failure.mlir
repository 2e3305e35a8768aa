// RUN: cuesta-opt --verify-diagnostics --pass-pipeline='builtin.module(one-shot-bufferize{bufferize-function-boundaries})' %s

func.func @arith_on_tensors(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@below {{op was not bufferized}}
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
