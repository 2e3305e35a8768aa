// RUN: cuesta-opt --pass-pipeline='builtin.module(expand-math)' %s | filecheck %s

// The reduction, the polynomial, and the scale by a power of two made from the bits of the rounded quotient.
// CHECK-LABEL: func.func @exp
// CHECK-NOT: math.exp
// CHECK: %[[SHIFTED:.*]] = math.fma
// CHECK: %[[BITS:.*]] = arith.bitcast %[[SHIFTED]] : f32 to i32
// CHECK: %[[EXPONENT:.*]] = arith.shli %[[BITS]]
// CHECK: %[[SCALE:.*]] = arith.bitcast %[[EXPONENT]] : i32 to f32
// CHECK: %[[ONCE:.*]] = arith.mulf %{{.*}}, %[[SCALE]] : f32
// CHECK-NEXT: %[[TWICE:.*]] = arith.mulf %[[ONCE]], %[[SCALE]] : f32
// CHECK-NEXT: return %[[TWICE]]
func.func @exp(%x: f32) -> f32 {
  %y = math.exp %x : f32
  return %y : f32
}

// An exact root and an exact division, as eager.
// CHECK-LABEL: func.func @rsqrt
// CHECK-SAME: %[[X:.*]]: f32
// CHECK: %[[ROOT:.*]] = math.sqrt %[[X]] : f32
// CHECK: %[[Y:.*]] = arith.divf %{{.*}}, %[[ROOT]] : f32
// CHECK: return %[[Y]]
func.func @rsqrt(%x: f32) -> f32 {
  %y = math.rsqrt %x : f32
  return %y : f32
}

// Narrow floats are computed in f32.
// CHECK-LABEL: func.func @narrow
// CHECK-SAME: %[[X:.*]]: bf16
// CHECK: arith.extf %[[X]] : bf16 to f32
// CHECK-NOT: math.tanh
// CHECK: %[[Y:.*]] = arith.truncf %{{.*}} : f32 to bf16
// CHECK: return %[[Y]]
func.func @narrow(%x: bf16) -> bf16 {
  %y = math.tanh %x : bf16
  return %y : bf16
}

// The body of a loop, which is where it matters.
// CHECK-LABEL: func.func @in_a_loop
// CHECK: scf.for
// CHECK-NOT: math.log
// CHECK: memref.store
func.func @in_a_loop(%x: memref<8xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 8 : index
  scf.for %i = %zero to %end step %one {
    %e = memref.load %x[%i] : memref<8xf32>
    %y = math.log %e : f32
    memref.store %y, %x[%i] : memref<8xf32>
  }
  return
}

// Of vectors of f32 each element is.
// CHECK-LABEL: func.func @vector
// CHECK-NOT: math.exp
// CHECK: %[[BITS:.*]] = arith.bitcast %{{.*}} : vector<16xf32> to vector<16xi32>
// CHECK: return
func.func @vector(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.exp %x : vector<16xf32>
  return %y : vector<16xf32>
}

// What f64 has no expansion of is left for libm, and what is one instruction anyway is left alone.
// CHECK-LABEL: func.func @stays
// CHECK-NEXT: arith.remf %{{.*}} : f64
// CHECK-NEXT: math.sin %{{.*}} : vector<4xf64>
// CHECK-NEXT: math.sqrt %{{.*}} : f32
// CHECK-NEXT: math.floor %{{.*}} : f32
// CHECK-NEXT: return
func.func @stays(%x: f64, %v: vector<4xf64>, %s: f32) -> (f64, vector<4xf64>, f32, f32) {
  %a = arith.remf %x, %x : f64
  %b = math.sin %v : vector<4xf64>
  %c = math.sqrt %s : f32
  %d = math.floor %s : f32
  return %a, %b, %c, %d : f64, vector<4xf64>, f32, f32
}

// f64 has polynomials of its own. 2^n is two numbers from the bits of n, so that what is subnormal is rounded once.
// CHECK-LABEL: func.func @double
// CHECK-NOT: math.exp
// CHECK: %[[BITS:.*]] = arith.bitcast %{{.*}} : f64 to i64
// CHECK: %[[FIRST_BITS:.*]] = arith.andi
// CHECK: %[[FIRST:.*]] = arith.bitcast %[[FIRST_BITS]] : i64 to f64
// CHECK: %[[SECOND_BITS:.*]] = arith.subi %{{.*}}, %[[FIRST_BITS]]
// CHECK: %[[SECOND:.*]] = arith.bitcast %[[SECOND_BITS]] : i64 to f64
// CHECK: %[[ONCE:.*]] = math.fma %{{.*}}, %[[FIRST]], %[[FIRST]] : f64
// CHECK: %[[TWICE:.*]] = arith.mulf %[[ONCE]], %[[SECOND]] : f64
// CHECK: return %[[TWICE]]
func.func @double(%x: f64) -> f64 {
  %y = math.exp %x : f64
  return %y : f64
}

// CHECK-LABEL: func.func @vector_of_double
// CHECK-NOT: math.log
// CHECK: arith.divf %{{.*}} : vector<8xf64>
// CHECK: return
func.func @vector_of_double(%x: vector<8xf64>) -> vector<8xf64> {
  %y = math.log1p %x : vector<8xf64>
  return %y : vector<8xf64>
}

// The sign of an f64 on what becomes f16 is set in bits: LLVM's backend would round the f64 to f16.
// CHECK-LABEL: func.func @sign_of_double
// CHECK-SAME: %[[X:.*]]: f32, %[[W:.*]]: f64
// CHECK-NOT: math.copysign
// CHECK: %[[BITS:.*]] = arith.bitcast %[[W]] : f64 to i64
// CHECK: arith.shrui %[[BITS]]
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @sign_of_double(%x: f32, %w: f64) -> f16 {
  %s = arith.truncf %w : f64 to f32
  %y = math.copysign %x, %s : f32
  %z = arith.truncf %y : f32 to f16
  return %z : f16
}

// Of an f64 that is rounded twice too: masked bits of one width would be a copysign again.
// CHECK-LABEL: func.func @sign_of_two_doubles
// CHECK-SAME: %[[X:.*]]: f64, %[[W:.*]]: f64
// CHECK: %[[N:.*]] = arith.truncf %[[X]] : f64 to f32
// CHECK: arith.bitcast %[[N]] : f32 to i32
// CHECK: %[[BITS:.*]] = arith.bitcast %[[W]] : f64 to i64
// CHECK: arith.shrui %[[BITS]]
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @sign_of_two_doubles(%x: f64, %w: f64) -> f16 {
  %y = math.copysign %x, %w : f64
  %n = arith.truncf %y : f64 to f32
  %z = arith.truncf %n : f32 to f16
  return %z : f16
}

// CHECK-LABEL: func.func @sign_for_a_float
// CHECK: math.copysign
func.func @sign_for_a_float(%x: f32, %w: f64) -> f32 {
  %s = arith.truncf %w : f64 to f32
  %y = math.copysign %x, %s : f32
  return %y : f32
}

// What no integer holds becomes the least one.
// CHECK-LABEL: func.func @to_integer
// CHECK-SAME: %[[X:.*]]: f32
// CHECK-DAG: %[[SIZE:.*]] = math.absf %[[X]] : f32
// CHECK-DAG: %[[LIMIT:.*]] = arith.constant 2.14748365E+9 : f32
// CHECK: %[[HOLDS:.*]] = arith.cmpf olt, %[[SIZE]], %[[LIMIT]] : f32
// CHECK: %[[INT:.*]] = arith.fptosi %[[X]] : f32 to i32
// CHECK: %[[LEAST:.*]] = arith.constant -2147483648 : i32
// CHECK: %[[Y:.*]] = arith.select %[[HOLDS]], %[[INT]], %[[LEAST]] : i32
// CHECK: return %[[Y]]
func.func @to_integer(%x: f32) -> i32 {
  %y = arith.fptosi %x : f32 to i32
  return %y : i32
}
