// RUN: cuesta-opt --pass-pipeline='builtin.module(transpose-tiles,canonicalize)' %s | filecheck %s

module { module @kernels {

// Squares of 16 x 16; the last ones of a side reach back. Of what is written in memory 16 rows are, then the next.
// CHECK-LABEL: func.func @squares
// CHECK-SAME: (%[[X:.*]]: memref<32x40xf32, strided<[1024, 1]>>, %[[Y:.*]]: memref<40x32xf32>)
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C40:.*]] = arith.constant 40 : index
// CHECK-DAG: %[[C16:.*]] = arith.constant 16 : index
// CHECK-DAG: %[[C24:.*]] = arith.constant 24 : index
// CHECK-DAG: %[[C32:.*]] = arith.constant 32 : index
// CHECK: scf.for %[[J:.*]] = %[[C0]] to %[[C40]] step %[[C16]]
// CHECK: %[[LAST:.*]] = arith.minui %[[J]], %[[C24]]
// CHECK: scf.for %[[I:.*]] = %[[C0]] to %[[C32]] step %[[C16]]
// CHECK: %[[AT:.*]] = arith.minui %[[I]], %[[C16]]
// CHECK-COUNT-16: vector.load %[[X]][%{{.*}}, %[[LAST]]] : memref<32x40xf32, strided<[1024, 1]>>, vector<16xf32>
// CHECK-COUNT-64: vector.shuffle
// CHECK-COUNT-16: vector.store %{{.*}}, %[[Y]][%{{.*}}, %[[AT]]]
// CHECK-NOT: linalg.transpose
func.func @squares(%x: memref<32x40xf32, strided<[1024, 1]>>, %y: memref<40x32xf32>) {
  linalg.transpose ins(%x : memref<32x40xf32, strided<[1024, 1]>>) outs(%y : memref<40x32xf32>) permutation = [1, 0]
  return
}

// What is read is gone through once, row by row, where the squares go to the stack.
// CHECK-LABEL: func.func @to_the_stack
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C32:.*]] = arith.constant 32 : index
// CHECK-DAG: %[[C16:.*]] = arith.constant 16 : index
// CHECK-DAG: %[[C48:.*]] = arith.constant 48 : index
// CHECK: scf.for %{{.*}} = %[[C0]] to %[[C32]] step %[[C16]]
// CHECK: scf.for %{{.*}} = %[[C0]] to %[[C48]] step %[[C16]]
func.func @to_the_stack(%x: memref<32x48xf32>, %z: memref<f32>) {
  %y = memref.alloca() : memref<48x32xf32>
  linalg.transpose ins(%x : memref<32x48xf32>) outs(%y : memref<48x32xf32>) permutation = [1, 0]
  %zero = arith.constant 0 : index
  %0 = memref.load %y[%zero, %zero] : memref<48x32xf32>
  memref.store %0, %z[] : memref<f32>
  return
}

// A short side is masked, and 8 elements of f64 fill a vector. Other dims are loops.
// CHECK-LABEL: func.func @short
// CHECK-SAME: (%[[X:.*]]: memref<3x5x8xf64>, %[[Y:.*]]: memref<5x8x3xf64>)
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C5:.*]] = arith.constant 5 : index
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK: scf.for %[[D:.*]] = %[[C0]] to %[[C5]] step %[[C1]]
// CHECK: %[[MASK:.*]] = vector.constant_mask [3] : vector<8xi1>
// CHECK-COUNT-3: vector.load %[[X]][%{{.*}}, %[[D]], %{{.*}}] : memref<3x5x8xf64>, vector<8xf64>
// CHECK-NOT: vector.load
// CHECK-COUNT-8: vector.maskedstore %[[Y]][%[[D]], %{{.*}}, %{{.*}}], %[[MASK]]
func.func @short(%x: memref<3x5x8xf64>, %y: memref<5x8x3xf64>) {
  linalg.transpose ins(%x : memref<3x5x8xf64>) outs(%y : memref<5x8x3xf64>) permutation = [1, 2, 0]
  return
}

// Of sizes that depend on the call squares are for those as long as a vector.
// CHECK-LABEL: func.func @symbolic
// CHECK: %[[LONG:.*]] = arith.andi
// CHECK: scf.if %[[LONG]]
// CHECK: vector.load
// CHECK-NOT: mask
// CHECK: else
// CHECK-NEXT: linalg.transpose
func.func @symbolic(%x: memref<?x?xi16>, %y: memref<?x?xi16>) {
  linalg.transpose ins(%x : memref<?x?xi16>) outs(%y : memref<?x?xi16>) permutation = [1, 0]
  return
}

// A vector of bits is no row of bools.
// CHECK-LABEL: func.func @bools
// CHECK-NEXT: linalg.transpose
func.func @bools(%x: memref<32x32xi1>, %y: memref<32x32xi1>) {
  linalg.transpose ins(%x : memref<32x32xi1>) outs(%y : memref<32x32xi1>) permutation = [1, 0]
  return
}

} }
