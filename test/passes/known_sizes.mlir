// RUN: cuesta-opt --pass-pipeline='builtin.module(fold-views)' %s | filecheck %s

// What is known of a module's sizes is part of what makes two of them equal: half of s0 is a size whose double is s0.
// CHECK: module attributes {cuesta.zeros = ["(s0 % 2)", "(s1 // 3) - 1"]}
// CHECK-LABEL: func.func @there_and_back
// CHECK-SAME: (%[[X:.*]]: tensor<?x?xf32, ["s0", "s1"]>
// CHECK-NEXT: return %[[X]]
module attributes {cuesta.zeros = ["(s0 % 2)", "(s1 // 3) - 1"]} {
  func.func @there_and_back(%x: tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?x?xf32, ["s0", "s1"]> {
    %0 = "cuesta.reshape"(%x) : (tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?x2x?xf32, ["s0 // 2", "s1*(s1 // 3)"]>
    %1 = "cuesta.reshape"(%0) : (tensor<?x2x?xf32, ["s0 // 2", "s1*(s1 // 3)"]>) -> tensor<?x?xf32, ["s0", "s1"]>
    return %1 : tensor<?x?xf32, ["s0", "s1"]>
  }
}
