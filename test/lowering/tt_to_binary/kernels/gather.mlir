// Rows of a table of 64 f16 by i64 positions: a program takes 8 positions.
"builtin.module"() ({
  "tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}],
      function_type = (!tt.ptr<i64>, !tt.ptr<f16>, !tt.ptr<f16>) -> (), sym_name = "gather",
      sym_visibility = "public"}> ({
  ^bb0(%positions: !tt.ptr<i64>, %table: !tt.ptr<f16>, %out: !tt.ptr<f16>):
    %eight = "arith.constant"() <{value = 8 : i32}> : () -> i32
    %stride = "arith.constant"() <{value = dense<64> : tensor<8x1xi64>}> : () -> tensor<8x1xi64>
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %first = "arith.muli"(%pid, %eight) : (i32, i32) -> i32
    %range = "tt.make_range"() <{start = 0 : i32, end = 8 : i32}> : () -> tensor<8xi32>
    %firsts = "tt.splat"(%first) : (i32) -> tensor<8xi32>
    %row = "arith.addi"(%firsts, %range) : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
    %ps = "tt.splat"(%positions) : (!tt.ptr<i64>) -> tensor<8x!tt.ptr<i64>>
    %pp = "tt.addptr"(%ps, %row) : (tensor<8x!tt.ptr<i64>>, tensor<8xi32>) -> tensor<8x!tt.ptr<i64>>
    %position = "tt.load"(%pp) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32,
        isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<8x!tt.ptr<i64>>) -> tensor<8xi64>
    %column = "tt.make_range"() <{start = 0 : i32, end = 64 : i32}> : () -> tensor<64xi32>
    %column2 = "tt.expand_dims"(%column) <{axis = 0 : i32}> : (tensor<64xi32>) -> tensor<1x64xi32>
    %column8 = "tt.broadcast"(%column2) : (tensor<1x64xi32>) -> tensor<8x64xi32>
    %columns = "arith.extsi"(%column8) : (tensor<8x64xi32>) -> tensor<8x64xi64>
    %position2 = "tt.expand_dims"(%position) <{axis = 1 : i32}> : (tensor<8xi64>) -> tensor<8x1xi64>
    %start = "arith.muli"(%position2, %stride) : (tensor<8x1xi64>, tensor<8x1xi64>) -> tensor<8x1xi64>
    %starts = "tt.broadcast"(%start) : (tensor<8x1xi64>) -> tensor<8x64xi64>
    %from = "arith.addi"(%starts, %columns) : (tensor<8x64xi64>, tensor<8x64xi64>) -> tensor<8x64xi64>
    %ts = "tt.splat"(%table) : (!tt.ptr<f16>) -> tensor<8x64x!tt.ptr<f16>>
    %tp = "tt.addptr"(%ts, %from) : (tensor<8x64x!tt.ptr<f16>>, tensor<8x64xi64>) -> tensor<8x64x!tt.ptr<f16>>
    %value = "tt.load"(%tp) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32,
        isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>}>
      : (tensor<8x64x!tt.ptr<f16>>) -> tensor<8x64xf16>
    %wide = "arith.extsi"(%row) : (tensor<8xi32>) -> tensor<8xi64>
    %row2 = "tt.expand_dims"(%wide) <{axis = 1 : i32}> : (tensor<8xi64>) -> tensor<8x1xi64>
    %target = "arith.muli"(%row2, %stride) : (tensor<8x1xi64>, tensor<8x1xi64>) -> tensor<8x1xi64>
    %targets = "tt.broadcast"(%target) : (tensor<8x1xi64>) -> tensor<8x64xi64>
    %to = "arith.addi"(%targets, %columns) : (tensor<8x64xi64>, tensor<8x64xi64>) -> tensor<8x64xi64>
    %os = "tt.splat"(%out) : (!tt.ptr<f16>) -> tensor<8x64x!tt.ptr<f16>>
    %op = "tt.addptr"(%os, %to) : (tensor<8x64x!tt.ptr<f16>>, tensor<8x64xi64>) -> tensor<8x64x!tt.ptr<f16>>
    "tt.store"(%op, %value) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}>
      : (tensor<8x64x!tt.ptr<f16>>, tensor<8x64xf16>) -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) : () -> ()
