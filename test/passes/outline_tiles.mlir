// RUN: cuesta-opt --pass-pipeline='builtin.module(outline-tiles)' %s | filecheck %s

// CHECK: #[[VECTORS:.*]] = #llvm.loop_vectorize<disable = true>
// CHECK: #[[ONE_BY_ONE:.*]] = #llvm.loop_annotation<vectorize = #[[VECTORS]]>
module {
  module @kernels {
    // CHECK-LABEL: func.func @k__tail(
    // CHECK-SAME: %[[X:.*]]: memref<8x4xf32> {llvm.noalias}, %[[S:.*]]: memref<f32> {llvm.noalias})
    // CHECK-NOT: scf.for
    // CHECK: memref.store %{{.*}}, %[[S]][]
    // CHECK-LABEL: func.func @k__tiles(
    // CHECK-SAME: %{{.*}}: memref<8x4xf32> {llvm.noalias}, %{{.*}}: memref<f32> {llvm.noalias}, %[[LO:.*]]: index, %[[HI:.*]]: index)
    // CHECK-SAME: cuesta.tiles = 4 : i64, cuesta.work = 100 : i64
    // CHECK: scf.for %[[T:.*]] = %[[LO]] to %[[HI]]
    // CHECK: %[[I:.*]] = arith.muli %[[T]], %{{.*}}
    // CHECK: memref.store %{{.*}}, %{{.*}}[%[[I]], %{{.*}}]
    // CHECK: } {llvm.loop_annotation = #[[ONE_BY_ONE]]}
    // CHECK: return
    func.func @k(%x: memref<8x4xf32>, %s: memref<f32>) -> memref<f32> {
      %c0 = arith.constant 0 : index
      %one = arith.constant 1.0 : f32
      scf.forall (%i) = (0) to (8) step (2) {
        memref.store %one, %x[%i, %c0] : memref<8x4xf32>
      } {cuesta.work = 100 : i64}
      memref.store %one, %s[] : memref<f32>
      return %s : memref<f32>
    }

    // Positions: vectors may be made across rows.
    // CHECK-LABEL: func.func @first__tiles(
    // CHECK: scf.for
    // CHECK-NOT: llvm.loop_annotation
    func.func @first(%x: memref<8x4xi32>, %s: memref<8xi32>) -> memref<8xi32> {
      scf.forall (%i) = (0) to (8) step (1) {
        %row = memref.subview %x[%i, 0] [1, 4] [1, 1] : memref<8x4xi32> to memref<4xi32, strided<[1], offset: ?>>
        %to = memref.subview %s[%i] [1] [1] : memref<8xi32> to memref<i32, strided<[], offset: ?>>
        linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
            ins(%row : memref<4xi32, strided<[1], offset: ?>>) outs(%to : memref<i32, strided<[], offset: ?>>) {
        ^bb0(%in: i32, %out: i32):
          %0 = linalg.index 0 : index
          %1 = arith.index_cast %0 : index to i32
          %2 = arith.maxsi %in, %1 : i32
          %3 = arith.minsi %2, %out : i32
          linalg.yield %3 : i32
        }
      } {cuesta.work = 100 : i64}
      return %s : memref<8xi32>
    }

    // Upstream's canonicalisation drops dims of one tile, here a batch of 1, which cuesta.tiles still counts.
    // CHECK-LABEL: func.func @one_batch__tiles
    // CHECK-SAME: cuesta.tiles = "4*p0"
    // CHECK: %[[HEAD:.*]] = arith.divui %{{.*}}, %
    // CHECK: memref.store %{{.*}}, %{{.*}}[%[[HEAD]]]
    func.func @one_batch(%x: memref<4xf32>, %n: index) {
      %one = arith.constant 1.0 : f32
      scf.forall (%head, %panel) in (4, %n) {
        memref.store %one, %x[%head] : memref<4xf32>
      } {cuesta.tiles = [1, 4, "p0"], cuesta.work = 100 : i64}
      return
    }
  }
}
