// A softmax of rows of 1000 f32, a program a row.
"builtin.module"() ({
  "tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}],
      function_type = (!tt.ptr<f32>, !tt.ptr<f32>) -> (), sym_name = "softmax_row", sym_visibility = "public"}> ({
  ^bb0(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>):
    %size = "arith.constant"() <{value = dense<1000> : tensor<1024xi32>}> : () -> tensor<1024xi32>
    %least = "arith.constant"() <{value = dense<0xFF800000> : tensor<1024xf32>}> : () -> tensor<1024xf32>
    %stride = "arith.constant"() <{value = 1000 : i32}> : () -> i32
    %row = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %start = "arith.muli"(%row, %stride) : (i32, i32) -> i32
    %column = "tt.make_range"() <{start = 0 : i32, end = 1024 : i32}> : () -> tensor<1024xi32>
    %starts = "tt.splat"(%start) : (i32) -> tensor<1024xi32>
    %index = "arith.addi"(%starts, %column) : (tensor<1024xi32>, tensor<1024xi32>) -> tensor<1024xi32>
    %mask = "arith.cmpi"(%column, %size) <{predicate = 2 : i64}>
      : (tensor<1024xi32>, tensor<1024xi32>) -> tensor<1024xi1>
    %xs = "tt.splat"(%x) : (!tt.ptr<f32>) -> tensor<1024x!tt.ptr<f32>>
    %xp = "tt.addptr"(%xs, %index) : (tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>) -> tensor<1024x!tt.ptr<f32>>
    %xv = "tt.load"(%xp, %mask, %least) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32,
        isVolatile = false, operandSegmentSizes = array<i32: 1, 1, 1>}>
      : (tensor<1024x!tt.ptr<f32>>, tensor<1024xi1>, tensor<1024xf32>) -> tensor<1024xf32>
    %max = "tt.reduce"(%xv) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = "arith.maximumf"(%a, %b) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      "tt.reduce.return"(%c) : (f32) -> ()
    }) : (tensor<1024xf32>) -> f32
    %maxs = "tt.splat"(%max) : (f32) -> tensor<1024xf32>
    %shifted = "arith.subf"(%xv, %maxs) <{fastmath = #arith.fastmath<none>}>
      : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %exp = "math.exp"(%shifted) <{fastmath = #arith.fastmath<none>}> : (tensor<1024xf32>) -> tensor<1024xf32>
    %sum = "tt.reduce"(%exp) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = "arith.addf"(%a, %b) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      "tt.reduce.return"(%c) : (f32) -> ()
    }) : (tensor<1024xf32>) -> f32
    %sums = "tt.splat"(%sum) : (f32) -> tensor<1024xf32>
    %result = "tt.precise_divf"(%exp, %sums) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %os = "tt.splat"(%out) : (!tt.ptr<f32>) -> tensor<1024x!tt.ptr<f32>>
    %op = "tt.addptr"(%os, %index) : (tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>) -> tensor<1024x!tt.ptr<f32>>
    "tt.store"(%op, %result, %mask) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}>
      : (tensor<1024x!tt.ptr<f32>>, tensor<1024xf32>, tensor<1024xi1>) -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) : () -> ()
