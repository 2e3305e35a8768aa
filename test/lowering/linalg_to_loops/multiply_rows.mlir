// RUN: cuesta-opt --pass-pipeline='builtin.module(multiply-rows{pairs=yes})' %s | filecheck %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(multiply-rows{pairs=no sums=24})' %s | filecheck %s --check-prefix=WIDE
// RUN: cuesta-opt --pass-pipeline='builtin.module(multiply-rows{pairs=no sums=6})' %s | filecheck %s --check-prefix=NARROW

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

module { module @kernels {

// Four rows: each vector of the weight is multiplied by one of each row, in pairs or widened once. The left factor is
// packed, vector by vector. Sums of 16 rows of the weight are added up across vectors together.
// CHECK-LABEL: func.func @pairs
// CHECK-SAME: (%[[A:.*]]: memref<4x64xbf16>, %[[W:.*]]: memref<2816x64xbf16>, %[[C:.*]]: memref<4x32xf32>, %[[I:.*]]: index)
// CHECK-DAG: %[[P:.*]] = memref.alloca() {alignment = 64 : i64} : memref<256xbf16>
// CHECK-DAG: %[[SUMS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<16x4x16xf32>
// CHECK: scf.for
// CHECK-COUNT-4: vector.store {{.*}}, %[[P]]
// CHECK: %[[S:.*]]:4 = scf.for
// CHECK: memref.prefetch %[[W]]
// CHECK: %[[Y:.*]] = vector.load {{.*}} : {{.*}}, vector<32xbf16>
// CHECK: %[[X:.*]] = vector.load %[[P]]
// CHECK: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"(%{{.*}}, %[[X]], %[[Y]])
// CHECK-COUNT-3: llvm.call_intrinsic
// CHECK-NOT: llvm.call_intrinsic
// CHECK-COUNT-4: vector.store {{.*}}, %[[SUMS]]
// CHECK-COUNT-30: vector.shuffle
// CHECK: vector.load %[[C]]
// CHECK: vector.store {{.*}}, %[[C]]
// CHECK-NOT: linalg.generic
// WIDE-LABEL: func.func @pairs
// WIDE: memref.alloca() {alignment = 64 : i64} : memref<256xf32>
// WIDE-NOT: llvm.call_intrinsic
// WIDE: scf.for {{.*}} to %c64{{.*}} step %c32
// WIDE: arith.extf {{.*}} : vector<16xbf16> to vector<16xf32>
// WIDE: vector.fma
// With few registers the two vectors of a cache line are added to the same sums.
// NARROW-LABEL: func.func @pairs
// NARROW: %[[S:.*]]:4 = scf.for {{.*}} to %c64{{.*}} step %c32
// NARROW-COUNT-8: vector.fma
// NARROW-NOT: vector.fma
// NARROW: scf.yield
func.func @pairs(%a: memref<4x64xbf16>, %w: memref<2816x64xbf16>, %c: memref<4x32xf32>, %i: index) {
  %b = memref.subview %w[%i, 0] [32, 64] [1, 1] : memref<2816x64xbf16> to memref<32x64xbf16, strided<[64, 1], offset: ?>>
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<4x64xbf16>, memref<32x64xbf16, strided<[64, 1], offset: ?>>) outs(%c : memref<4x32xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "4x32x64 by 4x1"} {
  ^bb0(%x: bf16, %y: bf16, %s: f32):
    %xf = arith.extf %x : bf16 to f32
    %yf = arith.extf %y : bf16 to f32
    %p = arith.mulf %xf, %yf : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
  return
}

// Six rows by two rows of the weight at a time, in two parts of K, the second of which fills no vector.
// CHECK-LABEL: func.func @parts
// CHECK: %[[S:.*]]:12 = scf.for
// CHECK-COUNT-12: llvm.call_intrinsic
// CHECK: vector.create_mask
// CHECK: vector.maskedload
// CHECK-COUNT-12: llvm.call_intrinsic
func.func @parts(%a: memref<6x90xbf16>, %b: memref<16x90xbf16>, %c: memref<6x16xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<6x90xbf16>, memref<16x90xbf16>) outs(%c : memref<6x16xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "6x16x64 by 6x2"} {
  ^bb0(%x: bf16, %y: bf16, %s: f32):
    %xf = arith.extf %x : bf16 to f32
    %yf = arith.extf %y : bf16 to f32
    %p = arith.mulf %xf, %yf : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
  return
}

// Where K depends on the call nothing is packed; the last vector is cut off.
// CHECK-LABEL: func.func @symbolic
// CHECK-SAME: (%[[A:.*]]: memref<2x?xbf16>
// CHECK: vector.load %[[A]]
// CHECK: vector.maskedload %[[A]]
func.func @symbolic(%a: memref<2x?xbf16>, %b: memref<16x?xbf16>, %c: memref<2x16xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<2x?xbf16>, memref<16x?xbf16>) outs(%c : memref<2x16xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "2x16x64 by 2x1"} {
  ^bb0(%x: bf16, %y: bf16, %s: f32):
    %xf = arith.extf %x : bf16 to f32
    %yf = arith.extf %y : bf16 to f32
    %p = arith.mulf %xf, %yf : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
  return
}

// Products in panels, and a weight that is not contiguous along K, are left.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT: scf.for
func.func @others(%a: memref<4x64xbf16>, %b: memref<64x32xbf16>, %f: memref<4x64xf32>, %g: memref<64x32xf32>, %c: memref<4x32xf32>) {
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<4x64xbf16>, memref<64x32xbf16>) outs(%c : memref<4x32xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "4x32x64 by 4x1"} {
  ^bb0(%x: bf16, %y: bf16, %s: f32):
    %xf = arith.extf %x : bf16 to f32
    %yf = arith.extf %y : bf16 to f32
    %p = arith.mulf %xf, %yf : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%f, %g : memref<4x64xf32>, memref<64x32xf32>) outs(%c : memref<4x32xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "4x32x64 by 4x32"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
  return
}

} }
