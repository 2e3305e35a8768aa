// RUN: cuesta-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(cuesta-to-linalg)' %s

// What no earlier pass has taken apart or handed to a library is named, with its line.
func.func @whole(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error@below {{cuesta.softmax has no lowering to linalg}}
  %0 = "cuesta.softmax"(%x) {dim = 1, safe = 0} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
