// RUN: cuesta-opt --pass-pipeline='builtin.module(full-tiles)' %s | filecheck %s

module {
  module @kernels {
    // Whole tiles have a number as bound; what is left over, and all of a size without whole ones, is @strips__rest's.
    // CHECK-LABEL: func.func @strips__rest(
    // CHECK-NOT: cuesta.tiles
    // CHECK: %[[LEFT:.*]] = arith.minsi
    // CHECK-NOT: scf.if
    // CHECK: scf.for %{{.*}} = %{{.*}} to %[[LEFT]]
    // CHECK-LABEL: func.func @strips__tiles(
    // CHECK-SAME: %[[X:.*]]: memref<f32>, %[[N:[^:]*]]: index, %[[LO:[^:]*]]: index, %[[HI:[^:]*]]: index)
    // CHECK-SAME: attributes {cuesta.tiles = "1", cuesta.work = "p0"}
    // CHECK-DAG: %[[C64:.*]] = arith.constant 64 : index
    // CHECK: %[[NONE:.*]] = arith.cmpi slt, %[[N]], %[[C64]]
    // CHECK: scf.if %[[NONE]] {
    // CHECK-NEXT: call @strips__rest(%[[X]], %[[N]], %[[LO]], %[[HI]])
    // CHECK-NEXT: } else {
    // CHECK: scf.for %[[TILE:.*]] = %[[LO]] to %[[HI]]
    // CHECK: %[[LEFT:.*]] = arith.minsi
    // CHECK: %[[WIDTH:.*]] = arith.constant 64 : index
    // CHECK: %[[WHOLE:.*]] = arith.cmpi eq, %[[LEFT]], %[[WIDTH]]
    // CHECK: scf.if %[[WHOLE]] {
    // CHECK-NEXT: memref.subview {{.*}} [%[[LEFT]]] [1]
    // CHECK-NEXT: scf.for %{{.*}} = %{{.*}} to %[[WIDTH]]
    // CHECK: } else {
    // CHECK: %[[NEXT:.*]] = arith.addi %[[TILE]],
    // CHECK-NEXT: call @strips__rest(%[[X]], %[[N]], %[[TILE]], %[[NEXT]])
    // CHECK: return
    func.func @strips__tiles(%x: memref<f32>, %n: index, %lo: index, %hi: index)
        attributes {cuesta.tiles = "1", cuesta.work = "p0"} {
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

    // A view with fewer dims than its source keeps its sizes too: the verifier refuses it with a constant for one.
    // CHECK-LABEL: func.func @planes__tiles(
    // CHECK: %[[LEFT:.*]] = arith.minsi
    // CHECK: memref.subview {{.*}} [1, 1, %[[LEFT]]]
    // CHECK: scf.for %{{.*}} = %{{.*}} to %{{c64.*}} step
    func.func @planes__tiles(%x: memref<f32>, %n: index, %lo: index, %hi: index)
        attributes {cuesta.tiles = "1", cuesta.work = "p0"} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %v = arith.constant 1.0 : f32
      %all = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 1, %n], strides: [%n, %n, 1]
        : memref<f32> to memref<?x1x?xf32, strided<[?, ?, 1]>>
      scf.for %i = %lo to %hi step %c1 {
        %start = arith.muli %i, %c64 : index
        %rest = arith.subi %n, %start : index
        %width = arith.minsi %rest, %c64 : index
        %part = memref.subview %all[%i, 0, %start] [1, 1, %width] [1, 1, 1]
          : memref<?x1x?xf32, strided<[?, ?, 1]>> to memref<1x?xf32, strided<[?, 1], offset: ?>>
        scf.for %j = %c0 to %width step %c1 {
          memref.store %v, %part[%c0, %j] : memref<1x?xf32, strided<[?, 1], offset: ?>>
        }
      }
      return
    }

    // Rows that are as long as an argument says are not cut into tiles.
    // CHECK-NOT: func.func @rows__rest(
    // CHECK-LABEL: func.func @rows__tiles(
    // CHECK-NOT: scf.if
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
  }
}
