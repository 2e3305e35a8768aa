// RUN: cuesta-opt --pass-pipeline='builtin.module(transposed-operands,canonicalize)' %s | filecheck %s

#rows = affine_map<(d0, d1) -> (d0, d1)>
#bias = affine_map<(d0, d1) -> (d1)>
#scale = affine_map<(d0, d1) -> (d0)>

module { module @kernels {

// A square of what is transposed, for each of its rows a vector of what is added, and behind all of them those of the
// result. Rows of few squares to their ends, then the next; the last ones reach back.
// CHECK-LABEL: func.func @add
// CHECK-SAME: (%[[X:.*]]: memref<40x32xf32, strided<[1000, 1]>>, %[[Y:.*]]: memref<32x40xf32>, %[[Z:.*]]: memref<32x40xf32>)
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C32:.*]] = arith.constant 32 : index
// CHECK-DAG: %[[C16:.*]] = arith.constant 16 : index
// CHECK-DAG: %[[C40:.*]] = arith.constant 40 : index
// CHECK-DAG: %[[C24:.*]] = arith.constant 24 : index
// CHECK-NOT: memref.alloca
// CHECK: scf.for %[[J:.*]] = %[[C0]] to %[[C32]] step %[[C16]]
// CHECK: scf.for %[[I:.*]] = %[[C0]] to %[[C40]] step %[[C16]]
// CHECK: %[[AT:.*]] = arith.minui %[[I]], %[[C24]]
// CHECK-COUNT-16: vector.load %[[X]]
// CHECK-COUNT-64: vector.shuffle
// CHECK: %[[BESIDE:.*]] = vector.load %[[Y]][%{{.*}}, %[[AT]]] : memref<32x40xf32>, vector<16xf32>
// CHECK: %[[SUM:.*]] = arith.addf %[[BESIDE]], %{{.*}} : vector<16xf32>
// CHECK-COUNT-15: arith.addf
// CHECK: vector.store %[[SUM]], %[[Z]][%{{.*}}, %[[AT]]]
// CHECK-COUNT-15: vector.store
// CHECK-NOT: linalg
func.func @add(%x: memref<40x32xf32, strided<[1000, 1]>>, %y: memref<32x40xf32>, %z: memref<32x40xf32>) {
  %tile = memref.alloca() : memref<32x40xf32>
  linalg.transpose ins(%x : memref<40x32xf32, strided<[1000, 1]>>) outs(%tile : memref<32x40xf32>) permutation = [1, 0]
  linalg.generic {indexing_maps = [#rows, #rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%y, %tile : memref<32x40xf32>, memref<32x40xf32>) outs(%z : memref<32x40xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  }
  return
}

// Numbers from outside, and what has one element a row, fill vectors.
// CHECK-LABEL: func.func @broadcasts
// CHECK-DAG: vector.broadcast %{{.*}} : f32 to vector<16xf32>
// CHECK-DAG: vector.load %{{.*}}[%{{.*}}] : memref<32xf32>, vector<16xf32>
// CHECK-DAG: memref.load %{{.*}}[%{{.*}}] : memref<16xf32>
// CHECK-NOT: linalg
// CHECK: return
func.func @broadcasts(%x: memref<32x16xf32>, %b: memref<32xf32>, %s: memref<16xf32>, %n: f32, %z: memref<16x32xf32>) {
  %tile = memref.alloca() : memref<16x32xf32>
  linalg.transpose ins(%x : memref<32x16xf32>) outs(%tile : memref<16x32xf32>) permutation = [1, 0]
  linalg.generic {indexing_maps = [#rows, #bias, #scale, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%tile, %b, %s : memref<16x32xf32>, memref<32xf32>, memref<16xf32>) outs(%z : memref<16x32xf32>) {
  ^bb0(%v: f32, %bias: f32, %scale: f32, %o: f32):
    %two = arith.constant 2.0 : f32
    %0 = arith.mulf %v, %scale : f32
    %1 = arith.addf %0, %bias : f32
    %2 = arith.addf %1, %n : f32
    %3 = arith.mulf %2, %two : f32
    linalg.yield %3 : f32
  }
  return
}

// Squares that reach back would add twice to what is written in place; whole ones do not.
// CHECK-LABEL: func.func @in_place
// CHECK: linalg.generic
// CHECK-LABEL: func.func @in_place_whole
// CHECK-NOT: linalg
// CHECK: return
func.func @in_place(%x: memref<40x32xf32>, %z: memref<32x40xf32>) {
  %tile = memref.alloca() : memref<32x40xf32>
  linalg.transpose ins(%x : memref<40x32xf32>) outs(%tile : memref<32x40xf32>) permutation = [1, 0]
  linalg.generic {indexing_maps = [#rows, #rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%z, %tile : memref<32x40xf32>, memref<32x40xf32>) outs(%z : memref<32x40xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  }
  return
}
func.func @in_place_whole(%x: memref<48x32xf32>, %z: memref<32x48xf32>) {
  %tile = memref.alloca() : memref<32x48xf32>
  linalg.transpose ins(%x : memref<48x32xf32>) outs(%tile : memref<32x48xf32>) permutation = [1, 0]
  linalg.generic {indexing_maps = [#rows, #rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%z, %tile : memref<32x48xf32>, memref<32x48xf32>) outs(%z : memref<32x48xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  }
  return
}

// Functions are not there 16 times; a tile that is read twice stays one; and so does one of which a side is shorter than
// a vector.
// CHECK-LABEL: func.func @left_alone
// CHECK-COUNT-4: linalg.generic
func.func @left_alone(%w: memref<16x16xf32>, %v: memref<16x8xf32>, %y: memref<16x16xf32>, %u: memref<8x16xf32>) {
  %1 = memref.alloca() : memref<16x16xf32>
  linalg.transpose ins(%w : memref<16x16xf32>) outs(%1 : memref<16x16xf32>) permutation = [1, 0]
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%1 : memref<16x16xf32>) outs(%y : memref<16x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  }
  %2 = memref.alloca() : memref<16x16xf32>
  linalg.transpose ins(%w : memref<16x16xf32>) outs(%2 : memref<16x16xf32>) permutation = [1, 0]
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%2 : memref<16x16xf32>) outs(%y : memref<16x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %a : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%2 : memref<16x16xf32>) outs(%y : memref<16x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.mulf %a, %a : f32
    linalg.yield %r : f32
  }
  %3 = memref.alloca() : memref<8x16xf32>
  linalg.transpose ins(%v : memref<16x8xf32>) outs(%3 : memref<8x16xf32>) permutation = [1, 0]
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%3 : memref<8x16xf32>) outs(%u : memref<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %a : f32
    linalg.yield %r : f32
  }
  return
}

// Of rows as far apart as a call says.
// CHECK-LABEL: func.func @of_a_call
// CHECK-NOT: scf.if
// CHECK-COUNT-64: vector.shuffle
// CHECK-NOT: linalg
func.func @of_a_call(%x: memref<f32>, %y: memref<32x32xf32>, %z: memref<32x32xf32>, %n: index) {
  %whole = memref.reinterpret_cast %x to offset: [0], sizes: [%n, %n], strides: [%n, 1] : memref<f32> to memref<?x?xf32, strided<[?, 1]>>
  %part = memref.subview %whole[0, 0] [32, 32] [1, 1] : memref<?x?xf32, strided<[?, 1]>> to memref<32x32xf32, strided<[?, 1]>>
  %tile = memref.alloca() : memref<32x32xf32>
  linalg.transpose ins(%part : memref<32x32xf32, strided<[?, 1]>>) outs(%tile : memref<32x32xf32>) permutation = [1, 0]
  linalg.generic {indexing_maps = [#rows, #rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%y, %tile : memref<32x32xf32>, memref<32x32xf32>) outs(%z : memref<32x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  }
  return
}

// Of rows that begin one element apart, as those of windows do.
// CHECK-LABEL: func.func @windows
// CHECK-NOT: scf.if
// CHECK-COUNT-64: vector.shuffle
// CHECK-NOT: linalg
func.func @windows(%x: memref<f32>, %y: memref<32x32xf32>, %z: memref<32x32xf32>, %n: index) {
  %whole = memref.reinterpret_cast %x to offset: [0], sizes: [%n, %n], strides: [1, 1] : memref<f32> to memref<?x?xf32, strided<[1, 1]>>
  %part = memref.subview %whole[0, 0] [32, 32] [1, 1] : memref<?x?xf32, strided<[1, 1]>> to memref<32x32xf32, strided<[1, 1]>>
  %tile = memref.alloca() : memref<32x32xf32>
  linalg.transpose ins(%part : memref<32x32xf32, strided<[1, 1]>>) outs(%tile : memref<32x32xf32>) permutation = [1, 0]
  linalg.generic {indexing_maps = [#rows, #rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%y, %tile : memref<32x32xf32>, memref<32x32xf32>) outs(%z : memref<32x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  }
  return
}

// Rows a page apart are no other case.
// CHECK-LABEL: func.func @page_apart
// CHECK-NOT: memref.alloca
// CHECK-COUNT-64: vector.shuffle
// CHECK-COUNT-16: arith.addf
// CHECK-COUNT-16: vector.store
// CHECK-NOT: linalg
func.func @page_apart(%x: memref<32x1024xf32>, %z: memref<1024x32xf32>) {
  %0 = memref.alloca() : memref<1024x32xf32>
  linalg.transpose ins(%x : memref<32x1024xf32>) outs(%0 : memref<1024x32xf32>) permutation = [1, 0]
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%0 : memref<1024x32xf32>) outs(%z : memref<1024x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %a : f32
    linalg.yield %r : f32
  }
  return
}

// Single numbers have no dim to run along.
// CHECK-LABEL: func.func @kernel_of_single_numbers
// CHECK-COUNT-2: linalg.generic
func.func @kernel_of_single_numbers(%x: memref<f32>, %y: memref<f32>) {
  %0 = memref.alloca() : memref<f32>
  linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
      ins(%x : memref<f32>) outs(%0 : memref<f32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
      ins(%0 : memref<f32>) outs(%y : memref<f32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  return
}
} }
