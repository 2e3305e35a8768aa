// RUN: cuesta-opt --pass-pipeline='builtin.module(tile-attention)' %s | filecheck %s

module { module @kernels {

// A tile is a panel of 32 queries of a head. Queries are turned round, scaled; keys up to the panel's last query are
// walked in blocks of 16, 8 at a time: their scores, what a query does not see left out, then weights and values.
// CHECK-LABEL: func.func @causal
// CHECK-SAME: (%[[Q:.*]]: memref<1x2x64x16xf32>, %[[K:.*]]: memref<1x1x64x16xf32>, %[[V:.*]]: memref<1x1x64x16xf32>, %[[O:.*]]: memref<1x2x64x16xf32>, %[[LSE:.*]]: memref<1x2x64xf32>)
// CHECK-DAG: %[[QT:.*]] = memref.alloca() {alignment = 64 : i64} : memref<16x32xf32>
// CHECK: scf.forall (%[[B:.*]], %[[H:.*]], %[[I:.*]]) in (1, 2, 2)
// CHECK: %[[KH:.*]] = arith.divui %[[H]], %{{.*}}
// CHECK-COUNT-16: vector.load %[[Q]]
// CHECK-COUNT-64: vector.shuffle
// CHECK: arith.mulf
// CHECK: %[[END:.*]] = arith.minui
// CHECK: scf.for %[[N:.*]] = %{{.*}} to %[[END]]
// CHECK: scf.for
// CHECK: %[[S:.*]]:16 = scf.for
// CHECK-COUNT-2: vector.load
// CHECK: memref.load %[[K]][%[[B]], %[[KH]],
// CHECK-NEXT: vector.broadcast
// CHECK-COUNT-2: vector.fma
// CHECK: arith.cmpi sle
// CHECK: arith.select
// CHECK: vector.store
// CHECK: arith.cmpf ogt
// CHECK: math.exp
// CHECK: scf.for
// CHECK: math.exp
// CHECK: memref.load %[[V]][%[[B]], %[[KH]],
// CHECK: math.log
// CHECK: memref.store %{{.*}}, %[[LSE]]
// CHECK-COUNT-64: vector.shuffle
// CHECK-COUNT-16: vector.store %{{.*}}, %[[O]]
// CHECK: cuesta.work
// CHECK-NOT: kernel.attention
func.func @causal(%q: memref<1x2x64x16xf32>, %k: memref<1x1x64x16xf32>, %v: memref<1x1x64x16xf32>,
                  %o: memref<1x2x64x16xf32>, %lse: memref<1x2x64xf32>) {
  "kernel.attention"(%q, %k, %v, %o, %lse) {scale = 0.25 : f64, causal = 1 : i64, masked = 0 : i64, tile = "32x16 by 8"}
    : (memref<1x2x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x2x64x16xf32>, memref<1x2x64xf32>) -> ()
  return
}

// Sizes that fill no vectors: queries that are not there are neither read nor written, the last key stands in for those
// behind it. A mask that says what is seen is turned round, 16 by 16.
// CHECK-LABEL: func.func @cut_off
// CHECK-SAME: (%[[Q:.*]]: memref<2x2x7x9xf32>, %[[K:.*]]: memref<2x2x5x9xf32>, %{{.*}}: memref<2x2x5x9xf32>, %[[MASK:.*]]: memref<2x1x7x5xi8>,
// CHECK-COUNT-16: vector.maskedload %[[Q]]
// CHECK: vector.maskedload %[[MASK]]
// CHECK: arith.cmpi ne
// CHECK: arith.select
// CHECK: %[[SEEN:.*]] = vector.reduction <or>
// CHECK: arith.ori %{{.*}}, %[[SEEN]]
// CHECK: scf.if
// CHECK: arith.minui
// CHECK: memref.load %[[K]]
// CHECK: vector.maskedstore
func.func @cut_off(%q: memref<2x2x7x9xf32>, %k: memref<2x2x5x9xf32>, %v: memref<2x2x5x9xf32>, %mask: memref<2x1x7x5xi8>,
                   %o: memref<2x2x7x9xf32>, %lse: memref<2x2x7xf32>) {
  "kernel.attention"(%q, %k, %v, %mask, %o, %lse)
    {scale = 0.25 : f64, causal = 0 : i64, masked = 1 : i64, tile = "16x8 by 8"}
    : (memref<2x2x7x9xf32>, memref<2x2x5x9xf32>, memref<2x2x5x9xf32>, memref<2x1x7x5xi8>, memref<2x2x7x9xf32>, memref<2x2x7xf32>) -> ()
  return
}

// A tile is a head of keys: the heads of queries that share it, and their panels, follow one another.
// CHECK-LABEL: func.func @gradients
// CHECK-SAME: %[[DQ:[^:]*]]: memref<1x2x16x16xf32>, %[[DK:[^:]*]]: memref<1x1x16x16xf32>, %[[DV:[^:]*]]: memref<1x1x16x16xf32>)
// CHECK: scf.forall (%{{.*}}, %{{.*}}) in (1, 1)
// CHECK: vector.store %{{.*}}, %[[DK]]
// CHECK: vector.store %{{.*}}, %[[DV]]
// CHECK: scf.for
// CHECK: scf.for
// CHECK: math.exp
// CHECK: vector.load %[[DV]]
// CHECK: vector.store %{{.*}}, %[[DV]]
// CHECK: vector.load %[[DK]]
// CHECK: vector.store %{{.*}}, %[[DK]]
// CHECK: vector.store %{{.*}}, %[[DQ]]
func.func @gradients(%grad: memref<1x2x16x16xf32>, %q: memref<1x2x16x16xf32>, %k: memref<1x1x16x16xf32>,
                     %v: memref<1x1x16x16xf32>, %o: memref<1x2x16x16xf32>, %lse: memref<1x2x16xf32>,
                     %dq: memref<1x2x16x16xf32>, %dk: memref<1x1x16x16xf32>, %dv: memref<1x1x16x16xf32>) {
  "kernel.attention_backward"(%grad, %q, %k, %v, %o, %lse, %dq, %dk, %dv)
    {scale = 0.25 : f64, causal = 0 : i64, masked = 0 : i64, tile = "16x16 by 8"}
    : (memref<1x2x16x16xf32>, memref<1x2x16x16xf32>, memref<1x1x16x16xf32>, memref<1x1x16x16xf32>, memref<1x2x16x16xf32>,
       memref<1x2x16xf32>, memref<1x2x16x16xf32>, memref<1x1x16x16xf32>, memref<1x1x16x16xf32>) -> ()
  return
}

// Sizes and strides of a call are the kernel's parameters: whether there is a query is asked of the last panel's, and
// the last key stands in for those behind it.
// CHECK-LABEL: func.func @of_a_call
// CHECK-SAME: (%[[Q:[^:]*]]: memref<?x2x?x16xf32, {{.*}}, %[[P0:[^:]*]]: index, %[[P1:[^:]*]]: index, %{{.*}}: index)
// CHECK: %[[UP:.*]] = arith.addi %[[P1]], %{{.*}}
// CHECK: %[[PANELS:.*]] = arith.{{.*}}div{{.*}} %[[UP]],
// CHECK: scf.forall (%{{.*}}, %{{.*}}, %{{.*}}) in (%[[P0]], 2, %[[PANELS]])
// CHECK: arith.cmpi ult, %{{.*}}, %[[P1]]
// CHECK: vector.maskedload %[[Q]]
// CHECK: arith.minui
// CHECK: cuesta.tiles = ["p0", 2, {{.*}}], cuesta.work = "{{.*}}p0*p1
func.func @of_a_call(%q: memref<?x2x?x16xf32, strided<[?, 16, 32, 1]>, {at = ["p0", "p1", "p2"]}>,
                     %o: memref<?x2x?x16xf32, strided<[?, 16, 32, 1]>, {at = ["p0", "p1", "p2"]}>,
                     %lse: memref<?x2x?xf32, {at = ["p0", "p1"]}>, %p0: index, %p1: index, %p2: index) {
  "kernel.attention"(%q, %q, %q, %o, %lse) {scale = 0.25 : f64, causal = 0 : i64, masked = 0 : i64, tile = "32x16 by 8"}
    : (memref<?x2x?x16xf32, strided<[?, 16, 32, 1]>, {at = ["p0", "p1", "p2"]}>,
       memref<?x2x?x16xf32, strided<[?, 16, 32, 1]>, {at = ["p0", "p1", "p2"]}>,
       memref<?x2x?x16xf32, strided<[?, 16, 32, 1]>, {at = ["p0", "p1", "p2"]}>,
       memref<?x2x?x16xf32, strided<[?, 16, 32, 1]>, {at = ["p0", "p1", "p2"]}>, memref<?x2x?xf32, {at = ["p0", "p1"]}>) -> ()
  return
}

}}
