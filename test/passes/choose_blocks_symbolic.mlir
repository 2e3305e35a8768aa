// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks)' %s 2>&1 | filecheck %s

// Blocks go by the traced call. There the row fits, begins at a multiple of 16 elements, and needs no loop. Versions for
// shorter and longer rows have other blocks; any other row has a loop, which one that fits does without. A launch chooses
// by its sizes: more than half of the block, or for the shortest at most the block.
// CHECK: func.func @sum__any
// CHECK-SAME: cuesta.blocks = [1, 1024], cuesta.fits, cuesta.loops = [1], cuesta.multiples = [1, 1], cuesta.parallel = [0], cuesta.sizes = ["p0", "p1"]
// CHECK: func.func @sum__1(
// CHECK-SAME: cuesta.blocks = [1, 512], cuesta.multiples = [1, 16]
// CHECK: func.func @sum__3(
// CHECK-SAME: cuesta.blocks = [2, 128], cuesta.multiples = [1, 16]
// CHECK: func.func @sum__5(
// CHECK-SAME: cuesta.blocks = [1, 4096], cuesta.multiples = [1, 16]
// CHECK: func.func @sum(
// CHECK-SAME: cuesta.blocks = [1, 1024], cuesta.multiples = [1, 16], cuesta.parallel = [0], cuesta.sizes = ["p0", "p1"]
// CHECK: "host.launch"
// CHECK-SAME: kernel = @kernels::@sum, {{.*}}otherwise = [@kernels::@sum__1, @kernels::@sum__2, @kernels::@sum__3, @kernels::@sum__4, @kernels::@sum__5, @kernels::@sum__any], {{.*}}parameters = ["s0", "s1"]
// CHECK-SAME: unless = {{\[\[}}"((s1 - 1) // 512)*((s1 - 1) // 512) - 2*((s1 - 1) // 512) + 1", "(s1 % 16)"], {{.*}}["(s1 % 16)", "(s1 // 129)"]
module attributes {cuesta.hints = {s0 = 512 : i64, s1 = 800 : i64}} {
  func.func @graph(%x: tensor<?x?xf32, ["s0", "s1"]> {cuesta.strides = ["s1", 1]}) -> (tensor<?xf32, ["s0"]> {cuesta.strides = [1]}) {
    %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 0 : i64} : (tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?xf32, ["s0"]> loc("sum")
    return %0 : tensor<?xf32, ["s0"]>
  }
}

// -----

// What is known of all calls is no condition. Nor is what wide loads do not ask for, here the number of rows.
// CHECK: func.func @exp
// CHECK-SAME: cuesta.multiples = [1]
// CHECK-NOT: otherwise
// CHECK: return
module attributes {cuesta.hints = {s0 = 512 : i64}} {
  func.func @graph(%x: tensor<?x16xf32, ["s0"]> {cuesta.strides = [32, 1]}) -> (tensor<?x16xf32, ["s0"]> {cuesta.strides = [16, 1]}) {
    %0 = "cuesta.exp"(%x) : (tensor<?x16xf32, ["s0"]>) -> tensor<?x16xf32, ["s0"]> loc("exp")
    return %0 : tensor<?x16xf32, ["s0"]>
  }
}

// -----

// Traced with few: other calls have more, so the block for those is wider.
// CHECK: func.func @sum__any
// CHECK-SAME: cuesta.blocks = [8, 128], cuesta.fits
// CHECK: func.func @sum(
// CHECK-SAME: cuesta.blocks = [64, 4], cuesta.multiples = [16, 1]
// CHECK: unless = {{\[\[}}"(s0 % 16)", "(s1 // 5)"]]
module attributes {cuesta.hints = {s0 = 512 : i64, s1 = 3 : i64}} {
  func.func @graph(%x: tensor<?x?xf32, ["s0", "s1"]> {cuesta.strides = ["s1", 1]}) -> (tensor<?xf32, ["s0"]> {cuesta.strides = [1]}) {
    %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 0 : i64} : (tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?xf32, ["s0"]> loc("sum")
    return %0 : tensor<?xf32, ["s0"]>
  }
}

// -----

// Rows that do not fit: a loop in both.
// CHECK: func.func @sum__any
// CHECK-NOT: cuesta.fits
// CHECK-SAME: cuesta.blocks = [1, 4096], cuesta.loops = [1], cuesta.multiples = [1, 1]
// CHECK-NOT: cuesta.fits
// CHECK: func.func @sum(
// CHECK-SAME: cuesta.blocks = [1, 4096], cuesta.loops = [1], cuesta.multiples = [1, 16]
// CHECK: unless = {{\[\[}}"(s1 % 16)"]]
module attributes {cuesta.hints = {s0 = 512 : i64, s1 = 50000 : i64}} {
  func.func @graph(%x: tensor<?x?xf32, ["s0", "s1"]> {cuesta.strides = ["s1", 1]}) -> (tensor<?xf32, ["s0"]> {cuesta.strides = [1]}) {
    %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 0 : i64} : (tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?xf32, ["s0"]> loc("sum")
    return %0 : tensor<?xf32, ["s0"]>
  }
}

// -----

// A running sum has a loop as other reductions have.
// CHECK: func.func @cumsum__any
// CHECK-SAME: cuesta.blocks = [1, 256], cuesta.fits, cuesta.loops = [1]
// CHECK: func.func @cumsum__5(
// CHECK-SAME: cuesta.blocks = [1, 1024], cuesta.multiples = [1, 8]
// CHECK: func.func @cumsum(
// CHECK-SAME: cuesta.blocks = [1, 256], cuesta.multiples = [1, 8]
// CHECK: unless = {{\[\[}}"((s1 - 1) // 128)*((s1 - 1) // 128) - 2*((s1 - 1) // 128) + 1", "(s1 % 8)"]
module attributes {cuesta.hints = {s0 = 512 : i64, s1 = 200 : i64}} {
  func.func @graph(%x: tensor<?x?xf32, ["s0", "s1"]> {cuesta.strides = ["s1", 1]}) -> (tensor<?x?xf32, ["s0", "s1"]> {cuesta.strides = ["s1", 1]}) {
    %0 = "cuesta.cumsum"(%x) {dim = 1 : i64} : (tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?x?xf32, ["s0", "s1"]> loc("cumsum")
    return %0 : tensor<?x?xf32, ["s0", "s1"]>
  }
}

// -----

// Few rows to add up, traced with 2: room for more would be lanes that do nothing, and more of them take turns. A block
// that the traced call fills has a version without a mask.
// CHECK: func.func @sum__any
// CHECK-SAME: cuesta.blocks = [2, 128], cuesta.fits, cuesta.loops = [0]
// CHECK: func.func @sum(
// CHECK-SAME: cuesta.blocks = [2, 32], cuesta.multiples = [2]
// CHECK: unless = {{\[\[}}"((s0 - 1) // 2)*((s0 - 1) // 2)", "(s0 % 2)"], ["(s0 // 3)"]]
module attributes {cuesta.hints = {s0 = 2 : i64}} {
  func.func @graph(%x: tensor<?x4096xf32, ["s0"]> {cuesta.strides = [4096, 1]}) -> (tensor<4096xf32> {cuesta.strides = [1]}) {
    %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0 : i64} : (tensor<?x4096xf32, ["s0"]>) -> tensor<4096xf32> loc("sum")
    return %0 : tensor<4096xf32>
  }
}

// -----

// Where a program finds its place by dividing, the first version divides by the numbers of the traced call, and does
// without masks where they divide its sizes.
// CHECK: func.func @add__any
// CHECK-NOT: cuesta.counts
// CHECK: func.func @add__1(
// CHECK-SAME: cuesta.blocks = [8, 128], cuesta.multiples = [1, 16], cuesta.parallel
// CHECK: func.func @add(
// CHECK-SAME: cuesta.blocks = [8, 128], cuesta.counts = [0, 24], cuesta.multiples = [1, 128]
// CHECK: unless = {{\[\[}}"((s1 + 127) // 128)*((s1 + 127) // 128) - 48*((s1 + 127) // 128) + 576", "(s1 % 128)"], ["(s1 % 16)"]]
module attributes {cuesta.hints = {s0 = 512 : i64, s1 = 3072 : i64}} {
  func.func @graph(%x: tensor<?x?xf32, ["s0", "s1"]> {cuesta.strides = ["s1", 1]}, %y: tensor<?xf32, ["s1"]> {cuesta.strides = [1]}) -> (tensor<?x?xf32, ["s0", "s1"]> {cuesta.strides = ["s1", 1]}) {
    %0 = "cuesta.reshape"(%y) : (tensor<?xf32, ["s1"]>) -> tensor<1x?xf32, ["s1"]>
    %1 = "cuesta.add"(%x, %0) : (tensor<?x?xf32, ["s0", "s1"]>, tensor<1x?xf32, ["s1"]>) -> tensor<?x?xf32, ["s0", "s1"]> loc("add")
    return %1 : tensor<?x?xf32, ["s0", "s1"]>
  }
}
