// Sums over the rows of 512x64 f32: a program takes 16 columns, a loop 32 rows at a time.
"builtin.module"() ({
  "tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}],
      function_type = (!tt.ptr<f32>, !tt.ptr<f32>) -> (), sym_name = "column_sum", sym_visibility = "public"}> ({
  ^bb0(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %step = "arith.constant"() <{value = 32 : i32}> : () -> i32
    %rows = "arith.constant"() <{value = 512 : i32}> : () -> i32
    %width = "arith.constant"() <{value = 16 : i32}> : () -> i32
    %stride = "arith.constant"() <{value = dense<64> : tensor<32x1xi32>}> : () -> tensor<32x1xi32>
    %nothing = "arith.constant"() <{value = dense<0.0> : tensor<32x16xf32>}> : () -> tensor<32x16xf32>
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %first = "arith.muli"(%pid, %width) : (i32, i32) -> i32
    %range = "tt.make_range"() <{start = 0 : i32, end = 16 : i32}> : () -> tensor<16xi32>
    %firsts = "tt.splat"(%first) : (i32) -> tensor<16xi32>
    %column = "arith.addi"(%firsts, %range) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
    %column2 = "tt.expand_dims"(%column) <{axis = 0 : i32}> : (tensor<16xi32>) -> tensor<1x16xi32>
    %columns = "tt.broadcast"(%column2) : (tensor<1x16xi32>) -> tensor<32x16xi32>
    %down = "tt.make_range"() <{start = 0 : i32, end = 32 : i32}> : () -> tensor<32xi32>
    %xs = "tt.splat"(%x) : (!tt.ptr<f32>) -> tensor<32x16x!tt.ptr<f32>>
    %total = "scf.for"(%zero, %rows, %step, %nothing) ({
    ^bb0(%row: i32, %sum: tensor<32x16xf32>):
      %start = "tt.splat"(%row) : (i32) -> tensor<32xi32>
      %index = "arith.addi"(%start, %down) : (tensor<32xi32>, tensor<32xi32>) -> tensor<32xi32>
      %index2 = "tt.expand_dims"(%index) <{axis = 1 : i32}> : (tensor<32xi32>) -> tensor<32x1xi32>
      %offset = "arith.muli"(%index2, %stride) : (tensor<32x1xi32>, tensor<32x1xi32>) -> tensor<32x1xi32>
      %offsets = "tt.broadcast"(%offset) : (tensor<32x1xi32>) -> tensor<32x16xi32>
      %place = "arith.addi"(%offsets, %columns) : (tensor<32x16xi32>, tensor<32x16xi32>) -> tensor<32x16xi32>
      %xp = "tt.addptr"(%xs, %place)
        : (tensor<32x16x!tt.ptr<f32>>, tensor<32x16xi32>) -> tensor<32x16x!tt.ptr<f32>>
      %xv = "tt.load"(%xp) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32,
          isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>}>
        : (tensor<32x16x!tt.ptr<f32>>) -> tensor<32x16xf32>
      %next = "arith.addf"(%sum, %xv) <{fastmath = #arith.fastmath<none>}>
        : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
      "scf.yield"(%next) : (tensor<32x16xf32>) -> ()
    }) : (i32, i32, i32, tensor<32x16xf32>) -> tensor<32x16xf32>
    %result = "tt.reduce"(%total) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = "arith.addf"(%a, %b) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      "tt.reduce.return"(%c) : (f32) -> ()
    }) : (tensor<32x16xf32>) -> tensor<16xf32>
    %os = "tt.splat"(%out) : (!tt.ptr<f32>) -> tensor<16x!tt.ptr<f32>>
    %op = "tt.addptr"(%os, %column) : (tensor<16x!tt.ptr<f32>>, tensor<16xi32>) -> tensor<16x!tt.ptr<f32>>
    "tt.store"(%op, %result) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}>
      : (tensor<16x!tt.ptr<f32>>, tensor<16xf32>) -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) : () -> ()
