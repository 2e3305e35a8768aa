// RUN: cuesta-opt --pass-pipeline='builtin.module(fold-views)' %s | filecheck %s

// What is known of a module's sizes is part of what makes two of them equal: half of s0 is a size whose double is s0,
// and parts of s2 and s3 elements are as long together as a tensor of s4, or s5.
// CHECK: module attributes {cuesta.zeros = ["(s0 % 2)", "(s1 // 3) - 1", "s2 + s3 - s4", "s5 - s4"]}
// CHECK-LABEL: func.func @there_and_back
// CHECK-SAME: (%[[X:.*]]: tensor<?x?xf32, ["s0", "s1"]>
// CHECK-NEXT: return %[[X]]
module attributes {cuesta.zeros = ["(s0 % 2)", "(s1 // 3) - 1", "s2 + s3 - s4", "s5 - s4"]} {
  func.func @there_and_back(%x: tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?x?xf32, ["s0", "s1"]> {
    %0 = "cuesta.reshape"(%x) : (tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?x2x?xf32, ["s0 // 2", "s1*(s1 // 3)"]>
    %1 = "cuesta.reshape"(%0) : (tensor<?x2x?xf32, ["s0 // 2", "s1*(s1 // 3)"]>) -> tensor<?x?xf32, ["s0", "s1"]>
    return %1 : tensor<?x?xf32, ["s0", "s1"]>
  }

  // The concatenation, the expansion and the sum are valid, though their sizes are written in three ways.
  // CHECK-LABEL: func.func @parts
  // CHECK: "cuesta.add"
  func.func @parts(%x: tensor<?xf32, ["s2"]>, %y: tensor<?xf32, ["s3"]>, %z: tensor<?xf32, ["s5"]>) -> tensor<?xf32, ["s4"]> {
    %0 = "cuesta.cat"(%x, %y) {dim = 0 : i64} : (tensor<?xf32, ["s2"]>, tensor<?xf32, ["s3"]>) -> tensor<?xf32, ["s2 + s3"]>
    %1 = "cuesta.expand"(%z) : (tensor<?xf32, ["s5"]>) -> tensor<?xf32, ["s2 + s3"]>
    %2 = "cuesta.add"(%0, %1) : (tensor<?xf32, ["s2 + s3"]>, tensor<?xf32, ["s2 + s3"]>) -> tensor<?xf32, ["s4"]>
    return %2 : tensor<?xf32, ["s4"]>
  }
}
