// RUN: cuesta-opt --pass-pipeline='builtin.module(batch-rows)' %s | filecheck %s

#row = affine_map<(k) -> (k)>
#sum = affine_map<(k) -> ()>
#number = affine_map<() -> ()>

// CHECK-DAG: #[[ALONG:.*]] = affine_map<(d0) -> (d0)>
// CHECK-DAG: #[[WHOLE:.*]] = affine_map<(d0) -> ()>

module { module @kernels {

// What follows a row's sum is computed for up to 16 rows: of sums in scratch memory, of elements, and of a number.
// CHECK-LABEL: func.func @activation
// CHECK-SAME: (%[[W:.*]]: memref<64x32xf32>, %[[B:.*]]: memref<64xf32>, %[[S:.*]]: memref<f32>, %[[Y:.*]]: memref<2x64xf32>, %[[LOW:.*]]: index, %[[HIGH:.*]]: index)
// CHECK: %[[SUMS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<16xf32>
// CHECK: %[[SUM:.*]] = memref.alloca() : memref<f32>
// CHECK: scf.for %[[FIRST:.*]] = %[[LOW]] to %[[HIGH]] step %c16{{.*}} {
// CHECK: %[[LEFT:.*]] = arith.subi %[[HIGH]], %[[FIRST]]
// CHECK: %[[COUNT:.*]] = arith.minui %[[LEFT]], %c16
// CHECK: scf.for %[[R:.*]] = %c0{{.*}} to %[[COUNT]]
// CHECK: %[[I:.*]] = arith.addi %[[FIRST]], %[[R]]
// CHECK: %[[ROW:.*]] = memref.subview %[[W]][%[[I]], 0]
// CHECK: linalg.fill {{.*}} outs(%[[SUM]] :
// CHECK: linalg.generic {{.*}} ins(%[[ROW]] : {{.*}}) outs(%[[SUM]] :
// CHECK: %[[NUMBER:.*]] = memref.load %[[SUM]][]
// CHECK: memref.store %[[NUMBER]], %[[SUMS]][%[[R]]]
// CHECK: memref.subview %[[SUMS]][%{{.*}}] [%[[COUNT]]] [1]
// CHECK: memref.subview %[[B]][%[[FIRST]]] [%[[COUNT]]] [1]
// CHECK: memref.subview %[[Y]][%{{.*}}, %[[FIRST]]] [1, %[[COUNT]]] [1, 1] : memref<2x64xf32> to memref<?xf32, strided<[1], offset: ?>>
// CHECK: linalg.generic {indexing_maps = [#[[ALONG]], #[[ALONG]], #[[WHOLE]], #[[ALONG]]], iterator_types = ["parallel"]}
// CHECK: math.exp
// CHECK: return
func.func @activation(%w: memref<64x32xf32>, %b: memref<64xf32>, %s: memref<f32>, %y: memref<2x64xf32>, %low: index, %high: index) {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %sum = memref.alloca() : memref<f32>
  scf.for %i = %low to %high step %c1 {
    %row = memref.subview %w[%i, 0] [1, 32] [1, 1] : memref<64x32xf32> to memref<32xf32, strided<[1], offset: ?>>
    linalg.fill ins(%zero : f32) outs(%sum : memref<f32>)
    linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["reduction"]} ins(%row : memref<32xf32, strided<[1], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%a: f32, %t: f32):
      %u = arith.addf %t, %a : f32
      linalg.yield %u : f32
    }
    %bias = memref.subview %b[%i] [1] [1] : memref<64xf32> to memref<f32, strided<[], offset: ?>>
    %to = memref.subview %y[1, %i] [1, 1] [1, 1] : memref<2x64xf32> to memref<f32, strided<[], offset: ?>>
    linalg.generic {indexing_maps = [#number, #number, #number, #number], iterator_types = []} ins(%sum, %bias, %s : memref<f32>, memref<f32, strided<[], offset: ?>>, memref<f32>) outs(%to : memref<f32, strided<[], offset: ?>>) {
    ^bb0(%a: f32, %c: f32, %d: f32, %o: f32):
      %t = arith.addf %a, %c : f32
      %u = arith.mulf %t, %d : f32
      %v = math.exp %u : f32
      linalg.yield %v : f32
    }
  }
  return
}

// The next row's sum begins with what this row has written: no batches.
// CHECK-LABEL: func.func @running
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c1
// CHECK-NOT: scf.for
// CHECK: return
func.func @running(%w: memref<64x32xf32>, %y: memref<64xf32>, %low: index, %high: index) {
  %c1 = arith.constant 1 : index
  %sum = memref.alloca() : memref<f32>
  scf.for %i = %low to %high step %c1 {
    %row = memref.subview %w[%i, 0] [1, 32] [1, 1] : memref<64x32xf32> to memref<32xf32, strided<[1], offset: ?>>
    %before = memref.subview %y[0] [1] [1] : memref<64xf32> to memref<f32, strided<[]>>
    memref.copy %before, %sum : memref<f32, strided<[]>> to memref<f32>
    linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["reduction"]} ins(%row : memref<32xf32, strided<[1], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%a: f32, %t: f32):
      %u = arith.addf %t, %a : f32
      linalg.yield %u : f32
    }
    %to = memref.subview %y[%i] [1] [1] : memref<64xf32> to memref<f32, strided<[], offset: ?>>
    linalg.generic {indexing_maps = [#number, #number], iterator_types = []} ins(%sum : memref<f32>) outs(%to : memref<f32, strided<[], offset: ?>>) {
    ^bb0(%a: f32, %o: f32):
      %t = math.exp %a : f32
      linalg.yield %t : f32
    }
  }
  return
}

// A position that counts from the tile's first is computed in the tile.
// CHECK-LABEL: func.func @positions
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c1
// CHECK-NOT: scf.for
// CHECK: return
func.func @positions(%w: memref<64x32xi64>, %y: memref<64xi64>, %low: index, %high: index) {
  %c1 = arith.constant 1 : index
  %sum = memref.alloca() : memref<i64>
  scf.for %i = %low to %high step %c1 {
    %row = memref.subview %w[%i, 0] [1, 32] [1, 1] : memref<64x32xi64> to memref<32xi64, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["reduction"]} ins(%row : memref<32xi64, strided<[1], offset: ?>>) outs(%sum : memref<i64>) {
    ^bb0(%a: i64, %t: i64):
      %u = arith.minsi %t, %a : i64
      linalg.yield %u : i64
    }
    %to = memref.subview %y[%i] [1] [1] : memref<64xi64> to memref<i64, strided<[], offset: ?>>
    linalg.generic {indexing_maps = [#number, #number], iterator_types = []} ins(%sum : memref<i64>) outs(%to : memref<i64, strided<[], offset: ?>>) {
    ^bb0(%a: i64, %o: i64):
      %p = arith.index_cast %i : index to i64
      %t = arith.addi %a, %p : i64
      linalg.yield %t : i64
    }
  }
  return
}

// Two results of one op: the first is read by the next row's sum.
// CHECK-LABEL: func.func @two_results
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c1
// CHECK-NOT: scf.for
// CHECK: return
func.func @two_results(%w: memref<64x32xf32>, %y: memref<64xf32>, %z: memref<64xf32>, %low: index, %high: index) {
  %c1 = arith.constant 1 : index
  %sum = memref.alloca() : memref<f32>
  scf.for %i = %low to %high step %c1 {
    %row = memref.subview %w[%i, 0] [1, 32] [1, 1] : memref<64x32xf32> to memref<32xf32, strided<[1], offset: ?>>
    %before = memref.subview %y[0] [1] [1] : memref<64xf32> to memref<f32, strided<[]>>
    memref.copy %before, %sum : memref<f32, strided<[]>> to memref<f32>
    linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["reduction"]} ins(%row : memref<32xf32, strided<[1], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%a: f32, %t: f32):
      %u = arith.addf %t, %a : f32
      linalg.yield %u : f32
    }
    %to = memref.subview %y[%i] [1] [1] : memref<64xf32> to memref<f32, strided<[], offset: ?>>
    %too = memref.subview %z[%i] [1] [1] : memref<64xf32> to memref<f32, strided<[], offset: ?>>
    linalg.generic {indexing_maps = [#number, #number, #number], iterator_types = []} ins(%sum : memref<f32>) outs(%to, %too : memref<f32, strided<[], offset: ?>>, memref<f32, strided<[], offset: ?>>) {
    ^bb0(%a: f32, %o: f32, %p: f32):
      %t = math.exp %a : f32
      linalg.yield %t, %a : f32, f32
    }
  }
  return
}
} }
