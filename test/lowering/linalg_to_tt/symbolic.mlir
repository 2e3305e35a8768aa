// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// Sizes are scalars behind the pointers, with what they are a multiple of; the grid is in terms of them.
// CHECK: ^bb0(%[[X:.*]]: !tt.ptr<f32>, %[[Y:.*]]: !tt.ptr<f32>, %[[P0:.*]]: i32):
// CHECK: %[[BOUND:.*]] = "tt.splat"(%[[P0]])
// CHECK: %[[MASK:.*]] = arith.cmpi slt, %[[I:.*]], %[[BOUND]] : tensor<256xi32>
// CHECK: "tt.load"(%{{.*}}, %[[MASK]])
// CHECK: arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}]
// CHECK-SAME: cuesta.grid = ["((p0 + 255) // 256)", 1, 1]
module attributes {cuesta.hints = {s0 = 512 : i64}} {
  func.func @graph(%x: tensor<?x64xf32, ["s0"]> {cuesta.strides = [64, 1]}) -> (tensor<?x64xf32, ["s0"]> {cuesta.strides = [64, 1]}) {
    %0 = "cuesta.exp"(%x) : (tensor<?x64xf32, ["s0"]>) -> tensor<?x64xf32, ["s0"]> loc("exp")
    return %0 : tensor<?x64xf32, ["s0"]>
  }
}

// -----

// A size that is known for a multiple of the block takes no mask. In this call there are 2^33 elements: positions are i64.
// CHECK: ^bb0(%{{.*}}, %[[P0:.*]]: i64):
// CHECK: arith.extsi %{{.*}} : i32 to i64
// CHECK-NOT: arith.cmpi
// CHECK: cuesta.grid = ["((p0 + 1023) // 1024)", 1, 1]
module attributes {cuesta.hints = {s0 = 8388608 : i64}} {
  func.func @graph(%x: tensor<?x1024xf32, ["s0"]> {cuesta.strides = [1024, 1]}) -> (tensor<?x1024xf32, ["s0"]> {cuesta.strides = [1024, 1]}) {
    %0 = "cuesta.exp"(%x) : (tensor<?x1024xf32, ["s0"]>) -> tensor<?x1024xf32, ["s0"]> loc("exp")
    return %0 : tensor<?x1024xf32, ["s0"]>
  }
}

// -----

// A row that fits the block is taken whole, a longer one by a loop. Rows lie a size apart.
// CHECK: ^bb0(%{{.*}}: !tt.ptr<f32>, %{{.*}}: !tt.ptr<f32>, %{{.*}}: i32, %[[P1:.*]]: i32):
// CHECK: %[[ONE:.*]] = arith.constant 1 : i32
// CHECK: %[[LAST:.*]] = arith.subi %[[P1]], %[[ONE]]
// CHECK: %[[BLOCK:.*]] = arith.constant 256 : i32
// CHECK: %[[FITS:.*]] = arith.cmpi ult, %[[LAST]], %[[BLOCK]]
// CHECK: scf.if %[[FITS]]
// CHECK-NOT: scf.for
// CHECK: "tt.reduce"
// CHECK: } else {
// CHECK: scf.for %{{.*}} to %[[P1]] step
// CHECK: %[[STRIDE:.*]] = "tt.splat"(%[[P1]]) : (i32) -> tensor<1xi32>
// CHECK: arith.muli %{{.*}}, %[[STRIDE]]
// CHECK: arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}, {}, {}]
// CHECK-SAME: cuesta.grid = ["p0", 1, 1]
module attributes {cuesta.hints = {s0 = 512 : i64, s1 = 200 : i64}} {
  func.func @graph(%x: tensor<?x?xf32, ["s0", "s1"]> {cuesta.strides = ["s1", 1]}) -> (tensor<?xf32, ["s0"]> {cuesta.strides = [1]}) {
    %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 0 : i64} : (tensor<?x?xf32, ["s0", "s1"]>) -> tensor<?xf32, ["s0"]> loc("sum")
    return %0 : tensor<?xf32, ["s0"]>
  }
}

// -----

// A size that is a number to compute with.
// CHECK: ^bb0(%{{[a-z0-9]*}}: !tt.ptr<f32>, %{{[a-z0-9]*}}: !tt.ptr<f32>, %[[P0:[a-z0-9]*]]: i32):
// CHECK: %[[N:.*]] = "tt.splat"(%[[P0]]) : (i32) -> tensor<1xi32>
// CHECK: arith.extsi %[[N]] : tensor<1xi32> to tensor<1xi64>
// CHECK: arith.sitofp
module attributes {cuesta.hints = {s0 = 512 : i64}} {
  func.func @graph(%x: tensor<?xf32, ["s0"]> {cuesta.strides = [1]}) -> (tensor<?xf32, ["s0"]> {cuesta.strides = [1]}) {
    %n = "cuesta.extent"() {at = "s0"} : () -> tensor<f32>
    %0 = "cuesta.mul"(%x, %n) : (tensor<?xf32, ["s0"]>, tensor<f32>) -> tensor<?xf32, ["s0"]> loc("mul")
    return %0 : tensor<?xf32, ["s0"]>
  }
}
