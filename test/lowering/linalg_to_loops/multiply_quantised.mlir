// RUN: cuesta-opt --pass-pipeline='builtin.module(multiply-quantised{by=pairs})' %s | filecheck %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(multiply-quantised{by=tables})' %s | filecheck %s --check-prefix=TABLES
// RUN: cuesta-opt --pass-pipeline='builtin.module(multiply-quantised{by=words})' %s | filecheck %s --check-prefix=WORDS
// RUN: cuesta-opt --pass-pipeline='builtin.module(multiply-quantised{by=plain})' %s | filecheck %s --check-prefix=PLAIN

#mgk = affine_map<(m, g, k) -> (m, g, k)>
#gk = affine_map<(m, g, k) -> (g, k)>
#g = affine_map<(m, g, k) -> (g)>
#m = affine_map<(m, g, k) -> (m)>
#pairs = affine_map<(m, k) -> (m, k)>
#own = affine_map<(m, k) -> (k)>
#rows = affine_map<(m, k) -> (m)>
#one_gk = affine_map<(g, k) -> (g, k)>
#one = affine_map<(g, k) -> ()>

module { module @kernels {

// Two rows by values of 4 bits in groups of 32: a lane's elements are of one group, whose scale its sum is multiplied by.
// CHECK-LABEL: func.func @halves
// CHECK-SAME: (%{{.*}}: memref<2x32x16xbf16, {{.*}}>, %{{.*}}, %[[W:.*]]: memref<2816x32x16xi8>, %[[S:.*]]: memref<32xf32>,
// CHECK: %[[P:.*]] = memref.alloca() {alignment = 64 : i64} : memref<2048xbf16>
// CHECK: memref.store {{.*}}, %[[P]]
// CHECK: memref.collapse_shape
// CHECK: %[[SUMS:.*]]:2 = scf.for
// CHECK: memref.prefetch %[[W]]
// CHECK: vector.load {{.*}} : memref<512xi8, strided<[1], offset: ?>>, vector<64xi8>
// CHECK-COUNT-3: arith.shrui {{.*}} : vector<32xi16>
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.x86.avx512.permvar.hi.512"
// CHECK: %[[SCALE:.*]] = vector.load %[[S]]{{.*}} : memref<32xf32>, vector<4xf32>
// CHECK: vector.shuffle %[[SCALE]], %[[SCALE]] [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
// CHECK: vector.fma
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
// CHECK: vector.fma
// CHECK-COUNT-2: vector.reduction <add>
// TABLES-LABEL: func.func @halves
// TABLES: memref.alloca() {alignment = 64 : i64} : memref<2048xf32>
// TABLES-COUNT-7: arith.shrui {{.*}} : vector<16xi32>
// TABLES-COUNT-8: llvm.call_intrinsic "llvm.x86.avx512.permvar.sf.512"
// As words: the largest element of a part of a row is found by its bits, and gives the step that all of them are rounded
// to. The sums are integers, and the step a factor of each group's scale.
// WORDS-LABEL: func.func @halves
// WORDS: %[[STEPS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<16xf32>
// WORDS: %[[PACKED:.*]] = memref.alloca() {alignment = 64 : i64} : memref<2048xi16>
// WORDS: scf.for {{.*}} iter_args({{.*}}) -> (i32)
// WORDS: arith.maxui
// WORDS: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// WORDS: memref.store {{.*}}, %[[STEPS]]
// WORDS: arith.fptosi {{.*}} : f32 to i16
// WORDS: memref.store {{.*}}, %[[PACKED]]
// WORDS: memref.collapse_shape
// WORDS-COUNT-3: arith.andi {{.*}} : vector<32xi16>
// WORDS: %[[STEP:.*]] = memref.load %[[STEPS]]
// WORDS: %[[ALL:.*]] = vector.broadcast %[[STEP]]
// WORDS: %[[FACTOR:.*]] = arith.mulf %[[ALL]], %{{.*}} : vector<16xf32>
// WORDS-COUNT-8: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// WORDS: %[[SUM:.*]] = arith.sitofp {{.*}} : vector<16xi32> to vector<16xf32>
// WORDS: vector.fma %[[SUM]], %[[FACTOR]]
// PLAIN-LABEL: func.func @halves
// PLAIN: arith.andi {{.*}} : vector<16xi8>
// PLAIN: arith.uitofp {{.*}} : vector<16xi8> to vector<16xf32>
// PLAIN-NOT: llvm.call_intrinsic
func.func @halves(%low: memref<2x32x16xbf16, strided<[1024, 32, 2]>>, %high: memref<2x32x16xbf16, strided<[1024, 32, 2]>>, %w: memref<2816x32x16xi8>, %scale: memref<32xf32>, %sums: memref<2xf32>, %n: index) {
  %c15 = arith.constant 15 : i8
  %c4 = arith.constant 4 : i8
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %row = memref.subview %w[%i, 0, 0] [1, 32, 16] [1, 1, 1] : memref<2816x32x16xi8> to memref<32x16xi8, strided<[16, 1], offset: ?>>
    linalg.generic {indexing_maps = [#mgk, #mgk, #gk, #g, #m], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%low, %high, %row, %scale : memref<2x32x16xbf16, strided<[1024, 32, 2]>>, memref<2x32x16xbf16, strided<[1024, 32, 2]>>, memref<32x16xi8, strided<[16, 1], offset: ?>>, memref<32xf32>) outs(%sums : memref<2xf32>) {
    ^bb0(%x: bf16, %y: bf16, %b: i8, %s: f32, %t: f32):
      %0 = arith.shrui %b, %c4 : i8
      %1 = arith.uitofp %0 : i8 to f32
      %2 = arith.extf %y : bf16 to f32
      %3 = arith.mulf %2, %1 : f32
      %4 = arith.andi %b, %c15 : i8
      %5 = arith.uitofp %4 : i8 to f32
      %6 = arith.extf %x : bf16 to f32
      %7 = arith.mulf %6, %5 : f32
      %8 = arith.addf %7, %3 : f32
      %9 = arith.mulf %8, %s : f32
      %10 = arith.addf %t, %9 fastmath<reassoc> : f32
      linalg.yield %10 : f32
    }
  }
  return
}

// Whole bytes, and a row that ends within what is unpacked at once.
// CHECK-LABEL: func.func @whole
// CHECK: arith.select
// CHECK: scf.for
// CHECK: %[[A:.*]] = arith.sitofp {{.*}} : vector<16xi8> to vector<16xf32>
// CHECK: arith.ori {{.*}} : vector<16xi32>
// CHECK: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
// CHECK: vector.maskedload
// PLAIN-LABEL: func.func @whole
// PLAIN: arith.sitofp {{.*}} : vector<16xi8> to vector<16xf32>
// PLAIN: vector.fma
func.func @whole(%a: memref<4x200xbf16>, %w: memref<2816x200xi8>, %sums: memref<4xf32, strided<[2816]>>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %row = memref.subview %w[%i, 0] [1, 200] [1, 1] : memref<2816x200xi8> to memref<200xi8, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#pairs, #own, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%a, %row : memref<4x200xbf16>, memref<200xi8, strided<[1], offset: ?>>) outs(%sums : memref<4xf32, strided<[2816]>>) {
    ^bb0(%x: bf16, %b: i8, %t: f32):
      %0 = arith.sitofp %b : i8 to f32
      %1 = arith.extf %x : bf16 to f32
      %2 = arith.mulf %1, %0 : f32
      %3 = arith.addf %t, %2 fastmath<reassoc> : f32
      linalg.yield %3 : f32
    }
  }
  return
}

// One row of bytes is left to sum-rows, and so are other masks.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-2: linalg.generic
func.func @others(%x: memref<32x16xf32>, %w: memref<2816x32x16xi8>, %sum: memref<f32>, %n: index) {
  %c7 = arith.constant 7 : i8
  %c4 = arith.constant 4 : i8
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %row = memref.subview %w[%i, 0, 0] [1, 32, 16] [1, 1, 1] : memref<2816x32x16xi8> to memref<32x16xi8, strided<[16, 1], offset: ?>>
    linalg.generic {indexing_maps = [#one_gk, #one_gk, #one], iterator_types = ["reduction", "reduction"]}
      ins(%x, %row : memref<32x16xf32>, memref<32x16xi8, strided<[16, 1], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%a: f32, %b: i8, %t: f32):
      %0 = arith.sitofp %b : i8 to f32
      %1 = arith.mulf %a, %0 : f32
      %2 = arith.addf %t, %1 fastmath<reassoc> : f32
      linalg.yield %2 : f32
    }
    linalg.generic {indexing_maps = [#one_gk, #one_gk, #one], iterator_types = ["reduction", "reduction"]}
      ins(%x, %row : memref<32x16xf32>, memref<32x16xi8, strided<[16, 1], offset: ?>>) outs(%sum : memref<f32>) {
    ^bb0(%a: f32, %b: i8, %t: f32):
      %0 = arith.andi %b, %c7 : i8
      %1 = arith.uitofp %0 : i8 to f32
      %2 = arith.mulf %a, %1 : f32
      %3 = arith.shrui %b, %c4 : i8
      %4 = arith.uitofp %3 : i8 to f32
      %5 = arith.mulf %a, %4 : f32
      %6 = arith.addf %2, %5 : f32
      %7 = arith.addf %t, %6 fastmath<reassoc> : f32
      linalg.yield %7 : f32
    }
  }
  return
}

// Bytes that are floats: what the body computes from a byte is computed from 16 at a time, once for both rows. A row that
// ends within 16 bytes stays, as the float of a byte behind its end may be anything.
// CHECK-LABEL: func.func @floats
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<512xf32>
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %[[B:.*]] = vector.load {{.*}} : memref<256xi8, {{.*}}>, vector<16xi8>
// CHECK-NEXT: %[[W:.*]] = arith.extui %[[B]] : vector<16xi8> to vector<16xi16>
// CHECK: arith.shli %[[W]], {{.*}} : vector<16xi16>
// CHECK: arith.bitcast {{.*}} : vector<16xi16> to vector<16xf16>
// CHECK: arith.extf {{.*}} : vector<16xf16> to vector<16xf32>
// CHECK-COUNT-4: vector.fma
// CHECK-NOT: vector.fma
// CHECK-LABEL: func.func @cut
// CHECK: linalg.generic
func.func @floats(%x: memref<2x256xbf16>, %w: memref<2816x256xi8>, %sums: memref<2xf32>, %n: index) {
  %c8 = arith.constant 8 : i16
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %row = memref.subview %w[%i, 0] [1, 256] [1, 1] : memref<2816x256xi8> to memref<256xi8, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#pairs, #own, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x, %row : memref<2x256xbf16>, memref<256xi8, strided<[1], offset: ?>>) outs(%sums : memref<2xf32>) {
    ^bb0(%a: bf16, %b: i8, %t: f32):
      %0 = arith.extui %b : i8 to i16
      %1 = arith.shli %0, %c8 : i16
      %2 = arith.bitcast %1 : i16 to f16
      %3 = arith.extf %2 : f16 to f32
      %4 = arith.extf %a : bf16 to f32
      %5 = arith.mulf %4, %3 : f32
      %6 = arith.addf %t, %5 fastmath<reassoc> : f32
      linalg.yield %6 : f32
    }
  }
  return
}

func.func @cut(%x: memref<2x264xbf16>, %w: memref<2816x264xi8>, %sums: memref<2xf32>, %n: index) {
  %c8 = arith.constant 8 : i16
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %row = memref.subview %w[%i, 0] [1, 264] [1, 1] : memref<2816x264xi8> to memref<264xi8, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#pairs, #own, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x, %row : memref<2x264xbf16>, memref<264xi8, strided<[1], offset: ?>>) outs(%sums : memref<2xf32>) {
    ^bb0(%a: bf16, %b: i8, %t: f32):
      %0 = arith.extui %b : i8 to i16
      %1 = arith.shli %0, %c8 : i16
      %2 = arith.bitcast %1 : i16 to f16
      %3 = arith.extf %2 : f16 to f32
      %4 = arith.extf %a : bf16 to f32
      %5 = arith.mulf %4, %3 : f32
      %6 = arith.addf %t, %5 fastmath<reassoc> : f32
      linalg.yield %6 : f32
    }
  }
  return
}

// A number from outside the body is the same for all lanes.
// CHECK-LABEL: func.func @floats_times
// CHECK-SAME: %[[F:[^:]*]]: f32, %{{.*}}: index)
// CHECK: vector.load {{.*}} : memref<256xi8, {{.*}}>, vector<16xi8>
// CHECK: vector.broadcast %[[F]] : f32 to vector<16xf32>
// CHECK-COUNT-4: vector.fma
func.func @floats_times(%x: memref<2x256xbf16>, %w: memref<2816x256xi8>, %sums: memref<2xf32>, %f: f32, %n: index) {
  %c8 = arith.constant 8 : i16
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %row = memref.subview %w[%i, 0] [1, 256] [1, 1] : memref<2816x256xi8> to memref<256xi8, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#pairs, #own, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x, %row : memref<2x256xbf16>, memref<256xi8, strided<[1], offset: ?>>) outs(%sums : memref<2xf32>) {
    ^bb0(%a: bf16, %b: i8, %t: f32):
      %0 = arith.extui %b : i8 to i16
      %1 = arith.shli %0, %c8 : i16
      %2 = arith.bitcast %1 : i16 to f16
      %3 = arith.extf %2 : f16 to f32
      %4 = arith.addf %3, %f : f32
      %5 = arith.extf %a : bf16 to f32
      %6 = arith.mulf %5, %4 : f32
      %7 = arith.addf %t, %6 fastmath<reassoc> : f32
      linalg.yield %7 : f32
    }
  }
  return
}

} }
