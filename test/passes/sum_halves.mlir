// RUN: cuesta-opt --pass-pipeline='builtin.module(sum-halves)' --split-input-file %s | filecheck %s

// The products of pairs, whose second factor takes elements of two blocks by turns, are two sums. The small block of the
// vector is split. The large one of the weight is read nowhere.
// CHECK: %[[X:.*]] = "tt.load"(%arg0)
// CHECK: %[[A:.*]] = "tt.load"(%arg1)
// CHECK: %[[B:.*]] = "tt.load"(%arg2)
// CHECK: %[[H:.*]]:2 = "tt.split"(%[[X]]) : (tensor<1x16x2xf32>) -> (tensor<1x16xf32>, tensor<1x16xf32>)
// CHECK: %[[X0:.*]] = "tt.broadcast"(%[[H]]#0)
// CHECK: %[[A0:.*]] = "tt.reshape"(%[[A]]) : (tensor<4x16x1xf32>) -> tensor<4x16xf32>
// CHECK: %[[P0:.*]] = arith.mulf %[[X0]], %[[A0]] : tensor<4x16xf32>
// CHECK: %[[X1:.*]] = "tt.broadcast"(%[[H]]#1)
// CHECK: %[[B1:.*]] = "tt.reshape"(%[[B]]) : (tensor<4x16x1xf32>) -> tensor<4x16xf32>
// CHECK: %[[P1:.*]] = arith.mulf %[[X1]], %[[B1]] : tensor<4x16xf32>
// CHECK: %[[S0:.*]] = "tt.reduce"(%[[P0]])
// CHECK: %[[S1:.*]] = "tt.reduce"(%[[P1]])
// CHECK: %[[S:.*]] = arith.addf %[[S0]], %[[S1]] : tensor<4xf32>
// CHECK: "tt.store"(%arg3, %[[S]])
module {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<1x16x2x!tt.ptr<f32>>, %a: tensor<4x16x1x!tt.ptr<f32>>, %b: tensor<4x16x1x!tt.ptr<f32>>, %y: tensor<4x!tt.ptr<f32>>):
      %0 = "tt.load"(%x) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<1x16x2x!tt.ptr<f32>>) -> tensor<1x16x2xf32>
      %1 = "tt.load"(%a) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x16x1x!tt.ptr<f32>>) -> tensor<4x16x1xf32>
      %2 = "tt.load"(%b) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x16x1x!tt.ptr<f32>>) -> tensor<4x16x1xf32>
      %p = "tt.make_range"() {end = 2 : i32, start = 0 : i32} : () -> tensor<2xi32>
      %p1 = "tt.expand_dims"(%p) {axis = 0 : i32} : (tensor<2xi32>) -> tensor<1x2xi32>
      %p2 = "tt.expand_dims"(%p1) {axis = 1 : i32} : (tensor<1x2xi32>) -> tensor<1x1x2xi32>
      %zero = arith.constant dense<0> : tensor<1x1x2xi32>
      %is = arith.cmpi eq, %p2, %zero : tensor<1x1x2xi32>
      %m = "tt.broadcast"(%is) : (tensor<1x1x2xi1>) -> tensor<4x16x2xi1>
      %3 = "tt.broadcast"(%1) : (tensor<4x16x1xf32>) -> tensor<4x16x2xf32>
      %4 = "tt.broadcast"(%2) : (tensor<4x16x1xf32>) -> tensor<4x16x2xf32>
      %w = arith.select %m, %3, %4 : tensor<4x16x2xi1>, tensor<4x16x2xf32>
      %5 = "tt.broadcast"(%0) : (tensor<1x16x2xf32>) -> tensor<4x16x2xf32>
      %6 = arith.mulf %5, %w : tensor<4x16x2xf32>
      %7 = "tt.reshape"(%6) : (tensor<4x16x2xf32>) -> tensor<4x32xf32>
      %8 = "tt.reduce"(%7) ({
      ^bb0(%u: f32, %v: f32):
        %9 = arith.addf %u, %v : f32
        "tt.reduce.return"(%9) : (f32) -> ()
      }) {axis = 1 : i32} : (tensor<4x32xf32>) -> tensor<4xf32>
      "tt.store"(%y, %8) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<4x!tt.ptr<f32>>, tensor<4xf32>) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}, {}], cuesta.grid = [1, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (tensor<1x16x2x!tt.ptr<f32>>, tensor<4x16x1x!tt.ptr<f32>>, tensor<4x16x1x!tt.ptr<f32>>, tensor<4x!tt.ptr<f32>>) -> (), noinline = false, sym_name = "pairs", sym_visibility = "public"} : () -> ()
  }
}

// -----

// The first values are those of the other block where the mask says so.
// CHECK: %[[A:.*]] = "tt.load"(%arg1)
// CHECK: %[[B:.*]] = "tt.load"(%arg2)
// CHECK: "tt.split"
// CHECK: "tt.reshape"(%[[B]])
// CHECK: "tt.reshape"(%[[A]])
// CHECK: arith.addf %{{.*}} : tensor<4xf32>
module {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<1x16x2x!tt.ptr<f32>>, %a: tensor<4x16x1x!tt.ptr<f32>>, %b: tensor<4x16x1x!tt.ptr<f32>>, %y: tensor<4x!tt.ptr<f32>>):
      %0 = "tt.load"(%x) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<1x16x2x!tt.ptr<f32>>) -> tensor<1x16x2xf32>
      %1 = "tt.load"(%a) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x16x1x!tt.ptr<f32>>) -> tensor<4x16x1xf32>
      %2 = "tt.load"(%b) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x16x1x!tt.ptr<f32>>) -> tensor<4x16x1xf32>
      %p = "tt.make_range"() {end = 2 : i32, start = 0 : i32} : () -> tensor<2xi32>
      %p1 = "tt.expand_dims"(%p) {axis = 0 : i32} : (tensor<2xi32>) -> tensor<1x2xi32>
      %p2 = "tt.expand_dims"(%p1) {axis = 1 : i32} : (tensor<1x2xi32>) -> tensor<1x1x2xi32>
      %zero = arith.constant dense<0> : tensor<1x1x2xi32>
      %is = arith.cmpi sgt, %p2, %zero : tensor<1x1x2xi32>
      %m = "tt.broadcast"(%is) : (tensor<1x1x2xi1>) -> tensor<4x16x2xi1>
      %3 = "tt.broadcast"(%1) : (tensor<4x16x1xf32>) -> tensor<4x16x2xf32>
      %4 = "tt.broadcast"(%2) : (tensor<4x16x1xf32>) -> tensor<4x16x2xf32>
      %w = arith.select %m, %3, %4 : tensor<4x16x2xi1>, tensor<4x16x2xf32>
      %5 = "tt.broadcast"(%0) : (tensor<1x16x2xf32>) -> tensor<4x16x2xf32>
      %6 = arith.mulf %5, %w : tensor<4x16x2xf32>
      %7 = "tt.reshape"(%6) : (tensor<4x16x2xf32>) -> tensor<4x32xf32>
      %8 = "tt.reduce"(%7) ({
      ^bb0(%u: f32, %v: f32):
        %9 = arith.addf %u, %v : f32
        "tt.reduce.return"(%9) : (f32) -> ()
      }) {axis = 1 : i32} : (tensor<4x32xf32>) -> tensor<4xf32>
      "tt.store"(%y, %8) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<4x!tt.ptr<f32>>, tensor<4xf32>) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}, {}], cuesta.grid = [1, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (tensor<1x16x2x!tt.ptr<f32>>, tensor<4x16x1x!tt.ptr<f32>>, tensor<4x16x1x!tt.ptr<f32>>, tensor<4x!tt.ptr<f32>>) -> (), noinline = false, sym_name = "turned", sym_visibility = "public"} : () -> ()
  }
}

// -----

// Another reduction stays, and a sum of values that are not known to be taken by turns.
// CHECK: "tt.func"
// CHECK-NOT: "tt.split"
// CHECK: arith.maxnumf
// CHECK: sym_name = "largest"
// CHECK-NOT: "tt.split"
// CHECK: sym_name = "one"
module {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<1x16x2x!tt.ptr<f32>>, %a: tensor<4x16x1x!tt.ptr<f32>>, %b: tensor<4x16x1x!tt.ptr<f32>>, %y: tensor<4x!tt.ptr<f32>>):
      %0 = "tt.load"(%x) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<1x16x2x!tt.ptr<f32>>) -> tensor<1x16x2xf32>
      %1 = "tt.load"(%a) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x16x1x!tt.ptr<f32>>) -> tensor<4x16x1xf32>
      %2 = "tt.load"(%b) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x16x1x!tt.ptr<f32>>) -> tensor<4x16x1xf32>
      %p = "tt.make_range"() {end = 2 : i32, start = 0 : i32} : () -> tensor<2xi32>
      %p1 = "tt.expand_dims"(%p) {axis = 0 : i32} : (tensor<2xi32>) -> tensor<1x2xi32>
      %p2 = "tt.expand_dims"(%p1) {axis = 1 : i32} : (tensor<1x2xi32>) -> tensor<1x1x2xi32>
      %zero = arith.constant dense<0> : tensor<1x1x2xi32>
      %is = arith.cmpi eq, %p2, %zero : tensor<1x1x2xi32>
      %m = "tt.broadcast"(%is) : (tensor<1x1x2xi1>) -> tensor<4x16x2xi1>
      %3 = "tt.broadcast"(%1) : (tensor<4x16x1xf32>) -> tensor<4x16x2xf32>
      %4 = "tt.broadcast"(%2) : (tensor<4x16x1xf32>) -> tensor<4x16x2xf32>
      %w = arith.select %m, %3, %4 : tensor<4x16x2xi1>, tensor<4x16x2xf32>
      %5 = "tt.broadcast"(%0) : (tensor<1x16x2xf32>) -> tensor<4x16x2xf32>
      %6 = arith.mulf %5, %w : tensor<4x16x2xf32>
      %7 = "tt.reshape"(%6) : (tensor<4x16x2xf32>) -> tensor<4x32xf32>
      %8 = "tt.reduce"(%7) ({
      ^bb0(%u: f32, %v: f32):
        %9 = arith.maxnumf %u, %v : f32
        "tt.reduce.return"(%9) : (f32) -> ()
      }) {axis = 1 : i32} : (tensor<4x32xf32>) -> tensor<4xf32>
      "tt.store"(%y, %8) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<4x!tt.ptr<f32>>, tensor<4xf32>) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}, {}], cuesta.grid = [1, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (tensor<1x16x2x!tt.ptr<f32>>, tensor<4x16x1x!tt.ptr<f32>>, tensor<4x16x1x!tt.ptr<f32>>, tensor<4x!tt.ptr<f32>>) -> (), noinline = false, sym_name = "largest", sym_visibility = "public"} : () -> ()
  }
}

// -----

module {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<1x16x2x!tt.ptr<f32>>, %a: tensor<4x16x1x!tt.ptr<f32>>, %b: tensor<4x16x1x!tt.ptr<f32>>, %y: tensor<4x!tt.ptr<f32>>):
      %0 = "tt.load"(%x) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<1x16x2x!tt.ptr<f32>>) -> tensor<1x16x2xf32>
      %1 = "tt.load"(%a) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x16x1x!tt.ptr<f32>>) -> tensor<4x16x1xf32>
      %2 = "tt.load"(%b) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x16x1x!tt.ptr<f32>>) -> tensor<4x16x1xf32>
      %p = "tt.make_range"() {end = 3 : i32, start = 1 : i32} : () -> tensor<2xi32>
      %p1 = "tt.expand_dims"(%p) {axis = 0 : i32} : (tensor<2xi32>) -> tensor<1x2xi32>
      %p2 = "tt.expand_dims"(%p1) {axis = 1 : i32} : (tensor<1x2xi32>) -> tensor<1x1x2xi32>
      %zero = arith.constant dense<0> : tensor<1x1x2xi32>
      %is = arith.cmpi eq, %p2, %zero : tensor<1x1x2xi32>
      %m = "tt.broadcast"(%is) : (tensor<1x1x2xi1>) -> tensor<4x16x2xi1>
      %3 = "tt.broadcast"(%1) : (tensor<4x16x1xf32>) -> tensor<4x16x2xf32>
      %4 = "tt.broadcast"(%2) : (tensor<4x16x1xf32>) -> tensor<4x16x2xf32>
      %w = arith.select %m, %3, %4 : tensor<4x16x2xi1>, tensor<4x16x2xf32>
      %5 = "tt.broadcast"(%0) : (tensor<1x16x2xf32>) -> tensor<4x16x2xf32>
      %6 = arith.mulf %5, %w : tensor<4x16x2xf32>
      %7 = "tt.reshape"(%6) : (tensor<4x16x2xf32>) -> tensor<4x32xf32>
      %8 = "tt.reduce"(%7) ({
      ^bb0(%u: f32, %v: f32):
        %9 = arith.addf %u, %v : f32
        "tt.reduce.return"(%9) : (f32) -> ()
      }) {axis = 1 : i32} : (tensor<4x32xf32>) -> tensor<4xf32>
      "tt.store"(%y, %8) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<4x!tt.ptr<f32>>, tensor<4xf32>) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}, {}], cuesta.grid = [1, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (tensor<1x16x2x!tt.ptr<f32>>, tensor<4x16x1x!tt.ptr<f32>>, tensor<4x16x1x!tt.ptr<f32>>, tensor<4x!tt.ptr<f32>>) -> (), noinline = false, sym_name = "one", sym_visibility = "public"} : () -> ()
  }
}
