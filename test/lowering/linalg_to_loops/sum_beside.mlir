// RUN: cuesta-opt --pass-pipeline='builtin.module(sum-beside)' %s | filecheck %s

#rows = affine_map<(n, c) -> (n, c)>
#columns = affine_map<(n, c) -> (c)>
#sums = affine_map<(n, c) -> (n)>

module { module @kernels {

// Sums of columns whose places lie apart have memory of their own, that of the whole call.
// CHECK-LABEL: func.func @apart
// CHECK-SAME: (%[[X:.*]]: memref<98x120xf32>, %[[R:.*]]: memref<120xf32, strided<[25]>>, %[[N:.*]]: index)
// CHECK: %[[S:.*]] = memref.alloca() {{.*}}: memref<120xf32>
// CHECK: scf.for
// CHECK: linalg.copy ins(%[[R]] : {{.*}}) outs(%[[S]] : memref<120xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[X]] : memref<98x120xf32>) outs(%[[S]] : memref<120xf32>)
// CHECK: linalg.copy ins(%[[S]] : memref<120xf32>) outs(%[[R]]
func.func @apart(%x: memref<98x120xf32>, %r: memref<120xf32, strided<[25]>>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    linalg.generic {indexing_maps = [#rows, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : memref<98x120xf32>) outs(%r : memref<120xf32, strided<[25]>>) {
    ^bb0(%a: f32, %s: f32):
      %t = arith.addf %s, %a : f32
      linalg.yield %t : f32
    }
  }
  return
}

// Sums side by side, sums along what is read, and what is no sum stay.
// CHECK-LABEL: func.func @others
// CHECK-NOT: memref.alloca
// CHECK: return
func.func @others(%x: memref<98x120xf32>, %r: memref<120xf32>, %s: memref<98xf32, strided<[25]>>, %y: memref<98x120xf32, strided<[3000, 25]>>) {
  linalg.generic {indexing_maps = [#rows, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : memref<98x120xf32>) outs(%r : memref<120xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %b, %a : f32
    linalg.yield %t : f32
  }
  linalg.generic {indexing_maps = [#rows, #sums], iterator_types = ["parallel", "reduction"]} ins(%x : memref<98x120xf32>) outs(%s : memref<98xf32, strided<[25]>>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %b, %a : f32
    linalg.yield %t : f32
  }
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%x : memref<98x120xf32>) outs(%y : memref<98x120xf32, strided<[3000, 25]>>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}

// Of a number of sums that only a call tells, none: its memory would have no size (a crash).
// CHECK-LABEL: func.func @as_many_as_a_call_says
// CHECK-NOT: memref.alloca
// CHECK: return
func.func @as_many_as_a_call_says(%x: memref<?x?xf32, strided<[?, 1]>>, %r: memref<?xf32, strided<[?]>>) {
  linalg.generic {indexing_maps = [#rows, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : memref<?x?xf32, strided<[?, 1]>>) outs(%r : memref<?xf32, strided<[?]>>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %b, %a : f32
    linalg.yield %t : f32
  }
  return
}
} }
