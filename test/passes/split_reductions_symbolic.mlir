// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(split-reductions)' %s 2>&1 | filecheck %s

// What divides a size whatever the call is: here a size of its own, as many parts as there are images.
// CHECK: func.func @images
// CHECK: %[[P:.*]] = "cuesta.sum"(%arg0) {dims = [2], keepdim = 0 : i64} : (tensor<?x64x3136xf32, ["s0"]>) -> tensor<?x64xf32, ["s0"]>
// CHECK: %[[T:.*]] = "cuesta.sum"(%[[P]]) {dims = [0], keepdim = 0 : i64} : (tensor<?x64xf32, ["s0"]>) -> tensor<64xf32>
module attributes {cuesta.hints = {s0 = 32 : i64}} {
  func.func @images(%x: tensor<?x64x3136xf32, ["s0"]>) -> tensor<64xf32> {
    %0 = "cuesta.sum"(%x) {dims = [0, 2], keepdim = 0} : (tensor<?x64x3136xf32, ["s0"]>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}

// -----

// A batch of rows that became one dim is taken apart again.
// CHECK: func.func @rows
// CHECK: %[[R:.*]] = "cuesta.reshape"(%arg0) : (tensor<?x768xf32, ["s0*s1"]>) -> tensor<?x?x768xf32, ["s0", "s1"]>
// CHECK: %[[P:.*]] = "cuesta.sum"(%[[R]]) {dims = [1], keepdim = 0 : i64} : {{.*}} -> tensor<?x768xf32, ["s0"]>
// CHECK: "cuesta.sum"(%[[P]]) {dims = [0], keepdim = 0 : i64} : {{.*}} -> tensor<768xf32>
module attributes {cuesta.hints = {s0 = 16 : i64, s1 = 512 : i64}} {
  func.func @rows(%x: tensor<?x768xf32, ["s0*s1"]>) -> tensor<768xf32> {
    %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<?x768xf32, ["s0*s1"]>) -> tensor<768xf32>
    return %0 : tensor<768xf32>
  }
}

// -----

// A number that divides the size comes first where it makes enough parts.
// CHECK: func.func @number
// CHECK: "cuesta.reshape"(%arg0) : (tensor<?x768xf32, ["64*s0"]>) -> tensor<32x?x768xf32, ["2*s0"]>
module attributes {cuesta.hints = {s0 = 128 : i64}} {
  func.func @number(%x: tensor<?x768xf32, ["64*s0"]>) -> tensor<768xf32> {
    %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<?x768xf32, ["64*s0"]>) -> tensor<768xf32>
    return %0 : tensor<768xf32>
  }
}

// -----

// Parts of one element are none.
// CHECK: func.func @nothing_left
// CHECK-NOT: cuesta.reshape
// CHECK: "cuesta.sum"(%arg0) {dims = [0], keepdim = 0 : i64} : (tensor<?x768xf32, ["s0"]>) -> tensor<768xf32>
module attributes {cuesta.hints = {s0 = 8192 : i64}} {
  func.func @nothing_left(%x: tensor<?x768xf32, ["s0"]>) -> tensor<768xf32> {
    %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<?x768xf32, ["s0"]>) -> tensor<768xf32>
    return %0 : tensor<768xf32>
  }
}
