// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(set-target{target=cuda:90})' %s | filecheck %s

// What was measured on a CPU says nothing of a GPU.
// CHECK: module attributes {cuesta.device = "cuda", cuesta.target = "cuda:90"}
// CHECK-NOT: cuesta.products
module attributes {cuesta.products = {across = "kernel"}} {
  func.func @of_a_cpu(%x: tensor<2xf32>) -> tensor<2xf32> {
    return %x : tensor<2xf32>
  }
}

// -----

// CHECK: module attributes {cuesta.device = "cuda:1", cuesta.target = "cuda:90"}
module attributes {cuesta.device = "cuda:1", cuesta.target = "cuda:90"} {
  func.func @of_that_target(%x: tensor<2xf32>) -> tensor<2xf32> {
    return %x : tensor<2xf32>
  }
}
