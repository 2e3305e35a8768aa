// A 64x64 tile of a product of f16 matrices with K = 256, accumulated in f32, 32 of K at a time.
"builtin.module"() ({
  "tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}],
      function_type = (!tt.ptr<f16>, !tt.ptr<f16>, !tt.ptr<f32>) -> (), sym_name = "dot", sym_visibility = "public"}> ({
  ^bb0(%a: !tt.ptr<f16>, %b: !tt.ptr<f16>, %out: !tt.ptr<f32>):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %step = "arith.constant"() <{value = 32 : i32}> : () -> i32
    %depth = "arith.constant"() <{value = 256 : i32}> : () -> i32
    %nothing = "arith.constant"() <{value = dense<0.0> : tensor<64x64xf32>}> : () -> tensor<64x64xf32>
    %stride_a = "arith.constant"() <{value = dense<256> : tensor<64x1xi32>}> : () -> tensor<64x1xi32>
    %stride_b = "arith.constant"() <{value = dense<64> : tensor<32x1xi32>}> : () -> tensor<32x1xi32>
    %stride_o = "arith.constant"() <{value = dense<64> : tensor<64x1xi32>}> : () -> tensor<64x1xi32>
    %r64 = "tt.make_range"() <{start = 0 : i32, end = 64 : i32}> : () -> tensor<64xi32>
    %r32 = "tt.make_range"() <{start = 0 : i32, end = 32 : i32}> : () -> tensor<32xi32>
    %down64 = "tt.expand_dims"(%r64) <{axis = 1 : i32}> : (tensor<64xi32>) -> tensor<64x1xi32>
    %across64 = "tt.expand_dims"(%r64) <{axis = 0 : i32}> : (tensor<64xi32>) -> tensor<1x64xi32>
    %a_row = "arith.muli"(%down64, %stride_a) : (tensor<64x1xi32>, tensor<64x1xi32>) -> tensor<64x1xi32>
    %a_rows = "tt.broadcast"(%a_row) : (tensor<64x1xi32>) -> tensor<64x32xi32>
    %b_columns = "tt.broadcast"(%across64) : (tensor<1x64xi32>) -> tensor<32x64xi32>
    %as = "tt.splat"(%a) : (!tt.ptr<f16>) -> tensor<64x32x!tt.ptr<f16>>
    %bs = "tt.splat"(%b) : (!tt.ptr<f16>) -> tensor<32x64x!tt.ptr<f16>>
    %result = "scf.for"(%zero, %depth, %step, %nothing) ({
    ^bb0(%k: i32, %sum: tensor<64x64xf32>):
      %ks = "tt.splat"(%k) : (i32) -> tensor<32xi32>
      %kr = "arith.addi"(%ks, %r32) : (tensor<32xi32>, tensor<32xi32>) -> tensor<32xi32>
      %across = "tt.expand_dims"(%kr) <{axis = 0 : i32}> : (tensor<32xi32>) -> tensor<1x32xi32>
      %a_columns = "tt.broadcast"(%across) : (tensor<1x32xi32>) -> tensor<64x32xi32>
      %a_index = "arith.addi"(%a_rows, %a_columns) : (tensor<64x32xi32>, tensor<64x32xi32>) -> tensor<64x32xi32>
      %ap = "tt.addptr"(%as, %a_index) : (tensor<64x32x!tt.ptr<f16>>, tensor<64x32xi32>) -> tensor<64x32x!tt.ptr<f16>>
      %av = "tt.load"(%ap) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32,
          isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>}>
        : (tensor<64x32x!tt.ptr<f16>>) -> tensor<64x32xf16>
      %down = "tt.expand_dims"(%kr) <{axis = 1 : i32}> : (tensor<32xi32>) -> tensor<32x1xi32>
      %b_row = "arith.muli"(%down, %stride_b) : (tensor<32x1xi32>, tensor<32x1xi32>) -> tensor<32x1xi32>
      %b_rows = "tt.broadcast"(%b_row) : (tensor<32x1xi32>) -> tensor<32x64xi32>
      %b_index = "arith.addi"(%b_rows, %b_columns) : (tensor<32x64xi32>, tensor<32x64xi32>) -> tensor<32x64xi32>
      %bp = "tt.addptr"(%bs, %b_index) : (tensor<32x64x!tt.ptr<f16>>, tensor<32x64xi32>) -> tensor<32x64x!tt.ptr<f16>>
      %bv = "tt.load"(%bp) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32,
          isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>}>
        : (tensor<32x64x!tt.ptr<f16>>) -> tensor<32x64xf16>
      %next = "tt.dot"(%av, %bv, %sum) <{inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32}>
        : (tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
      "scf.yield"(%next) : (tensor<64x64xf32>) -> ()
    }) : (i32, i32, i32, tensor<64x64xf32>) -> tensor<64x64xf32>
    %o_row = "arith.muli"(%down64, %stride_o) : (tensor<64x1xi32>, tensor<64x1xi32>) -> tensor<64x1xi32>
    %o_rows = "tt.broadcast"(%o_row) : (tensor<64x1xi32>) -> tensor<64x64xi32>
    %o_columns = "tt.broadcast"(%across64) : (tensor<1x64xi32>) -> tensor<64x64xi32>
    %o_index = "arith.addi"(%o_rows, %o_columns) : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi32>
    %os = "tt.splat"(%out) : (!tt.ptr<f32>) -> tensor<64x64x!tt.ptr<f32>>
    %op = "tt.addptr"(%os, %o_index) : (tensor<64x64x!tt.ptr<f32>>, tensor<64x64xi32>) -> tensor<64x64x!tt.ptr<f32>>
    "tt.store"(%op, %result) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}>
      : (tensor<64x64x!tt.ptr<f32>>, tensor<64x64xf32>) -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) : () -> ()
