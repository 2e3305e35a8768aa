// RUN: cuesta-opt --to tiled %s | filecheck %s

// Sums down few columns are parts that threads share out, and so is what is computed with them: one kernel for both
// would be one strip of columns, one thread's work.
// CHECK: func.func @kernel(
// CHECK: scf.forall {{.*}} in (32)
// CHECK: func.func @kernel_3(
// CHECK: scf.forall {{.*}} to (6272) step (64)
module {
  func.func @graph(%x: tensor<6272x64xf32> {cuesta.strides = [64, 1]}) -> (tensor<6272x64xf32> {cuesta.strides = [64, 1]}) {
    %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<6272x64xf32>) -> tensor<64xf32>
    %1 = "cuesta.sub"(%x, %0) : (tensor<6272x64xf32>, tensor<64xf32>) -> tensor<6272x64xf32>
    return %1 : tensor<6272x64xf32>
  }
}
