// RUN: cuesta-opt --pass-pipeline='builtin.module(multiply-panels)' %s | filecheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#nm = affine_map<(m, n, k) -> (n, m)>
module { module @kernels {

// Rows of b are packed as they lie; the last of two vectors is cut off. Two rows at a time, then the third.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[A:.*]]: memref<3x8xf32>, %[[B:.*]]: memref<8x20xf32>, %[[C:.*]]: memref<3x20xf32>)
// CHECK: %[[P:.*]] = memref.alloca() {alignment = 64 : i64} : memref<8x32xf32>
// CHECK: %[[MASK:.*]] = vector.constant_mask [4]
// CHECK: scf.for %[[K:.*]] =
// CHECK: vector.load %[[B]][{{.*}}] : memref<8x20xf32>, vector<16xf32>
// CHECK: vector.store %{{.*}}, %[[P]][%[[K]], %{{.*}}]
// CHECK: vector.maskedload %[[B]][{{.*}}], %[[MASK]]
// CHECK: vector.store %{{.*}}, %[[P]]
// CHECK: %[[S:.*]]:4 = scf.for %[[K:.*]] = {{.*}} iter_args(
// CHECK-COUNT-2: vector.load %[[P]]
// CHECK: %[[X:.*]] = memref.load %[[A]]
// CHECK-NEXT: %[[XS:.*]] = vector.broadcast %[[X]]
// CHECK-COUNT-2: vector.fma %[[XS]]
// CHECK: memref.load %[[A]]
// CHECK-COUNT-2: vector.fma
// CHECK-NOT: vector.fma
// CHECK: scf.yield
// CHECK: vector.load %[[C]]
// CHECK: arith.addf
// CHECK: vector.store {{.*}}, %[[C]]
// CHECK: vector.maskedload %[[C]]
// CHECK: vector.maskedstore %[[C]]
// CHECK: scf.for {{.*}} iter_args(
// CHECK-COUNT-2: vector.fma
// CHECK-NOT: linalg.generic
func.func @rows(%a: memref<3x8xf32>, %b: memref<8x20xf32>, %c: memref<3x20xf32>) {
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<3x8xf32>, memref<8x20xf32>) outs(%c : memref<3x20xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "3x20x8 by 2x32"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// The same in no tile of its kernel, as a tail: its roles are the kernel's classes.
// CHECK-LABEL: func.func @tail
// CHECK-SAME: (%[[A:.*]]: memref<3x8xf32>, %[[B:.*]]: memref<8x16xf32>, %[[C:.*]]: memref<3x16xf32>)
// CHECK: vector.load %[[B]]
// CHECK: memref.load %[[A]]
// CHECK: vector.store {{.*}}, %[[C]]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @tail(%a: memref<3x8xf32>, %b: memref<8x16xf32>, %c: memref<3x16xf32>) {
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<3x8xf32>, memref<8x16xf32>) outs(%c : memref<3x16xf32>)
    attrs = {cuesta.classes = [2, 3, 0], cuesta.product = [2, 3, 0], cuesta.product_tile = "3x16x8 by 8x48", cuesta.tail} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// Columns of b, whose elements lie together, are transposed 16 at a time; those left of K one by one. Blocks of K are
// added up, and of what is left over.
// CHECK-LABEL: func.func @columns
// CHECK-SAME: (%[[A:.*]]: memref<2x20xf32>, %[[B:.*]]: memref<16x20xf32>,
// CHECK: %[[P:.*]] = memref.alloca() {alignment = 64 : i64} : memref<18x16xf32>
// CHECK-COUNT-16: vector.load %[[B]]
// CHECK-COUNT-64: vector.shuffle
// CHECK-COUNT-16: vector.store {{.*}}, %[[P]]
// CHECK: scf.for
// CHECK: memref.load %[[B]]
// CHECK: memref.store {{.*}}, %[[P]]
// CHECK: scf.for {{.*}} iter_args(
// CHECK-COUNT-2: vector.fma
// CHECK-NOT: vector.shuffle
// CHECK: memref.load %[[B]]
// CHECK: scf.for {{.*}} iter_args(
// CHECK-COUNT-2: vector.fma
func.func @columns(%a: memref<2x20xf32>, %b: memref<16x20xf32>, %c: memref<2x16xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<2x20xf32>, memref<16x20xf32>) outs(%c : memref<2x16xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "2x16x18 by 2x16"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// While a panel is multiplied the next one's lines are asked for, at most up to the tensor's end.
// CHECK-LABEL: func.func @next_panel
// CHECK-SAME: memref<3x8xf32>, %[[B:[a-z0-9]+]]: memref<8x64xf32>,
// CHECK: scf.for {{.*}} iter_args(
// CHECK: memref.prefetch %[[B]][%{{.*}}, %{{.*}}], read, locality<2>, data
// CHECK: vector.fma
func.func @next_panel(%a: memref<3x8xf32>, %b: memref<8x64xf32>, %c: memref<3x16xf32>, %start: index) {
  %v = memref.subview %b[0, %start] [8, 16] [1, 1] : memref<8x64xf32> to memref<8x16xf32, strided<[64, 1], offset: ?>>
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %v : memref<3x8xf32>, memref<8x16xf32, strided<[64, 1], offset: ?>>) outs(%c : memref<3x16xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "3x16x8 by 1x16"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// A line of columns serves 16 passes: with few rows each asks for those of its turn, not for all.
// CHECK-LABEL: func.func @next_columns
// CHECK-SAME: memref<8x32xf32>, %[[B:[a-z0-9]+]]: memref<64x32xf32>,
// CHECK: scf.for %[[K:.*]] = {{.*}} iter_args(
// CHECK: arith.remui %[[K]], %
// CHECK: memref.prefetch %[[B]][%{{.*}}, %{{.*}}], read, locality<2>, data
// CHECK-NOT: memref.prefetch
// CHECK: vector.fma
func.func @next_columns(%a: memref<8x32xf32>, %b: memref<64x32xf32>, %c: memref<8x16xf32>, %start: index) {
  %v = memref.subview %b[%start, 0] [16, 32] [1, 1] : memref<64x32xf32> to memref<16x32xf32, strided<[32, 1], offset: ?>>
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %v : memref<8x32xf32>, memref<16x32xf32, strided<[32, 1], offset: ?>>) outs(%c : memref<8x16xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "8x16x32 by 8x16"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// A panel that does not stay in L1 has its rows asked for before they are multiplied; memory has those behind the last.
// CHECK-LABEL: func.func @large_panel
// CHECK: %[[P:.*]] = memref.alloca() {alignment = 64 : i64} : memref<392x32xf32>
// CHECK: scf.for {{.*}} iter_args(
// CHECK-COUNT-2: memref.prefetch %[[P]][%{{.*}}, %{{.*}}], read, locality<3>, data
// CHECK: vector.fma
func.func @large_panel(%a: memref<2x384xf32>, %b: memref<384x64xf32>, %c: memref<2x64xf32>) {
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<2x384xf32>, memref<384x64xf32>) outs(%c : memref<2x64xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "2x64x384 by 2x32"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// A result whose columns lie together is summed up in other memory.
// CHECK-LABEL: func.func @across
// CHECK-SAME: memref<8x16xf32>, %[[C:[a-z0-9]+]]: memref<16x2xf32>)
// CHECK: %[[OWN:.*]] = memref.alloca() {{.*}} : memref<2x16xf32>
// CHECK: linalg.generic {{.*}} ins(%[[C]] : memref<16x2xf32>) outs(%[[OWN]] : memref<2x16xf32>)
// CHECK: vector.fma
// CHECK: linalg.generic {{.*}} ins(%[[OWN]] : memref<2x16xf32>) outs(%[[C]] : memref<16x2xf32>)
func.func @across(%a: memref<2x8xf32>, %b: memref<8x16xf32>, %c: memref<16x2xf32>) {
  linalg.generic {indexing_maps = [#mk, #kn, #nm], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<2x8xf32>, memref<8x16xf32>) outs(%c : memref<16x2xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "2x16x8 by 2x16"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// f16 is widened where it is loaded: a panel is of f32.
// CHECK-LABEL: func.func @narrow
// CHECK-SAME: (%[[A:[a-z0-9]+]]: memref<2x8xf16>, %[[B:[a-z0-9]+]]: memref<8x20xf16>,
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<8x32xf32>
// CHECK: %[[R:.*]] = vector.load %[[B]][{{.*}}] : memref<8x20xf16>, vector<16xf16>
// CHECK-NEXT: arith.extf %[[R]] : vector<16xf16> to vector<16xf32>
// CHECK: vector.maskedload %[[B]]{{.*}} vector<16xf16>
// CHECK: %[[X:.*]] = memref.load %[[A]]
// CHECK-NEXT: arith.extf %[[X]] : f16 to f32
// CHECK: vector.fma
func.func @narrow(%a: memref<2x8xf16>, %b: memref<8x20xf16>, %c: memref<2x20xf32>) {
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<2x8xf16>, memref<8x20xf16>) outs(%c : memref<2x20xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "2x20x8 by 2x32"} {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %v = arith.extf %x : f16 to f32
    %w = arith.extf %y : f16 to f32
    %0 = arith.mulf %v, %w : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// What else is in a body stays as it is, for loops.
// CHECK-LABEL: func.func @wider
// CHECK: linalg.generic
func.func @wider(%a: memref<2x8xbf16>, %b: memref<8x16xf32>, %c: memref<2x16xf32>) {
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<2x8xbf16>, memref<8x16xf32>) outs(%c : memref<2x16xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "2x16x8 by 2x16"} {
  ^bb0(%x: bf16, %y: f32, %s: f32):
    %w = arith.extf %x : bf16 to f32
    %0 = arith.mulf %w, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// A tile that may be smaller: whole blocks, then what is left over of them as one more, its columns masked, its rows
// the last one over and over, stored where there is one.
// CHECK-LABEL: func.func @cut
// CHECK-SAME: (%[[A:.*]]: memref<?x8xf32>, %[[B:.*]]: memref<?x8xf32>, %[[C:.*]]: memref<?x?xf32>)
// CHECK: %[[P:.*]] = memref.alloca() {alignment = 64 : i64} : memref<8x16xf32>
// CHECK-DAG: %[[M:.*]] = memref.dim %[[A]]
// CHECK-DAG: %[[N:.*]] = memref.dim %[[B]]
// CHECK: %[[OVER:.*]] = arith.remui %[[N]],
// CHECK: %[[WHOLE:.*]] = arith.subi %[[N]], %[[OVER]]
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[WHOLE]]
// CHECK-NOT: vector.create_mask
// CHECK: scf.for %[[J:.*]] = %[[WHOLE]] to %[[N]]
// CHECK: %[[LEFT:.*]] = arith.subi %[[N]], %[[J]]
// CHECK: vector.create_mask
// CHECK: scf.for {{.*}} to %[[LEFT]]
// CHECK: memref.load %[[B]]
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %[[M]]
// CHECK: %[[ROWS:.*]] = arith.subi %[[M]], %[[I]]
// CHECK: %[[LAST:.*]] = arith.subi %[[ROWS]],
// CHECK: arith.minui %{{.*}}, %[[LAST]]
// CHECK-COUNT-2: vector.fma
// CHECK: vector.maskedstore %[[C]]
// CHECK: %[[IS:.*]] = arith.cmpi ult, %{{.*}}, %[[ROWS]]
// CHECK: scf.if %[[IS]]
// CHECK: vector.maskedstore %[[C]]
func.func @cut(%a: memref<?x8xf32>, %b: memref<?x8xf32>, %c: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<?x8xf32>, memref<?x8xf32>) outs(%c : memref<?x?xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "4x32x8 by 2x16"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// Sums that begin with zeros: the first block of K stores them.
// CHECK-LABEL: func.func @zeros
// CHECK-NOT: linalg.fill
// CHECK: scf.for %[[K:.*]] = %[[ZERO:.*]] to
// CHECK: vector.fma
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[K]], %[[ZERO]]
// CHECK: scf.if %[[FIRST]]
// CHECK: vector.store
// CHECK: else
// CHECK: vector.load %{{.*}} : memref<1x16xf32>
// CHECK: arith.addf
func.func @zeros(%a: memref<1x16xf32>, %b: memref<16x16xf32>, %c: memref<1x16xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<1x16xf32>)
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<1x16xf32>, memref<16x16xf32>) outs(%c : memref<1x16xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "1x16x8 by 1x16"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// A call tells K: its first block, which stores the sums, is apart; the loop over the others adds.
// CHECK-LABEL: func.func @any_depth
// CHECK-SAME: (%[[A:.*]]: memref<1x?xf32>, %[[B:.*]]: memref<?x20xf32>, %[[C:.*]]: memref<1x20xf32>)
// CHECK-NOT: linalg.fill
// CHECK: %[[P:.*]] = memref.alloca() {{.*}} : memref<64x32xf32>
// CHECK: %[[K:.*]] = memref.dim %[[A]]
// CHECK: %[[DEPTH:.*]] = arith.muli
// CHECK: %[[FIRST:.*]] = arith.minui %[[DEPTH]], %[[K]]
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[FIRST]] {{.*}} iter_args
// CHECK: vector.fma
// CHECK-NOT: arith.addf
// CHECK: vector.maskedstore %[[C]]
// CHECK: scf.for %[[AT:.*]] = %[[DEPTH]] to %[[K]] step %[[DEPTH]]
// CHECK: %[[LEFT:.*]] = arith.subi %[[K]], %[[AT]]
// CHECK: arith.minui %[[DEPTH]], %[[LEFT]]
// CHECK: vector.fma
// CHECK: arith.addf
// CHECK: vector.maskedstore %[[C]]
// CHECK-NOT: vector.fma
func.func @any_depth(%a: memref<1x?xf32>, %b: memref<?x20xf32>, %c: memref<1x20xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<1x20xf32>)
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : memref<1x?xf32>, memref<?x20xf32>) outs(%c : memref<1x20xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "1x20x64 by 1x32"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// Matrices of a batch that lie as packed panels do: the next one along the last batch dim is asked for.
// CHECK-LABEL: func.func @batched_panels
// CHECK-SAME: %[[B:[a-z0-9]+]]: memref<2x4x8x16xf32>, %{{.*}}: memref<3x16xf32>, %[[I:.*]]: index, %[[J:.*]]: index)
// CHECK: scf.for {{.*}} iter_args(
// CHECK: %[[AFTER:.*]] = arith.addi %[[J]], %
// CHECK: %[[NEXT:.*]] = arith.minui %[[AFTER]], %
// CHECK: memref.prefetch %[[B]][%[[I]], %[[NEXT]], %{{.*}}, %{{.*}}], read, locality<2>, data
// CHECK: vector.fma
func.func @batched_panels(%a: memref<3x8xf32>, %b: memref<2x4x8x16xf32>, %c: memref<3x16xf32>, %i: index, %j: index) {
  %v = memref.subview %b[%i, %j, 0, 0] [1, 1, 8, 16] [1, 1, 1, 1] : memref<2x4x8x16xf32> to memref<8x16xf32, strided<[16, 1], offset: ?>>
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %v : memref<3x8xf32>, memref<8x16xf32, strided<[16, 1], offset: ?>>) outs(%c : memref<3x16xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "3x16x8 by 1x16"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// The size of the batch may be the call's.
// CHECK-LABEL: func.func @open_batch_of_panels
// CHECK-SAME: %[[B:[a-z0-9]+]]: memref<?x8x16xf32>
// CHECK: %[[COUNT:.*]] = memref.dim %[[B]], %
// CHECK: arith.subi %[[COUNT]], %
// CHECK: memref.prefetch %[[B]][%{{.*}}, %{{.*}}, %{{.*}}], read, locality<2>, data
func.func @open_batch_of_panels(%a: memref<3x8xf32>, %b: memref<?x8x16xf32>, %c: memref<3x16xf32>, %i: index, %j: index) {
  %v = memref.subview %b[%i, 0, 0] [1, 8, 16] [1, 1, 1] : memref<?x8x16xf32> to memref<8x16xf32, strided<[16, 1], offset: ?>>
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %v : memref<3x8xf32>, memref<8x16xf32, strided<[16, 1], offset: ?>>) outs(%c : memref<3x16xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "3x16x8 by 1x16"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// With few rows it is the panel's own rows that are asked for.
// CHECK-LABEL: func.func @own_rows_of_a_batch
// CHECK: %[[V:.*]] = memref.subview
// CHECK: memref.prefetch %[[V]][%{{.*}}, %{{.*}}], read, locality<3>, data
func.func @own_rows_of_a_batch(%a: memref<2x8xf32>, %b: memref<2x4x8x16xf32>, %c: memref<2x16xf32>, %i: index, %j: index) {
  %v = memref.subview %b[%i, %j, 0, 0] [1, 1, 8, 16] [1, 1, 1, 1] : memref<2x4x8x16xf32> to memref<8x16xf32, strided<[16, 1], offset: ?>>
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %v : memref<2x8xf32>, memref<8x16xf32, strided<[16, 1], offset: ?>>) outs(%c : memref<2x16xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "2x16x8 by 2x16"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// A panel that has none beside it asks for nothing.
// CHECK-LABEL: func.func @only_panel
// CHECK-NOT: memref.prefetch
// CHECK: vector.fma
func.func @only_panel(%a: memref<3x8xf32>, %b: memref<24x16xf32>, %c: memref<3x16xf32>, %i: index, %j: index) {
  %v = memref.subview %b[%i, 0] [8, 16] [1, 1] : memref<24x16xf32> to memref<8x16xf32, strided<[16, 1], offset: ?>>
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %v : memref<3x8xf32>, memref<8x16xf32, strided<[16, 1], offset: ?>>) outs(%c : memref<3x16xf32>)
    attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "3x16x8 by 1x16"} {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  return
}
} }
