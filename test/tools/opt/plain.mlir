// RUN: cuesta-opt %s | filecheck %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(func.func(cse))' %s | filecheck --check-prefix=CSE %s

// CHECK-LABEL: func.func @twice
// CHECK-COUNT-2: arith.mulf

// CSE-LABEL: func.func @twice
// CSE: %[[PRODUCT:.*]] = arith.mulf
// CSE-NEXT: arith.addf %[[PRODUCT]], %[[PRODUCT]]
func.func @twice(%x: f32) -> f32 {
  %0 = arith.mulf %x, %x : f32
  %1 = arith.mulf %x, %x : f32
  %2 = arith.addf %0, %1 : f32
  return %2 : f32
}
