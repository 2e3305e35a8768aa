// RUN: cuesta-opt %s | filecheck %s
// RUN: cuesta-run %s | filecheck %s --check-prefix=RESULT

// Softmax of 48 rows of 100, one program a row. Every row adds up to one: the mean is 1/100.
// RESULT: result 0: f32[48, 100] strides (100, 1)
// RESULT-SAME: mean 0.01

// CHECK: "tt.func"()
// CHECK: "tt.reduce"
// CHECK: "tt.reduce.return"
"tt.func"() ({
^bb0(%in: !tt.ptr<f32>, %out: !tt.ptr<f32>):
  %row = "tt.get_program_id"() {axis = 0 : i32} : () -> i32
  %width = arith.constant 100 : i32
  %start = arith.muli %row, %width : i32
  %starts = "tt.splat"(%start) : (i32) -> tensor<128xi32>
  %columns = "tt.make_range"() {start = 0 : i32, end = 128 : i32} : () -> tensor<128xi32>
  %widths = "tt.splat"(%width) : (i32) -> tensor<128xi32>
  %mask = arith.cmpi slt, %columns, %widths : tensor<128xi32>
  %offsets = arith.addi %starts, %columns : tensor<128xi32>
  %ins = "tt.splat"(%in) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
  %from = "tt.addptr"(%ins, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
  %lowest = arith.constant dense<0xFF800000> : tensor<128xf32>
  %x = "tt.load"(%from, %mask, %lowest) {operandSegmentSizes = array<i32: 1, 1, 1>, boundaryCheck = array<i32>,
    cache = 1 : i32, evict = 1 : i32, isVolatile = false}
    : (tensor<128x!tt.ptr<f32>>, tensor<128xi1>, tensor<128xf32>) -> tensor<128xf32>
  %max = "tt.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    %larger = arith.maximumf %a, %b : f32
    "tt.reduce.return"(%larger) : (f32) -> ()
  }) {axis = 0 : i32} : (tensor<128xf32>) -> f32
  %maxs = "tt.splat"(%max) : (f32) -> tensor<128xf32>
  %shifted = arith.subf %x, %maxs : tensor<128xf32>
  %e = math.exp %shifted : tensor<128xf32>
  %sum = "tt.reduce"(%e) ({
  ^bb0(%a: f32, %b: f32):
    %total = arith.addf %a, %b : f32
    "tt.reduce.return"(%total) : (f32) -> ()
  }) {axis = 0 : i32} : (tensor<128xf32>) -> f32
  %sums = "tt.splat"(%sum) : (f32) -> tensor<128xf32>
  %y = arith.divf %e, %sums : tensor<128xf32>
  %outs = "tt.splat"(%out) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
  %to = "tt.addptr"(%outs, %offsets) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
  "tt.store"(%to, %y, %mask) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}
    : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>, tensor<128xi1>) -> ()
  "tt.return"() : () -> ()
}) {sym_name = "softmax", function_type = (!tt.ptr<f32>, !tt.ptr<f32>) -> (), sym_visibility = "public", noinline = false,
    arg_attrs = [{tt.divisibility = 16 : i32, cuesta.shape = [48, 100]}, {cuesta.shape = [48, 100]}],
    cuesta.grid = [48, 1, 1], cuesta.warps = 4, cuesta.stages = 3} : () -> ()
