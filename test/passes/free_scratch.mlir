// RUN: cuesta-opt --pass-pipeline='builtin.module(free-scratch)' %s | filecheck %s

// What a kernel allocates is freed where the block that it stands in ends; the stack's needs nothing.
module {
  module @kernels {
    // CHECK-LABEL: func.func @k__tiles(
    // CHECK: %[[ROW:.*]] = memref.alloc(%{{.*}})
    // CHECK: memref.alloca()
    // CHECK: scf.for
    // CHECK: %[[INNER:.*]] = memref.alloc(
    // CHECK: memref.dealloc %[[INNER]]
    // CHECK-NEXT: }
    // CHECK: memref.dealloc %[[ROW]]
    // CHECK-NEXT: return
    func.func @k__tiles(%p0: index, %lo: index, %hi: index) {
      %one = arith.constant 1 : index
      %row = memref.alloc(%p0) : memref<?xf32>
      %small = memref.alloca() : memref<64xf32>
      scf.for %i = %lo to %hi step %one {
        %inner = memref.alloc(%i) : memref<?xf32>
      }
      return
    }
  }
}
