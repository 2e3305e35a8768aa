// RUN: cuesta-opt --pass-pipeline='builtin.module(version-sizes)' %s | filecheck %s

module {
  module @kernels {
    // A row as long as an argument says: a version for rows that fill vectors, and the kernel chooses.
    // CHECK-LABEL: func.func @rows__aligned(
    // CHECK-SAME: %[[X:.*]]: memref<f32>, %[[N:[^:]*]]: index, %[[LO:[^:]*]]: index, %[[HI:[^:]*]]: index) {
    // CHECK: %[[LANES:.*]] = arith.constant 16 : index
    // CHECK: %[[COUNT:.*]] = arith.divui %[[N]], %[[LANES]]
    // CHECK: %[[EVEN:.*]] = arith.muli %[[COUNT]], %[[LANES]]
    // CHECK: memref.reinterpret_cast {{.*}} sizes: [%[[EVEN]]]
    // CHECK: scf.for %{{.*}} = %[[LO]] to %[[HI]]
    // CHECK: scf.for %{{.*}} = %{{.*}} to %[[EVEN]]
    // CHECK-LABEL: func.func @rows__tiles(
    // CHECK-SAME: %[[X:.*]]: memref<f32>, %[[N:[^:]*]]: index
    // CHECK-SAME: attributes {cuesta.tiles = "1", cuesta.work = "p0"}
    // CHECK: %[[REST:.*]] = arith.remui %[[N]],
    // CHECK: %[[FITS:.*]] = arith.cmpi eq, %[[REST]],
    // CHECK: scf.if %[[FITS]] {
    // CHECK-NEXT: call @rows__aligned(%[[X]], %[[N]], %{{.*}}, %{{.*}})
    // CHECK-NEXT: } else {
    // CHECK: scf.for %{{.*}} = %{{.*}} to %[[N]]
    // CHECK: }
    // CHECK: return
    func.func @rows__tiles(%x: memref<f32>, %n: index, %lo: index, %hi: index)
        attributes {cuesta.tiles = "1", cuesta.work = "p0"} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %v = arith.constant 1.0 : f32
      %row = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1]
        : memref<f32> to memref<?xf32, strided<[1]>>
      scf.for %i = %lo to %hi step %c1 {
        scf.for %j = %c0 to %n step %c1 {
          memref.store %v, %row[%j] : memref<?xf32, strided<[1]>>
        }
      }
      return
    }

    // So is what is left over of it for a tile.
    // CHECK-LABEL: func.func @tile__rest__aligned(
    // CHECK-SAME: %[[X:.*]]: memref<f32>, %[[N:[^:]*]]: index
    // CHECK: %[[EVEN:.*]] = arith.muli
    // CHECK: arith.subi %[[EVEN]],
    // CHECK-LABEL: func.func @tile__rest(
    // CHECK: scf.if %{{.*}} {
    // CHECK-NEXT: call @tile__rest__aligned(
    func.func @tile__rest(%x: memref<f32>, %n: index, %lo: index, %hi: index) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %v = arith.constant 1.0 : f32
      %all = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1]
        : memref<f32> to memref<?xf32, strided<[1]>>
      scf.for %i = %lo to %hi step %c1 {
        %start = arith.muli %i, %c64 : index
        %rest = arith.subi %n, %start : index
        %width = arith.minsi %rest, %c64 : index
        %part = memref.subview %all[%start] [%width] [1]
          : memref<?xf32, strided<[1]>> to memref<?xf32, strided<[1], offset: ?>>
        scf.for %j = %c0 to %width step %c1 {
          memref.store %v, %part[%j] : memref<?xf32, strided<[1], offset: ?>>
        }
      }
      return
    }

    // A bound that is computed otherwise says nothing of vectors; one that is a number needs nothing.
    // CHECK-NOT: func.func @neither__aligned(
    // CHECK-LABEL: func.func @neither__tiles(
    // CHECK-NOT: scf.if
    func.func @neither__tiles(%x: memref<f32>, %n: index, %lo: index, %hi: index)
        attributes {cuesta.tiles = "1", cuesta.work = "p0"} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %v = arith.constant 1.0 : f32
      %all = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1]
        : memref<f32> to memref<?xf32, strided<[1]>>
      scf.for %i = %lo to %hi step %c1 {
        %rest = arith.subi %n, %i : index
        scf.for %j = %c0 to %rest step %c1 {
          memref.store %v, %all[%j] : memref<?xf32, strided<[1]>>
        }
        scf.for %j = %c0 to %c64 step %c1 {
          memref.store %v, %all[%j] : memref<?xf32, strided<[1]>>
        }
      }
      return
    }
  }
}
