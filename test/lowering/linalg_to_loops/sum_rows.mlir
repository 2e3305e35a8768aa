// RUN: cuesta-opt --pass-pipeline='builtin.module(sum-rows)' %s | filecheck %s

#row = affine_map<(k) -> (k)>
#one = affine_map<(k) -> ()>
#elements = affine_map<(g, k) -> (g, k)>
#groups = affine_map<(g, k) -> (g)>
#none = affine_map<(g, k) -> ()>

module { module @kernels {

// A row of bf16 by a vector that is widened once for all rows: four sums in registers, and the rows 8 KB behind asked
// for, a cache line at a time. The last row stands in for those behind it.
// CHECK-LABEL: func.func @product
// CHECK-SAME: (%[[X:.*]]: memref<1024xbf16>, %[[W:.*]]: memref<2816x1024xbf16>, %[[SUM:.*]]: memref<f32>, %[[N:.*]]: index)
// CHECK: %[[WIDE:.*]] = memref.alloca() {alignment = 64 : i64} : memref<1024xf32>
// CHECK: linalg.generic {{.*}} ins(%[[X]] : memref<1024xbf16>) outs(%[[WIDE]] : memref<1024xf32>)
// CHECK: scf.for %[[I:.*]] =
// CHECK: %[[ROW:.*]] = memref.subview %[[W]][%[[I]], 0] [1, 1024] [1, 1]
// CHECK: %[[S:.*]]:4 = scf.for %[[K:.*]] = {{.*}} iter_args(
// CHECK: %[[AHEAD:.*]] = arith.addi %[[I]], %{{.*}}
// CHECK: %[[BEHIND:.*]] = arith.minui %[[AHEAD]],
// CHECK: memref.prefetch %[[W]][%[[BEHIND]], %[[K]]], read, locality<3>, data
// CHECK: memref.prefetch %[[W]][%[[BEHIND]],
// CHECK-NOT: memref.prefetch
// CHECK-DAG: vector.load %[[WIDE]][%[[K]]]
// CHECK-DAG: vector.load %[[ROW]][%[[K]]] : {{.*}}, vector<16xbf16>
// CHECK-COUNT-4: vector.fma
// CHECK: scf.yield
// CHECK: %[[T:.*]] = vector.reduction <add>, {{.*}} fastmath<reassoc>
// CHECK: %[[BEFORE:.*]] = memref.load %[[SUM]][]
// CHECK: %[[AFTER:.*]] = arith.addf %[[BEFORE]], %[[T]]
// CHECK: memref.store %[[AFTER]], %[[SUM]][]
func.func @product(%x: memref<1024xbf16>, %w: memref<2816x1024xbf16>, %sum: memref<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %row = memref.subview %w[%i, 0] [1, 1024] [1, 1] : memref<2816x1024xbf16> to memref<1024xbf16, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#row, #row, #one], iterator_types = ["reduction"]}
      ins(%x, %row : memref<1024xbf16>, memref<1024xbf16, strided<[1], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%a: bf16, %b: bf16, %s: f32):
      %c = arith.extf %a : bf16 to f32
      %d = arith.extf %b : bf16 to f32
      %p = arith.mulf %c, %d : f32
      %t = arith.addf %s, %p fastmath<reassoc> : f32
      linalg.yield %t : f32
    }
  }
  return
}

// What is left of a row fills no four vectors, and no vector: lanes that are not there add nothing.
// CHECK-LABEL: func.func @remainders
// CHECK: scf.for
// CHECK: scf.for {{.*}} iter_args(
// CHECK-COUNT-5: arith.sitofp {{.*}} : vector<16xi8> to vector<16xf32>
// CHECK: %[[MASK:.*]] = vector.constant_mask [3]
// CHECK: vector.maskedload
// CHECK: arith.select
func.func @remainders(%w: memref<2816x275xi8>, %sum: memref<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %row = memref.subview %w[%i, 0] [1, 275] [1, 1] : memref<2816x275xi8> to memref<275xi8, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#row, #one], iterator_types = ["reduction"]}
      ins(%row : memref<275xi8, strided<[1], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%a: i8, %s: f32):
      %b = arith.sitofp %a : i8 to f32
      %t = arith.addf %s, %b fastmath<reassoc> : f32
      linalg.yield %t : f32
    }
  }
  return
}

// Groups of a weight of 4 bits, by two vectors that lie interleaved. Scales are widened for the row, and each multiplies
// the sum of its group.
// CHECK-LABEL: func.func @of_groups
// CHECK-SAME: (%[[X:[^:]*]]: memref<32x16xf32, strided<[32, 2]>>,
// CHECK-DAG: linalg.generic {{.*}} ins(%[[X]] : {{.*}}) outs(%[[EVEN:.*]] : memref<32x16xf32>)
// CHECK: scf.for %[[I:.*]] =
// CHECK: linalg.generic {{.*}} ins({{.*}} : memref<32xbf16, {{.*}}) outs(%[[SCALES:.*]] : memref<32xf32>)
// CHECK: scf.for %[[G:.*]] = {{.*}} iter_args(%[[SUM:[^ ]*]] =
// CHECK: memref.prefetch
// CHECK-NOT: memref.prefetch
// CHECK: %[[LOW:.*]] = arith.uitofp {{.*}} : vector<16xi8> to vector<16xf32>
// CHECK: %[[P:.*]] = arith.mulf {{.*}}, %[[LOW]] : vector<16xf32>
// CHECK: %[[PART:.*]] = vector.fma {{.*}}, %[[P]] : vector<16xf32>
// CHECK: %[[SCALE:.*]] = memref.load %[[SCALES]][%[[G]]]
// CHECK: %[[SCALE_OF_ALL:.*]] = vector.broadcast %[[SCALE]]
// CHECK: vector.fma %[[PART]], %[[SCALE_OF_ALL]], %[[SUM]]
func.func @of_groups(%x: memref<32x16xf32, strided<[32, 2]>>, %y: memref<32x16xf32, strided<[32, 2]>>,
                     %w: memref<2816x32x16xi8>, %scale: memref<2816x32xbf16>, %sum: memref<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : i8
  %c15 = arith.constant 15 : i8
  scf.for %i = %c0 to %n step %c1 {
    %row = memref.subview %w[%i, 0, 0] [1, 32, 16] [1, 1, 1] : memref<2816x32x16xi8> to memref<32x16xi8, strided<[16, 1], offset: ?>>
    %scales = memref.subview %scale[%i, 0] [1, 32] [1, 1] : memref<2816x32xbf16> to memref<32xbf16, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#elements, #elements, #elements, #groups, #none], iterator_types = ["reduction", "reduction"]}
      ins(%x, %y, %row, %scales : memref<32x16xf32, strided<[32, 2]>>, memref<32x16xf32, strided<[32, 2]>>, memref<32x16xi8, strided<[16, 1], offset: ?>>, memref<32xbf16, strided<[1], offset: ?>>)
      outs(%sum : memref<f32>) {
    ^bb0(%even: f32, %odd: f32, %both: i8, %narrow: bf16, %s: f32):
      %l = arith.andi %both, %c15 : i8
      %lf = arith.uitofp %l : i8 to f32
      %p = arith.mulf %even, %lf : f32
      %h = arith.shrui %both, %c4 : i8
      %hf = arith.uitofp %h : i8 to f32
      %q = arith.mulf %odd, %hf : f32
      %r = arith.addf %p, %q : f32
      %factor = arith.extf %narrow : bf16 to f32
      %u = arith.mulf %r, %factor : f32
      %t = arith.addf %s, %u fastmath<reassoc> : f32
      linalg.yield %t : f32
    }
  }
  return
}

// A small matrix, a sum of f64, a maximum, rows with gaps, of few elements, and that are read again are left to LLVM.
// CHECK-LABEL: func.func @others
// CHECK-NOT: vector
// CHECK: return
func.func @others(%small: memref<64x64xf32>, %wide: memref<2816x1024xf64>, %gaps: memref<2816x2048xf32>, %few: memref<65536x128xf32>, %again: memref<2816x1024xf32>,
                  %sum: memref<f32>, %wide_sum: memref<f64>, %own: memref<1024xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %a = memref.subview %small[%i, 0] [1, 64] [1, 1] : memref<64x64xf32> to memref<64xf32, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#row, #one], iterator_types = ["reduction"]} ins(%a : memref<64xf32, strided<[1], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%x: f32, %s: f32):
      %t = arith.addf %s, %x : f32
      linalg.yield %t : f32
    }
    %b = memref.subview %wide[%i, 0] [1, 1024] [1, 1] : memref<2816x1024xf64> to memref<1024xf64, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#row, #one], iterator_types = ["reduction"]} ins(%b : memref<1024xf64, strided<[1], offset: ?>>) outs(%wide_sum : memref<f64>) {
    ^bb0(%x: f64, %s: f64):
      %t = arith.addf %s, %x : f64
      linalg.yield %t : f64
    }
    %c = memref.subview %gaps[%i, 0] [1, 1024] [1, 2] : memref<2816x2048xf32> to memref<1024xf32, strided<[2], offset: ?>>
    linalg.generic {indexing_maps = [#row, #one], iterator_types = ["reduction"]} ins(%c : memref<1024xf32, strided<[2], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%x: f32, %s: f32):
      %t = arith.addf %s, %x : f32
      linalg.yield %t : f32
    }
    %d = memref.subview %gaps[%i, 0] [1, 2048] [1, 1] : memref<2816x2048xf32> to memref<2048xf32, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#row, #one], iterator_types = ["reduction"]} ins(%d : memref<2048xf32, strided<[1], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%x: f32, %s: f32):
      %t = arith.maximumf %s, %x : f32
      linalg.yield %t : f32
    }
    %f = memref.subview %again[%i, 0] [1, 1024] [1, 1] : memref<2816x1024xf32> to memref<1024xf32, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#row, #one], iterator_types = ["reduction"]} ins(%f : memref<1024xf32, strided<[1], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%x: f32, %s: f32):
      %t = arith.addf %s, %x : f32
      linalg.yield %t : f32
    }
    linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%f : memref<1024xf32, strided<[1], offset: ?>>) outs(%own : memref<1024xf32>) {
    ^bb0(%x: f32, %y: f32):
      linalg.yield %x : f32
    }
    %e = memref.subview %few[%i, 0] [1, 128] [1, 1] : memref<65536x128xf32> to memref<128xf32, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#row, #one], iterator_types = ["reduction"]} ins(%e : memref<128xf32, strided<[1], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%x: f32, %s: f32):
      %t = arith.addf %s, %x : f32
      linalg.yield %t : f32
    }
  }
  return
}

// A vector that the kernel has just written is read where it lies, not from a copy that was made before.
// CHECK-LABEL: func.func @written_before
// CHECK-SAME: (%[[X:.*]]: memref<1024xbf16>
// CHECK-NOT: memref.alloca
// CHECK: linalg.fill
// CHECK: vector.load %[[X]]
func.func @written_before(%x: memref<1024xbf16>, %w: memref<2816x1024xbf16>, %sum: memref<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : bf16
  linalg.fill ins(%one : bf16) outs(%x : memref<1024xbf16>)
  scf.for %i = %c0 to %n step %c1 {
    %row = memref.subview %w[%i, 0] [1, 1024] [1, 1] : memref<2816x1024xbf16> to memref<1024xbf16, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#row, #row, #one], iterator_types = ["reduction"]}
      ins(%x, %row : memref<1024xbf16>, memref<1024xbf16, strided<[1], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%a: bf16, %b: bf16, %s: f32):
      %c = arith.extf %a : bf16 to f32
      %d = arith.extf %b : bf16 to f32
      %p = arith.mulf %c, %d : f32
      %t = arith.addf %s, %p fastmath<reassoc> : f32
      linalg.yield %t : f32
    }
  }
  return
}

} }
