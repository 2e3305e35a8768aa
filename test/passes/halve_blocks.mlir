// RUN: cuesta-opt --pass-pipeline='builtin.module(halve-blocks)' %s | filecheck %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(halve-blocks{times=3})' %s | filecheck %s --check-prefix=THRICE

module {
  module @kernels {
    // The largest parallel class first, though another class is larger; then that class becomes a loop.
    // CHECK-LABEL: func.func @rows
    // CHECK-SAME: cuesta.blocks = [1, 2, 256], cuesta.parallel = [0, 1]
    // THRICE-LABEL: func.func @rows
    // THRICE-SAME: cuesta.blocks = [1, 1, 128], cuesta.loops = [2]
    func.func @rows(%x: tensor<7x8x250xf32>) attributes {cuesta.blocks = [1, 4, 256], cuesta.parallel = [0, 1], cuesta.sizes = [7, 8, 250]} {
      return
    }

    // Of two loops the one that takes more at a time.
    // CHECK-LABEL: func.func @loops
    // CHECK-SAME: cuesta.blocks = [1, 32, 64, 4], cuesta.loops = [1, 2], cuesta.parallel = [0]
    // THRICE-LABEL: func.func @loops
    // THRICE-SAME: cuesta.blocks = [1, 16, 32, 4], cuesta.loops = [1, 2]
    func.func @loops(%x: tensor<64x9000x9000x4xf32>) attributes {cuesta.blocks = [1, 32, 128, 4], cuesta.loops = [1, 2], cuesta.parallel = [0], cuesta.sizes = [64, 9000, 9000, 4]} {
      return
    }

    // A product's loads go first; no block of it is smaller than what tensor cores multiply.
    // CHECK-LABEL: func.func @product
    // CHECK-SAME: cuesta.blocks = [64, 16, 32], cuesta.loops = [2], cuesta.parallel = [0, 1], cuesta.sizes = [64, 16, 64], cuesta.stages = 2
    // THRICE-LABEL: func.func @product
    // THRICE-SAME: cuesta.blocks = [16, 16, 32], {{.*}}cuesta.stages = 2
    func.func @product(%x: tensor<64x16xf32>) attributes {cuesta.blocks = [64, 16, 32], cuesta.loops = [2], cuesta.parallel = [0, 1], cuesta.sizes = [64, 16, 64], cuesta.stages = 3 : i64} {
      return
    }

    // Nothing is left to halve.
    // CHECK-LABEL: func.func @least
    // CHECK-SAME: cuesta.blocks = [1], cuesta.parallel = [0]
    // THRICE-LABEL: func.func @least
    // THRICE-SAME: cuesta.blocks = [1], cuesta.parallel = [0]
    func.func @least(%x: tensor<64xf32>) attributes {cuesta.blocks = [1], cuesta.parallel = [0], cuesta.sizes = [64]} {
      return
    }
  }
}
