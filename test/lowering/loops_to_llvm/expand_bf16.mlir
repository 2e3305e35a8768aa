// RUN: cuesta-opt --pass-pipeline='builtin.module(expand-bf16)' %s | filecheck %s

// CHECK-LABEL: func.func @widen
// CHECK-SAME: %[[X:.*]]: bf16
// CHECK-NEXT: %[[BITS:.*]] = arith.bitcast %[[X]] : bf16 to i16
// CHECK-NEXT: %[[WORD:.*]] = arith.extui %[[BITS]] : i16 to i32
// CHECK-NEXT: %[[SIXTEEN:.*]] = arith.constant 16 : i32
// CHECK-NEXT: %[[UPPER:.*]] = arith.shli %[[WORD]], %[[SIXTEEN]]
// CHECK-NEXT: %[[Y:.*]] = arith.bitcast %[[UPPER]] : i32 to f32
// CHECK-NEXT: return %[[Y]]
func.func @widen(%x: bf16) -> f32 {
  %y = arith.extf %x : bf16 to f32
  return %y : f32
}

// Ties to even; every NaN becomes the one quiet NaN.
// CHECK-LABEL: func.func @narrow
// CHECK-NOT: arith.truncf
// CHECK: arith.constant 32767 : i32
// CHECK: %[[UPPER:.*]] = arith.trunci %{{.*}} : i32 to i16
// CHECK: %[[NAN:.*]] = arith.cmpf uno
// CHECK: arith.select %[[NAN]], %{{.*}}, %[[UPPER]] : i16
func.func @narrow(%x: f32) -> bf16 {
  %y = arith.truncf %x : f32 to bf16
  return %y : bf16
}

// f16 has conversions that keep denormals.
// CHECK-LABEL: func.func @others
// CHECK-NEXT: arith.extf
// CHECK-NEXT: arith.truncf
func.func @others(%x: f16, %y: f64) -> (f32, f32) {
  %0 = arith.extf %x : f16 to f32
  %1 = arith.truncf %y : f64 to f32
  return %0, %1 : f32, f32
}

// Vectors of them are vectors of integers.
// CHECK-LABEL: func.func @vectors
// CHECK: arith.extui %{{.*}} : vector<16xi16> to vector<16xi32>
// CHECK: %[[UPPER:.*]] = arith.trunci %{{.*}} : vector<16xi32> to vector<16xi16>
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[UPPER]] : vector<16xi1>, vector<16xi16>
func.func @vectors(%x: vector<16xbf16>) -> vector<16xbf16> {
  %0 = arith.extf %x : vector<16xbf16> to vector<16xf32>
  %1 = arith.addf %0, %0 : vector<16xf32>
  %2 = arith.truncf %1 : vector<16xf32> to vector<16xbf16>
  return %2 : vector<16xbf16>
}

// Kernels hold bf16 as i16: what moves, moves as integers, and what computes does so in f32.
// CHECK-LABEL: module @kernels
module @kernels {
  // CHECK-LABEL: func.func @moves
  // CHECK-SAME: (%[[X:.*]]: memref<8xi16, strided<[2]>>, %[[Y:.*]]: memref<8xi16>)
  // CHECK: %[[ONE:.*]] = arith.constant 16256 : i16
  // CHECK: %[[A:.*]] = affine.load %[[X]][%{{.*}}] : memref<8xi16, strided<[2]>>
  // CHECK: %[[B:.*]] = arith.select %{{.*}}, %[[A]], %[[ONE]] : i16
  // CHECK: affine.store %[[B]], %[[Y]][%{{.*}}] : memref<8xi16>
  func.func @moves(%x: memref<8xbf16, strided<[2]>>, %y: memref<8xbf16>) {
    %one = arith.constant 1.0 : bf16
    affine.for %i = 0 to 8 {
      %a = affine.load %x[%i] : memref<8xbf16, strided<[2]>>
      %p = arith.constant true
      %b = arith.select %p, %a, %one : bf16
      affine.store %b, %y[%i] : memref<8xbf16>
    }
    return
  }

  // CHECK-LABEL: func.func @computes
  // CHECK: %[[A:.*]] = affine.load %{{.*}} : memref<8xi16>
  // CHECK: arith.sitofp %{{.*}} : i64 to f32
  // CHECK: %[[W:.*]] = arith.bitcast %{{.*}} : i32 to f32
  // CHECK: arith.cmpf ogt, %[[W]], %{{.*}} : f32
  // CHECK: affine.store %{{.*}} : memref<8xi16>
  // CHECK-NOT: bf16
  // CHECK: return
  func.func @computes(%x: memref<8xbf16>, %n: i64) {
    affine.for %i = 0 to 8 {
      %a = affine.load %x[%i] : memref<8xbf16>
      %b = arith.sitofp %n : i64 to bf16
      %p = arith.cmpf ogt, %a, %b : bf16
      %c = arith.select %p, %a, %b : bf16
      affine.store %c, %x[%i] : memref<8xbf16>
    }
    return
  }

  // The same in vectors.
  // CHECK-LABEL: func.func @computes_vectors
  // CHECK: %[[A:.*]] = vector.load %{{.*}} : memref<8xi16>, vector<8xi16>
  // CHECK: arith.sitofp %{{.*}} : vector<8xi64> to vector<8xf32>
  // CHECK: %[[W:.*]] = arith.bitcast %{{.*}} : vector<8xi32> to vector<8xf32>
  // CHECK: arith.cmpf ogt, %[[W]], %{{.*}} : vector<8xf32>
  // CHECK: vector.store %{{.*}} : memref<8xi16>, vector<8xi16>
  // CHECK-NOT: bf16
  // CHECK: return
  func.func @computes_vectors(%x: memref<8xbf16>, %n: vector<8xi64>) {
    %i = arith.constant 0 : index
    %a = vector.load %x[%i] : memref<8xbf16>, vector<8xbf16>
    %b = arith.sitofp %n : vector<8xi64> to vector<8xbf16>
    %p = arith.cmpf ogt, %a, %b : vector<8xbf16>
    %c = arith.select %p, %a, %b : vector<8xi1>, vector<8xbf16>
    vector.store %c, %x[%i] : memref<8xbf16>, vector<8xbf16>
    return
  }

  // LLVM's own ops take bf16, from vectors that are held as i16.
  // CHECK-LABEL: func.func @multiplies_pairs
  // CHECK: %[[A:.*]] = vector.load {{.*}} : memref<64xi16>, vector<32xi16>
  // CHECK: %[[B:.*]] = llvm.bitcast %[[A]] : vector<32xi16> to vector<32xbf16>
  // CHECK: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"(%{{.*}}, %[[B]], %{{.*}}) : (vector<16xf32>, vector<32xbf16>, vector<32xbf16>)
  func.func @multiplies_pairs(%x: memref<64xbf16>, %s: vector<16xf32>) -> vector<16xf32> {
    %i = arith.constant 0 : index
    %a = vector.load %x[%i] : memref<64xbf16>, vector<32xbf16>
    %t = llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"(%s, %a, %a) : (vector<16xf32>, vector<32xbf16>, vector<32xbf16>) -> vector<16xf32>
    return %t : vector<16xf32>
  }
}

// An integer of 8 bits is a bf16 without rounding.
// CHECK-LABEL: func.func @of_bytes
// CHECK: %[[F:.*]] = arith.sitofp %{{.*}} : i8 to f32
// CHECK-NEXT: %[[I:.*]] = arith.bitcast %[[F]] : f32 to i32
// CHECK: %[[U:.*]] = arith.shrui %[[I]], %{{.*}} : i32
// CHECK-NEXT: arith.trunci %[[U]] : i32 to i16
// CHECK-NOT: arith.cmpf
// CHECK: return
func.func @of_bytes(%x: i8) -> bf16 {
  %0 = arith.sitofp %x : i8 to f32
  %1 = arith.truncf %0 : f32 to bf16
  return %1 : bf16
}
