// RUN: cuesta-opt --pass-pipeline='builtin.module(join-launches)' --split-input-file %s | filecheck %s

// Programs 0 to 3 run the first kernel, 4 and 5 the second. What is read comes first. The third has far more warps and
// stays; the first is also launched alone, and is kept.
// CHECK-LABEL: module @kernels
// CHECK: ^bb0(%[[X:.*]]: !tt.ptr<f32>, %[[A:.*]]: !tt.ptr<f32>, %[[Y:.*]]: !tt.ptr<f32>, %[[B:.*]]: !tt.ptr<f32>):
// CHECK: %[[P:.*]] = "tt.get_program_id"() {axis = 0 : i32}
// CHECK: %[[F:.*]] = arith.cmpi slt, %[[P]], %c4_i32
// CHECK: scf.if %[[F]] {
// CHECK: "tt.addptr"(%[[X]], %[[P]])
// CHECK: "tt.store"(%[[Y]]
// CHECK: } else {
// CHECK: %[[Q:.*]] = arith.subi %[[P]], %c4_i32_0
// CHECK: "tt.addptr"(%[[A]], %[[Q]])
// CHECK: "tt.store"(%[[B]]
// CHECK: cuesta.grid = [6, 1, 1]
// CHECK-SAME: cuesta.warps = 2 : i64
// CHECK-SAME: sym_name = "neg_and_exp"
// CHECK-NOT: sym_name = "exp"
// CHECK: sym_name = "neg"
// CHECK: sym_name = "wide"
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"(%arg0, %arg2, %arg1, %arg3) {kernel = @kernels::@neg_and_exp, members = ["neg", "exp"], ops = ["neg", "exp"], outputs = 2 : i64, overlaps}
// CHECK: "host.launch"(%arg0, %arg4) {kernel = @kernels::@wide, outputs = 1 : i64, together = 0 : i64}
// CHECK: "host.launch"(%arg2, %arg3) {kernel = @kernels::@neg, outputs = 1 : i64}
module {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>):
      %0 = "tt.get_program_id"() {axis = 0 : i32} : () -> i32
      %1 = "tt.addptr"(%x, %0) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
      %2 = "tt.load"(%1) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (!tt.ptr<f32>) -> f32
      "tt.store"(%y, %2) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (!tt.ptr<f32>, f32) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{tt.divisibility = 16 : i32}, {}], cuesta.grid = [4, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 2 : i64, function_type = (!tt.ptr<f32>, !tt.ptr<f32>) -> (), noinline = false, sym_name = "neg", sym_visibility = "public"} : () -> ()
    "tt.func"() ({
    ^bb0(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>):
      %0 = "tt.get_program_id"() {axis = 0 : i32} : () -> i32
      %1 = "tt.addptr"(%x, %0) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
      %2 = "tt.load"(%1) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (!tt.ptr<f32>) -> f32
      %3 = math.exp %2 : f32
      "tt.store"(%y, %3) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (!tt.ptr<f32>, f32) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}], cuesta.grid = [2, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 2 : i64, function_type = (!tt.ptr<f32>, !tt.ptr<f32>) -> (), noinline = false, sym_name = "exp", sym_visibility = "public"} : () -> ()
    "tt.func"() ({
    ^bb0(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>):
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}], cuesta.grid = [2, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 16 : i64, function_type = (!tt.ptr<f32>, !tt.ptr<f32>) -> (), noinline = false, sym_name = "wide", sym_visibility = "public"} : () -> ()
  }
  func.func @graph(%x: memref<4xf32>, %y: memref<1xf32>, %a: memref<4xf32>, %b: memref<1xf32>, %c: memref<1xf32>) {
    "host.launch"(%x, %y) {kernel = @kernels::@neg, ops = ["neg"], outputs = 1, overlaps, together = 0 : i64} : (memref<4xf32>, memref<1xf32>) -> ()
    "host.launch"(%a, %b) {kernel = @kernels::@exp, ops = ["exp"], outputs = 1, overlaps, together = 0 : i64} : (memref<4xf32>, memref<1xf32>) -> ()
    "host.launch"(%x, %c) {kernel = @kernels::@wide, outputs = 1, together = 0 : i64} : (memref<4xf32>, memref<1xf32>) -> ()
    "host.launch"(%a, %b) {kernel = @kernels::@neg, outputs = 1} : (memref<4xf32>, memref<1xf32>) -> ()
    return
  }
}
