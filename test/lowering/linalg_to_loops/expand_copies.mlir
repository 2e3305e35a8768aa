// RUN: cuesta-opt --pass-pipeline='builtin.module(expand-copies)' %s | filecheck %s

// CHECK-LABEL: func.func @strided
// CHECK-SAME: (%[[A:.*]]: memref<4x8xf32>, %[[B:.*]]: memref<4x8xf32, strided<[16, 1]>>)
// CHECK-NEXT: linalg.copy {{.*}}ins(%[[A]] : memref<4x8xf32>) outs(%[[B]] : memref<4x8xf32, strided<[16, 1]>>)
// CHECK-NOT: memref.copy
func.func @strided(%a: memref<4x8xf32>, %b: memref<4x8xf32, strided<[16, 1]>>) {
  memref.copy %a, %b : memref<4x8xf32> to memref<4x8xf32, strided<[16, 1]>>
  return
}
