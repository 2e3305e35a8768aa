// RUN: cuesta-opt --pass-pipeline='builtin.module(sum-boxes{longest=100})' %s | filecheck %s

#rows = affine_map<(n, c) -> (n, c)>
#columns = affine_map<(n, c) -> (c)>
#all = affine_map<(n, h, w) -> (n, h, w)>
#one = affine_map<(n, h, w) -> ()>

module { module @kernels {

// Columns of more numbers than 100: each box of rows is summed in memory of the whole call, and added to the sums.
// CHECK-LABEL: func.func @columns
// CHECK: %[[PART:.*]] = memref.alloca() {{.*}}: memref<64xf32>
// CHECK: %[[X:.*]] = memref.reinterpret_cast
// CHECK: %[[R:.*]] = memref.subview
// CHECK: %[[N:.*]] = memref.dim %[[X]]
// CHECK-NOT: scf.if
// CHECK: scf.for %[[START:.*]] = %{{.*}} to %[[N]] step
// CHECK: %[[SUMS:.*]] = memref.subview %[[PART]]
// CHECK: linalg.fill {{.*}} outs(%[[SUMS]]
// CHECK: %[[BOX:.*]] = memref.subview %[[X]][%[[START]], %{{.*}}]
// CHECK: linalg.generic {{.*}}"reduction", "parallel"{{.*}} ins(%[[BOX]] : {{.*}}) outs(%[[SUMS]]
// CHECK: linalg.index 0
// CHECK: arith.addi %{{.*}}, %[[START]]
// CHECK: linalg.generic {{.*}} ins(%[[SUMS]] : {{.*}}) outs(%[[R]]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @columns(%from: memref<f32>, %to: memref<64xf32>, %n: index, %c: index) {
  %x = memref.reinterpret_cast %from to offset: [0], sizes: [%n, 64], strides: [64, 1] : memref<f32> to memref<?x64xf32>
  %most = arith.constant 64 : index
  %width = arith.minsi %c, %most : index
  %r = memref.subview %to[0] [%width] [1] : memref<64xf32> to memref<?xf32, strided<[1]>>
  linalg.generic {indexing_maps = [#rows, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : memref<?x64xf32>) outs(%r : memref<?xf32, strided<[1]>>) {
  ^bb0(%a: f32, %s: f32):
    %i = linalg.index 0 : index
    %k = arith.index_cast %i : index to i32
    %f = arith.sitofp %k : i32 to f32
    %p = arith.mulf %a, %f : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }
  return
}

// Along vectors 16 times as many, which the last dims give first; fewer stay one sum.
// CHECK-LABEL: func.func @whole
// CHECK-SAME: %[[R:[a-z0-9]*]]: memref<f32>, %{{[a-z0-9]*}}: index, %{{[a-z0-9]*}}: index)
// CHECK: memref.alloca() {{.*}}: memref<f32>
// CHECK: %[[H:.*]] = arith.constant 30 : index
// CHECK: arith.constant 1600 : index
// CHECK: scf.if
// CHECK-COUNT-3: scf.for
// CHECK: } else {
// CHECK-NEXT: linalg.generic {{.*}} outs(%[[R]] :
func.func @whole(%from: memref<f32>, %r: memref<f32>, %n: index, %w: index) {
  %s = arith.constant 900 : index
  %x = memref.reinterpret_cast %from to offset: [0], sizes: [%n, 30, %w], strides: [%s, 30, 1] : memref<f32> to memref<?x30x?xf32, strided<[?, 30, 1]>>
  linalg.generic {indexing_maps = [#all, #one], iterator_types = ["reduction", "reduction", "reduction"]} ins(%x : memref<?x30x?xf32, strided<[?, 30, 1]>>) outs(%r : memref<f32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %b, %a : f32
    linalg.yield %t : f32
  }
  return
}

// What is known to be few, no sum, of another type, or for more sums than a tile has, stays.
// CHECK-LABEL: func.func @others
// CHECK-NOT: scf.if
// CHECK: return
func.func @others(%from: memref<f32>, %to: memref<64xf32>, %r: memref<?xf32>, %d: memref<64xf64>, %y: memref<?x64xf64>, %n: index) {
  %x = memref.reinterpret_cast %from to offset: [0], sizes: [%n, 64], strides: [64, 1] : memref<f32> to memref<?x64xf32>
  %few = memref.reinterpret_cast %from to offset: [0], sizes: [80, 64], strides: [64, 1] : memref<f32> to memref<80x64xf32>
  linalg.generic {indexing_maps = [#rows, #columns], iterator_types = ["reduction", "parallel"]} ins(%few : memref<80x64xf32>) outs(%to : memref<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %b, %a : f32
    linalg.yield %t : f32
  }
  linalg.generic {indexing_maps = [#rows, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : memref<?x64xf32>) outs(%to : memref<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.maximumf %b, %a : f32
    linalg.yield %t : f32
  }
  linalg.generic {indexing_maps = [#rows, #columns], iterator_types = ["reduction", "parallel"]} ins(%y : memref<?x64xf64>) outs(%d : memref<64xf64>) {
  ^bb0(%a: f64, %b: f64):
    %t = arith.addf %b, %a : f64
    linalg.yield %t : f64
  }
  linalg.generic {indexing_maps = [#rows, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : memref<?x64xf32>) outs(%r : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %b, %a : f32
    linalg.yield %t : f32
  }
  return
}

} }
