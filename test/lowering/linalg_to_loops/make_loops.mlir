// RUN: cuesta-opt --pass-pipeline='builtin.module(make-loops)' %s | filecheck %s

#map = affine_map<(d0) -> (d0)>
module {
  module @kernels {
    // CHECK-LABEL: func.func @fixed(
    // CHECK: affine.for %{{.*}} = 0 to 64
    func.func @fixed(%x: memref<64xf32>, %o: memref<64xf32>) {
      linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%x : memref<64xf32>) outs(%o : memref<64xf32>) {
      ^bb0(%a: f32, %b: f32):
        linalg.yield %a : f32
      }
      return
    }

    // A kernel that is passed sizes: what is left of a tile is no bound that affine loops may have.
    // CHECK-LABEL: func.func @sized(
    // CHECK: %[[X:.*]] = memref.reinterpret_cast
    // CHECK: scf.for
    // CHECK: %[[LEFT:.*]] = arith.minsi
    // CHECK: memref.subview
    // CHECK-NOT: affine.for
    // CHECK: scf.for
    func.func @sized(%m: memref<f32>, %p0: index, %lo: index, %hi: index) {
      %x = memref.reinterpret_cast %m to offset: [0], sizes: [%p0], strides: [1] : memref<f32> to memref<?xf32, strided<[1]>>
      %one = arith.constant 1 : index
      %tile = arith.constant 4096 : index
      %zero = arith.constant 0.0 : f32
      scf.for %i = %lo to %hi step %one {
        %start = arith.muli %i, %tile : index
        %rest = arith.subi %p0, %start : index
        %left = arith.minsi %tile, %rest : index
        %run = memref.subview %x[%start] [%left] [1] : memref<?xf32, strided<[1]>> to memref<?xf32, strided<[1], offset: ?>>
        linalg.fill ins(%zero : f32) outs(%run : memref<?xf32, strided<[1], offset: ?>>)
      }
      return
    }
  }
}
