// RUN: cuesta-opt --print-ir-before-all --print-ir-after-all \
// RUN:   --pass-pipeline='builtin.module(func.func(cse,canonicalize))' %s 2>&1 | filecheck %s

// Nested passes are shown one at a time, and each prints the whole module.
// CHECK: IR Dump Before func.func(cse)
// CHECK-COUNT-2: arith.constant 1 : i32
// CHECK: IR Dump After func.func(cse)
// CHECK-COUNT-1: arith.constant 1 : i32
// CHECK-NOT: arith.constant
// CHECK: IR Dump Before func.func(canonicalize)
// CHECK: IR Dump After func.func(canonicalize)
// CHECK: arith.constant 2 : i32
// CHECK-NOT: arith.addi
func.func @sum() -> i32 {
  %0 = arith.constant 1 : i32
  %1 = arith.constant 1 : i32
  %2 = arith.addi %0, %1 : i32
  return %2 : i32
}
