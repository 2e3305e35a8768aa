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
