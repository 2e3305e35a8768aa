// RUN: cuesta-opt --pass-pipeline='builtin.module(short-rows)' %s | filecheck %s

// CHECK-DAG: #[[VECTORS:.*]] = #llvm.loop_vectorize<disable = true>
// CHECK-DAG: #[[UNROLL:.*]] = #llvm.loop_unroll<disable = true>
// CHECK-DAG: #[[ALONE:.*]] = #llvm.loop_annotation<vectorize = #[[VECTORS]]>
// CHECK-DAG: #[[WHOLE:.*]] = #llvm.loop_annotation<unroll = #[[UNROLL]]>

// Ten f32 are 40 bytes: the loop around them is left alone.
// CHECK-LABEL: func.func @ten
// CHECK: memref.store
// CHECK: } {llvm.loop_annotation = #[[ALONE]]}
// CHECK-NOT: llvm.loop_annotation
// CHECK-LABEL: func.func @eight
// CHECK-NOT: llvm.loop_annotation
// CHECK-LABEL: func.func @position
// CHECK: } {llvm.loop_annotation = #[[WHOLE]]}
// CHECK-NOT: llvm.loop_annotation
module {
module @kernels {
func.func @ten(%x: memref<99xf32>, %y: memref<99x10xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c10 = arith.constant 10 : index
  %c99 = arith.constant 99 : index
  scf.for %i = %c0 to %c99 step %c1 {
    %0 = memref.load %x[%i] : memref<99xf32>
    scf.for %j = %c0 to %c10 step %c1 {
      memref.store %0, %y[%i, %j] : memref<99x10xf32>
    }
  }
  return
}

// 32 bytes; columns; a sum; a row that is not unrolled; a bound that the call tells.
func.func @eight(%y: memref<99x8xf32>, %t: memref<10x99xf32>, %s: memref<99x10xf32>, %l: memref<99x33xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c10 = arith.constant 10 : index
  %c33 = arith.constant 33 : index
  %c99 = arith.constant 99 : index
  %one = arith.constant 1.0 : f32
  scf.for %i = %c0 to %c99 step %c1 {
    scf.for %j = %c0 to %c8 step %c1 {
      memref.store %one, %y[%i, %j] : memref<99x8xf32>
    }
  }
  scf.for %i = %c0 to %c99 step %c1 {
    scf.for %j = %c0 to %c10 step %c1 {
      memref.store %one, %t[%j, %i] : memref<10x99xf32>
    }
  }
  scf.for %i = %c0 to %c99 step %c1 {
    scf.for %j = %c0 to %c10 step %c1 {
      %0 = memref.load %s[%i, %j] : memref<99x10xf32>
      %1 = arith.addf %0, %one : f32
      memref.store %1, %s[%i, %j] : memref<99x10xf32>
    }
  }
  scf.for %i = %c0 to %c99 step %c1 {
    scf.for %j = %c0 to %c33 step %c1 {
      memref.store %one, %l[%i, %j] : memref<99x33xf32>
    }
  }
  scf.for %i = %c0 to %c99 step %c1 {
    scf.for %j = %c0 to %n step %c1 {
      memref.store %one, %l[%i, %j] : memref<99x33xf32>
    }
  }
  return
}

// The least of what is made of the numbers of 16 elements, and of 8.
func.func @position(%x: memref<16xf32>, %p: memref<i32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %far = arith.constant 16 : i32
  scf.for %i = %c0 to %c16 step %c1 {
    %0 = memref.load %x[%i] : memref<16xf32>
    %1 = memref.load %p[] : memref<i32>
    %2 = arith.cmpf oeq, %0, %zero : f32
    %3 = arith.index_cast %i : index to i32
    %4 = arith.select %2, %3, %far : i32
    %5 = arith.minsi %1, %4 : i32
    memref.store %5, %p[] : memref<i32>
  }
  scf.for %i = %c0 to %c8 step %c1 {
    %0 = arith.index_cast %i : index to i32
    %1 = memref.load %p[] : memref<i32>
    %2 = arith.minsi %1, %0 : i32
    memref.store %2, %p[] : memref<i32>
  }
  return
}
}
}
