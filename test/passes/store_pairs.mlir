// RUN: cuesta-opt --pass-pipeline='builtin.module(store-pairs)' %s | filecheck %s

module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    // Pairs that lie one behind the other in a row of 32: a store of rows.
    // CHECK: %[[I:.*]] = "tt.make_range"() {end = 32 : i32, start = 0 : i32}
    // CHECK: %[[E:.*]] = "tt.expand_dims"(%[[I]]) {axis = 0 : i32} : (tensor<32xi32>) -> tensor<1x32xi32>
    // CHECK: %[[OWN:.*]] = "tt.broadcast"(%[[E]]) : (tensor<1x32xi32>) -> tensor<8x32xi32>
    // CHECK: %[[ROW:.*]] = "tt.broadcast"(%{{.*}}) : (tensor<8x1xi32>) -> tensor<8x32xi32>
    // CHECK: %[[AT:.*]] = arith.addi %[[OWN]], %[[ROW]]
    // CHECK: %[[P:.*]] = "tt.addptr"(%{{.*}}, %[[AT]])
    // CHECK: %[[X:.*]] = "tt.reshape"(%{{.*}}) : (tensor<8x16x2xbf16>) -> tensor<8x32xbf16>
    // CHECK: "tt.store"(%[[P]], %[[X]])
    // CHECK-LABEL: sym_name = "pairs"
    "tt.func"() ({
    ^bb0(%y: !tt.ptr<bf16>, %x: tensor<8x16x2xbf16>):
      %0 = "tt.make_range"() {end = 8 : i32, start = 0 : i32} : () -> tensor<8xi32>
      %1 = "tt.expand_dims"(%0) {axis = 1 : i32} : (tensor<8xi32>) -> tensor<8x1xi32>
      %2 = "tt.expand_dims"(%1) {axis = 2 : i32} : (tensor<8x1xi32>) -> tensor<8x1x1xi32>
      %3 = arith.constant dense<32> : tensor<8x1x1xi32>
      %4 = arith.muli %2, %3 : tensor<8x1x1xi32>
      %5 = "tt.make_range"() {end = 16 : i32, start = 0 : i32} : () -> tensor<16xi32>
      %6 = "tt.expand_dims"(%5) {axis = 0 : i32} : (tensor<16xi32>) -> tensor<1x16xi32>
      %7 = "tt.expand_dims"(%6) {axis = 2 : i32} : (tensor<1x16xi32>) -> tensor<1x16x1xi32>
      %8 = arith.constant dense<2> : tensor<1x16x1xi32>
      %9 = arith.muli %7, %8 : tensor<1x16x1xi32>
      %10 = "tt.make_range"() {end = 2 : i32, start = 0 : i32} : () -> tensor<2xi32>
      %11 = "tt.expand_dims"(%10) {axis = 0 : i32} : (tensor<2xi32>) -> tensor<1x2xi32>
      %12 = "tt.expand_dims"(%11) {axis = 0 : i32} : (tensor<1x2xi32>) -> tensor<1x1x2xi32>
      %13 = "tt.broadcast"(%4) : (tensor<8x1x1xi32>) -> tensor<8x16x1xi32>
      %14 = "tt.broadcast"(%9) : (tensor<1x16x1xi32>) -> tensor<8x16x1xi32>
      %15 = arith.addi %13, %14 : tensor<8x16x1xi32>
      %16 = "tt.broadcast"(%15) : (tensor<8x16x1xi32>) -> tensor<8x16x2xi32>
      %17 = "tt.broadcast"(%12) : (tensor<1x1x2xi32>) -> tensor<8x16x2xi32>
      %18 = arith.addi %16, %17 : tensor<8x16x2xi32>
      %19 = "tt.splat"(%y) : (!tt.ptr<bf16>) -> tensor<8x16x2x!tt.ptr<bf16>>
      %20 = "tt.addptr"(%19, %18) : (tensor<8x16x2x!tt.ptr<bf16>>, tensor<8x16x2xi32>) -> tensor<8x16x2x!tt.ptr<bf16>>
      "tt.store"(%20, %x) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<8x16x2x!tt.ptr<bf16>>, tensor<8x16x2xbf16>) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (!tt.ptr<bf16>, tensor<8x16x2xbf16>) -> (), noinline = false, sym_name = "pairs", sym_visibility = "public"} : () -> ()

    // Pairs of a part of a row, which begins at a scalar.
    // CHECK: ^bb0(%{{.*}}: !tt.ptr<bf16>, %{{.*}}, %[[START:.*]]: i32):
    // CHECK: %[[I:.*]] = "tt.make_range"() {end = 32 : i32, start = 0 : i32}
    // CHECK: %[[TWO:.*]] = arith.constant 2 : i32
    // CHECK: %[[TIMES:.*]] = arith.muli %[[START]], %[[TWO]]
    // CHECK: %[[S:.*]] = "tt.splat"(%[[TIMES]])
    // CHECK: %[[OWN:.*]] = arith.addi %[[S]], %[[I]] : tensor<32xi32>
    // CHECK: %[[X:.*]] = "tt.reshape"(%{{.*}}) : (tensor<16x2xbf16>) -> tensor<32xbf16>
    // CHECK: "tt.store"(%{{.*}}, %[[X]])
    // CHECK-LABEL: sym_name = "part"
    "tt.func"() ({
    ^bb0(%y: !tt.ptr<bf16>, %x: tensor<16x2xbf16>, %s: i32):
      %5 = "tt.make_range"() {end = 16 : i32, start = 0 : i32} : () -> tensor<16xi32>
      %6 = "tt.splat"(%s) : (i32) -> tensor<16xi32>
      %4 = arith.addi %6, %5 : tensor<16xi32>
      %7 = "tt.expand_dims"(%4) {axis = 1 : i32} : (tensor<16xi32>) -> tensor<16x1xi32>
      %8 = arith.constant dense<2> : tensor<16x1xi32>
      %9 = arith.muli %7, %8 : tensor<16x1xi32>
      %10 = "tt.make_range"() {end = 2 : i32, start = 0 : i32} : () -> tensor<2xi32>
      %12 = "tt.expand_dims"(%10) {axis = 0 : i32} : (tensor<2xi32>) -> tensor<1x2xi32>
      %16 = "tt.broadcast"(%9) : (tensor<16x1xi32>) -> tensor<16x2xi32>
      %17 = "tt.broadcast"(%12) : (tensor<1x2xi32>) -> tensor<16x2xi32>
      %18 = arith.addi %16, %17 : tensor<16x2xi32>
      %19 = "tt.splat"(%y) : (!tt.ptr<bf16>) -> tensor<16x2x!tt.ptr<bf16>>
      %20 = "tt.addptr"(%19, %18) : (tensor<16x2x!tt.ptr<bf16>>, tensor<16x2xi32>) -> tensor<16x2x!tt.ptr<bf16>>
      "tt.store"(%20, %x) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<16x2x!tt.ptr<bf16>>, tensor<16x2xbf16>) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (!tt.ptr<bf16>, tensor<16x2xbf16>, i32) -> (), noinline = false, sym_name = "part", sym_visibility = "public"} : () -> ()

    // Pairs that are apart, by four elements each, stay pairs.
    // CHECK: "tt.store"(%{{.*}}, %{{.*}}) {{.*}} : (tensor<16x2x!tt.ptr<bf16>>, tensor<16x2xbf16>) -> ()
    // CHECK-LABEL: sym_name = "apart"
    "tt.func"() ({
    ^bb0(%y: !tt.ptr<bf16>, %x: tensor<16x2xbf16>):
      %5 = "tt.make_range"() {end = 16 : i32, start = 0 : i32} : () -> tensor<16xi32>
      %7 = "tt.expand_dims"(%5) {axis = 1 : i32} : (tensor<16xi32>) -> tensor<16x1xi32>
      %8 = arith.constant dense<4> : tensor<16x1xi32>
      %9 = arith.muli %7, %8 : tensor<16x1xi32>
      %10 = "tt.make_range"() {end = 2 : i32, start = 0 : i32} : () -> tensor<2xi32>
      %12 = "tt.expand_dims"(%10) {axis = 0 : i32} : (tensor<2xi32>) -> tensor<1x2xi32>
      %16 = "tt.broadcast"(%9) : (tensor<16x1xi32>) -> tensor<16x2xi32>
      %17 = "tt.broadcast"(%12) : (tensor<1x2xi32>) -> tensor<16x2xi32>
      %18 = arith.addi %16, %17 : tensor<16x2xi32>
      %19 = "tt.splat"(%y) : (!tt.ptr<bf16>) -> tensor<16x2x!tt.ptr<bf16>>
      %20 = "tt.addptr"(%19, %18) : (tensor<16x2x!tt.ptr<bf16>>, tensor<16x2xi32>) -> tensor<16x2x!tt.ptr<bf16>>
      "tt.store"(%20, %x) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<16x2x!tt.ptr<bf16>>, tensor<16x2xbf16>) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (!tt.ptr<bf16>, tensor<16x2xbf16>) -> (), noinline = false, sym_name = "apart", sym_visibility = "public"} : () -> ()
  }
}
