// RUN: cuesta-opt --pass-pipeline='builtin.module(expand-math)' %s | filecheck %s

// One function for numbers, which names those for vectors to LLVM; all ask libm where a number is large.
// CHECK-LABEL: func.func @cuesta_sin(
// CHECK-SAME: "noinline"
// CHECK-SAME: "_ZGV_LLVM_N4v_cuesta_sin(cuesta_sin_4),_ZGV_LLVM_N8v_cuesta_sin(cuesta_sin_8)"
// CHECK: %[[LARGE:.*]] = arith.cmpf olt
// CHECK: scf.if %[[LARGE]] -> (f64)
// CHECK-NEXT: llvm.intr.sin
// CHECK-LABEL: func.func @cuesta_sin_4(
// CHECK-LABEL: func.func @cuesta_sin_8(
// CHECK: %[[EACH:.*]] = arith.cmpf olt
// CHECK: %[[ANY:.*]] = vector.reduction <or>, %[[EACH]]
// CHECK: scf.if %[[ANY]] -> (vector<8xf64>)
// CHECK-NEXT: %[[LIBM:.*]] = llvm.intr.sin
// CHECK-NEXT: arith.select %[[EACH]], %[[LIBM]]

// They are defined once for all calls.
// CHECK-LABEL: func.func @twice
// CHECK-SAME: %[[X:.*]]: f64
// CHECK-NEXT: %[[Y:.*]] = call @cuesta_sin(%[[X]])
// CHECK-NEXT: %[[Z:.*]] = call @cuesta_sin(%[[Y]])
// CHECK-NEXT: return %[[Z]]
// CHECK-NOT: func.func
func.func @twice(%x: f64) -> f64 {
  %y = math.sin %x : f64
  %z = math.sin %y : f64
  return %z : f64
}
