// RUN: cuesta-opt %s | filecheck %s
// RUN: cuesta-run %s --seed 1 | filecheck %s --check-prefix=RESULT

// 64x96 by 96x32 in f16, summed in f32: one program for 32x32 of the product, 32 of the depth at a time.
// RESULT: result 0: f32[64, 32] strides (32, 1)

// CHECK: scf.for
// CHECK: "tt.dot"
"tt.func"() ({
^bb0(%a: !tt.ptr<f16>, %b: !tt.ptr<f16>, %c: !tt.ptr<f32>):
  %i = "tt.get_program_id"() {axis = 0 : i32} : () -> i32
  %zero = arith.constant 0 : i32
  %n32 = arith.constant 32 : i32
  %n96 = arith.constant 96 : i32
  %lanes = "tt.make_range"() {start = 0 : i32, end = 32 : i32} : () -> tensor<32xi32>
  %down = "tt.expand_dims"(%lanes) {axis = 1 : i32} : (tensor<32xi32>) -> tensor<32x1xi32>
  %across = "tt.expand_dims"(%lanes) {axis = 0 : i32} : (tensor<32xi32>) -> tensor<1x32xi32>
  %first = arith.muli %i, %n32 : i32
  %firsts = "tt.splat"(%first) : (i32) -> tensor<32x1xi32>
  %rows = arith.addi %firsts, %down : tensor<32x1xi32>
  %c96 = arith.constant dense<96> : tensor<32x1xi32>
  %c32 = arith.constant dense<32> : tensor<32x1xi32>
  %rows_a = arith.muli %rows, %c96 : tensor<32x1xi32>
  %rows_c = arith.muli %rows, %c32 : tensor<32x1xi32>
  %start = arith.constant dense<0.0> : tensor<32x32xf32>
  %wide_across = "tt.broadcast"(%across) : (tensor<1x32xi32>) -> tensor<32x32xi32>
  %wide_rows_a = "tt.broadcast"(%rows_a) : (tensor<32x1xi32>) -> tensor<32x32xi32>
  %place_a = arith.addi %wide_rows_a, %wide_across : tensor<32x32xi32>
  %pa = "tt.splat"(%a) : (!tt.ptr<f16>) -> tensor<32x32x!tt.ptr<f16>>
  %pb = "tt.splat"(%b) : (!tt.ptr<f16>) -> tensor<32x32x!tt.ptr<f16>>
  %sum = scf.for %k = %zero to %n96 step %n32 iter_args(%so_far = %start) -> (tensor<32x32xf32>) : i32 {
    %ks = "tt.splat"(%k) : (i32) -> tensor<32x32xi32>
    %at_a = arith.addi %place_a, %ks : tensor<32x32xi32>
    %from_a = "tt.addptr"(%pa, %at_a) : (tensor<32x32x!tt.ptr<f16>>, tensor<32x32xi32>) -> tensor<32x32x!tt.ptr<f16>>
    %x = "tt.load"(%from_a) {operandSegmentSizes = array<i32: 1, 0, 0>, boundaryCheck = array<i32>, cache = 1 : i32,
      evict = 1 : i32, isVolatile = false} : (tensor<32x32x!tt.ptr<f16>>) -> tensor<32x32xf16>
    %k_down = "tt.splat"(%k) : (i32) -> tensor<32x1xi32>
    %depth = arith.addi %k_down, %down : tensor<32x1xi32>
    %rows_b = arith.muli %depth, %c32 : tensor<32x1xi32>
    %wide_rows_b = "tt.broadcast"(%rows_b) : (tensor<32x1xi32>) -> tensor<32x32xi32>
    %at_b = arith.addi %wide_rows_b, %wide_across : tensor<32x32xi32>
    %from_b = "tt.addptr"(%pb, %at_b) : (tensor<32x32x!tt.ptr<f16>>, tensor<32x32xi32>) -> tensor<32x32x!tt.ptr<f16>>
    %y = "tt.load"(%from_b) {operandSegmentSizes = array<i32: 1, 0, 0>, boundaryCheck = array<i32>, cache = 1 : i32,
      evict = 1 : i32, isVolatile = false} : (tensor<32x32x!tt.ptr<f16>>) -> tensor<32x32xf16>
    %next = "tt.dot"(%x, %y, %so_far) {inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32}
      : (tensor<32x32xf16>, tensor<32x32xf16>, tensor<32x32xf32>) -> tensor<32x32xf32>
    scf.yield %next : tensor<32x32xf32>
  }
  %wide_rows_c = "tt.broadcast"(%rows_c) : (tensor<32x1xi32>) -> tensor<32x32xi32>
  %at_c = arith.addi %wide_rows_c, %wide_across : tensor<32x32xi32>
  %pc = "tt.splat"(%c) : (!tt.ptr<f32>) -> tensor<32x32x!tt.ptr<f32>>
  %to = "tt.addptr"(%pc, %at_c) : (tensor<32x32x!tt.ptr<f32>>, tensor<32x32xi32>) -> tensor<32x32x!tt.ptr<f32>>
  "tt.store"(%to, %sum) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}
    : (tensor<32x32x!tt.ptr<f32>>, tensor<32x32xf32>) -> ()
  "tt.return"() : () -> ()
}) {sym_name = "matmul", function_type = (!tt.ptr<f16>, !tt.ptr<f16>, !tt.ptr<f32>) -> (), sym_visibility = "public",
    noinline = false, arg_attrs = [{cuesta.shape = [64, 96]}, {cuesta.shape = [96, 32]}, {cuesta.shape = [64, 32]}],
    cuesta.grid = [2, 1, 1], cuesta.warps = 4, cuesta.stages = 3} : () -> ()
