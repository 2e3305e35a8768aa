// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(split-reductions)' %s 2>&1 | filecheck %s

// What divides a size whatever the call is: here a size of its own, as many parts as there are images.
// CHECK: func.func @images(%[[X:[^:]*]]:
// CHECK: %[[P:.*]] = "cuesta.sum"(%[[X]]) {dims = [2], keepdim = 0 : i64} : (tensor<?x64x3136xf32, ["s0"]>) -> tensor<?x64xf32, ["s0"]>
// CHECK: %[[T:.*]] = "cuesta.sum"(%[[P]]) {dims = [0], keepdim = 0 : i64} : (tensor<?x64xf32, ["s0"]>) -> tensor<64xf32>
module attributes {cuesta.hints = {s0 = 32 : i64}} {
  func.func @images(%x: tensor<?x64x3136xf32, ["s0"]>) -> tensor<64xf32> {
    %0 = "cuesta.sum"(%x) {dims = [0, 2], keepdim = 0} : (tensor<?x64x3136xf32, ["s0"]>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}

// -----

// A batch of rows that became one dim is taken apart again.
// CHECK: func.func @rows(%[[X:[^:]*]]:
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<?x768xf32, ["s0*s1"]>) -> tensor<?x?x768xf32, ["s0", "s1"]>
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
// CHECK: func.func @number(%[[X:[^:]*]]:
// CHECK: "cuesta.reshape"(%[[X]]) : (tensor<?x768xf32, ["64*s0"]>) -> tensor<32x?x768xf32, ["2*s0"]>
module attributes {cuesta.hints = {s0 = 128 : i64}} {
  func.func @number(%x: tensor<?x768xf32, ["64*s0"]>) -> tensor<768xf32> {
    %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<?x768xf32, ["64*s0"]>) -> tensor<768xf32>
    return %0 : tensor<768xf32>
  }
}

// -----

// Nothing divides it: even parts, and what is left at the end.
// CHECK: func.func @uneven(%[[X:[^:]*]]:
// CHECK: %[[S:.*]] = "cuesta.slice"(%[[X]]) {starts = [0, 0], steps = [1, 1]} : (tensor<?x768xf32, ["s0"]>) -> tensor<?x768xf32, ["32*(s0 // 32)"]>
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[S]]) : {{.*}} -> tensor<32x?x768xf32, ["(s0 // 32)"]>
// CHECK: %[[P:.*]] = "cuesta.sum"(%[[R]]) {dims = [1], keepdim = 0 : i64} : {{.*}} -> tensor<32x768xf32>
// CHECK: %[[T:.*]] = "cuesta.sum"(%[[P]]) {dims = [0], keepdim = 0 : i64} : {{.*}} -> tensor<768xf32>
// CHECK: %[[E:.*]] = "cuesta.slice"(%[[X]]) {starts = ["32*(s0 // 32)", 0], steps = [1, 1]} : {{.*}} -> tensor<?x768xf32, ["s0 - 32*(s0 // 32)"]>
// CHECK: %[[L:.*]] = "cuesta.sum"(%[[E]]) {dims = [0], keepdim = 0 : i64} : {{.*}} -> tensor<768xf32>
// CHECK: "cuesta.add"(%[[T]], %[[L]]) : (tensor<768xf32>, tensor<768xf32>) -> tensor<768xf32>
module attributes {cuesta.hints = {s0 = 8192 : i64}} {
  func.func @uneven(%x: tensor<?x768xf32, ["s0"]>) -> tensor<768xf32> {
    %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<?x768xf32, ["s0"]>) -> tensor<768xf32>
    return %0 : tensor<768xf32>
  }
}

// -----

// Along what lies together each part begins where wide loads may. What makes the operand goes along.
// CHECK: func.func @all(%[[X:[^:]*]]:
// CHECK: "cuesta.slice"(%[[X]]) {{.*}} -> tensor<?xbf16, ["8192*(s0 // 8192)"]>
// CHECK: "cuesta.reshape"({{.*}}) : {{.*}} -> tensor<1024x?xbf16, ["8*(s0 // 8192)"]>
// CHECK: "cuesta.abs"({{.*}}) : (tensor<1024x?xbf16, ["8*(s0 // 8192)"]>)
// CHECK: "cuesta.amax"({{.*}}) {dims = [1], {{.*}} -> tensor<1024xf32>
// CHECK: "cuesta.maximum"
module attributes {cuesta.hints = {s0 = 4000000 : i64}} {
  func.func @all(%x: tensor<?xbf16, ["s0"]>) -> tensor<bf16> {
    %0 = "cuesta.abs"(%x) : (tensor<?xbf16, ["s0"]>) -> tensor<?xbf16, ["s0"]>
    %1 = "cuesta.amax"(%0) {dims = [0], keepdim = 0} : (tensor<?xbf16, ["s0"]>) -> tensor<bf16>
    return %1 : tensor<bf16>
  }
}
