// RUN: cuesta-opt --pass-pipeline='builtin.module(join-loops)' %s | filecheck %s

module {
  module @kernels {
    // Columns on both sides of the rows, one before them and one behind: each row is written from left to right.
    // CHECK-LABEL: func.func @padded(
    // CHECK: affine.for %[[R:.*]] = 0 to 56 {
    // CHECK-NEXT: affine.store %{{.*}}, %{{.*}}[%[[R]]] : memref<56xf32, strided<[58]>>
    // CHECK-NEXT: affine.for %[[C:.*]] = 0 to 56
    // CHECK: affine.store %{{.*}}, %{{.*}}[%[[R]], %[[C]]]
    // CHECK-NEXT: }
    // CHECK-NEXT: affine.store %{{.*}}, %{{.*}}[%[[R]]] : memref<56xf32, strided<[58], offset: 57>>
    // CHECK-NEXT: }
    // CHECK-NEXT: return
    func.func @padded(%x: memref<56x56xf32>, %left: memref<56xf32, strided<[58]>>, %rows: memref<56x56xf32, strided<[58, 1], offset: 1>>, %right: memref<56x58xf32>) {
      %zero = arith.constant 0.0 : f32
      affine.for %r = 0 to 56 {
        affine.store %zero, %left[%r] : memref<56xf32, strided<[58]>>
      }
      affine.for %r = 0 to 56 {
        affine.for %c = 0 to 56 {
          %0 = affine.load %x[%r, %c] : memref<56x56xf32>
          affine.store %0, %rows[%r, %c] : memref<56x56xf32, strided<[58, 1], offset: 1>>
        }
      }
      %one = arith.constant 1.0 : f32
      %column = memref.subview %right[0, 57] [56, 1] [1, 1] : memref<56x58xf32> to memref<56xf32, strided<[58], offset: 57>>
      affine.for %r = 0 to 56 {
        affine.store %one, %column[%r] : memref<56xf32, strided<[58], offset: 57>>
      }
      return
    }

    // Two columns behind the rows that need one constant: it stays before the view that it was moved with first.
    // CHECK-LABEL: func.func @constant_of_two(
    // CHECK-COUNT-1: {{^      }}affine.for
    // CHECK-NOT: {{^      }}affine.for
    // CHECK: return
    func.func @constant_of_two(%x: memref<56x56xf32>, %rows: memref<56x56xf32>, %left: memref<2x56x2xf32>, %right: memref<56x2xf32>) {
      %zero = arith.constant 0.0 : f32
      affine.for %r = 0 to 56 {
        affine.for %c = 0 to 56 {
          %0 = affine.load %x[%r, %c] : memref<56x56xf32>
          affine.store %0, %rows[%r, %c] : memref<56x56xf32>
        }
      }
      %one = arith.constant 1 : index
      %part = memref.subview %left[%one, 0, 0] [1, 56, 2] [1, 1, 1] : memref<2x56x2xf32> to memref<56x2xf32, strided<[2, 1], offset: ?>>
      affine.for %r = 0 to 56 {
        affine.store %zero, %part[%r, 0] : memref<56x2xf32, strided<[2, 1], offset: ?>>
      }
      affine.for %r = 0 to 56 {
        affine.store %zero, %right[%r, symbol(%one)] : memref<56x2xf32>
      }
      return
    }

    // What the rows read must be written before them, and what is written beside each other is no column.
    // CHECK-LABEL: func.func @apart(
    // CHECK-COUNT-3: {{^      }}affine.for
    func.func @apart(%x: memref<56x56xf32>, %y: memref<56xf32>, %rows: memref<56x56xf32>) {
      %zero = arith.constant 0.0 : f32
      %column = memref.subview %x[0, 3] [56, 1] [1, 1] : memref<56x56xf32> to memref<56xf32, strided<[56], offset: 3>>
      affine.for %r = 0 to 56 {
        affine.store %zero, %column[%r] : memref<56xf32, strided<[56], offset: 3>>
      }
      affine.for %r = 0 to 56 {
        affine.for %c = 0 to 56 {
          %0 = affine.load %x[%r, %c] : memref<56x56xf32>
          affine.store %0, %rows[%r, %c] : memref<56x56xf32>
        }
      }
      affine.for %r = 0 to 56 {
        affine.store %zero, %y[%r] : memref<56xf32>
      }
      return
    }
  }
}
