// RUN: cuesta-opt --pass-pipeline='builtin.module(tile-attention)' %s | filecheck %s

module { module @kernels {

// A tile is a head of k and v, with the queries of all four heads of q that share it. Elements of a head lie along
// vectors, bf16 is widened where it is loaded; scores of 16 keys are added up across vectors together, then weights of
// the four rows, then values. A block that the mask hides is passed over.
// CHECK-LABEL: func.func @grouped
// CHECK-SAME: (%[[Q:.*]]: memref<1x8x1x32xbf16>, %[[K:.*]]: memref<1x2x64x32xbf16>, %[[V:.*]]: memref<1x2x64x32xbf16>, %[[MASK:.*]]: memref<1x1x1x64xbf16>, %[[O:.*]]: memref<1x8x1x32xbf16>, %[[LSE:.*]]: memref<1x8x1xf32>)
// CHECK: scf.forall (%[[B:.*]], %[[H:.*]]) in (1, 2)
// CHECK: vector.load %[[Q]]
// CHECK: arith.extf {{.*}} : vector<16xbf16> to vector<16xf32>
// CHECK: vector.load %[[MASK]]
// CHECK: vector.reduction <or>
// CHECK: scf.if
// CHECK: memref.prefetch %[[K]][%[[B]], %[[H]],
// CHECK-COUNT-32: vector.load %[[K]][%[[B]], %[[H]],
// CHECK: vector.shuffle
// CHECK: vector.reduction <maxsi>
// CHECK: math.exp
// CHECK: vector.reduction <add>
// CHECK: memref.prefetch %[[V]]
// CHECK: %[[X:.*]] = vector.load %[[V]]
// CHECK: vector.fma
// CHECK: arith.divf
// CHECK: arith.truncf {{.*}} : vector<16xf32> to vector<16xbf16>
// CHECK: vector.store {{.*}}, %[[O]]
// CHECK: memref.store %{{.*}}, %[[LSE]]
// CHECK: cuesta.work
// CHECK-NOT: kernel.attention
func.func @grouped(%q: memref<1x8x1x32xbf16>, %k: memref<1x2x64x32xbf16>, %v: memref<1x2x64x32xbf16>, %mask: memref<1x1x1x64xbf16>,
                   %o: memref<1x8x1x32xbf16>, %lse: memref<1x8x1xf32>) {
  "kernel.attention"(%q, %k, %v, %mask, %o, %lse) {scale = 0.25 : f64, causal = 0 : i64, masked = 1 : i64, tile = "32 keys"}
    : (memref<1x8x1x32xbf16>, memref<1x2x64x32xbf16>, memref<1x2x64x32xbf16>, memref<1x1x1x64xbf16>, memref<1x8x1x32xbf16>, memref<1x8x1xf32>) -> ()
  return
}

// Keys that fill no vectors: the last one stands in for those behind it, and their scores are left out. Elements of a
// head that are not there are zeros.
// CHECK-LABEL: func.func @cut_off
// CHECK-SAME: (%[[Q:.*]]: memref<2x2x3x9xf32>, %[[K:[^:]*]]: memref<2x2x5x9xf32>,
// CHECK: vector.maskedload %[[Q]]
// CHECK: arith.minui
// CHECK-COUNT-16: vector.maskedload %[[K]]
// CHECK: vector.create_mask
// CHECK: arith.select
// CHECK: vector.maskedstore
func.func @cut_off(%q: memref<2x2x3x9xf32>, %k: memref<2x2x5x9xf32>, %v: memref<2x2x5x9xf32>, %o: memref<2x2x3x9xf32>, %lse: memref<2x2x3xf32>) {
  "kernel.attention"(%q, %k, %v, %o, %lse) {scale = 0.25 : f64, causal = 0 : i64, masked = 0 : i64, tile = "16 keys"}
    : (memref<2x2x3x9xf32>, memref<2x2x5x9xf32>, memref<2x2x5x9xf32>, memref<2x2x3x9xf32>, memref<2x2x3xf32>) -> ()
  return
}

}}
