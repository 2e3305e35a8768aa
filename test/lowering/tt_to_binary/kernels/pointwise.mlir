// relu(x * 2 + y) in bf16, 1000 elements in blocks of 256; the last block is masked.
"builtin.module"() ({
  "tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}],
      function_type = (!tt.ptr<bf16>, !tt.ptr<bf16>, !tt.ptr<bf16>) -> (), sym_name = "pointwise",
      sym_visibility = "public"}> ({
  ^bb0(%x: !tt.ptr<bf16>, %y: !tt.ptr<bf16>, %out: !tt.ptr<bf16>):
    %two = "arith.constant"() <{value = dense<2.0> : tensor<256xf32>}> : () -> tensor<256xf32>
    %zero = "arith.constant"() <{value = dense<0.0> : tensor<256xf32>}> : () -> tensor<256xf32>
    %none = "arith.constant"() <{value = dense<0.0> : tensor<256xbf16>}> : () -> tensor<256xbf16>
    %size = "arith.constant"() <{value = dense<1000> : tensor<256xi32>}> : () -> tensor<256xi32>
    %block = "arith.constant"() <{value = 256 : i32}> : () -> i32
    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %first = "arith.muli"(%pid, %block) : (i32, i32) -> i32
    %range = "tt.make_range"() <{start = 0 : i32, end = 256 : i32}> : () -> tensor<256xi32>
    %firsts = "tt.splat"(%first) : (i32) -> tensor<256xi32>
    %index = "arith.addi"(%firsts, %range) : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi32>
    %mask = "arith.cmpi"(%index, %size) <{predicate = 2 : i64}> : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi1>
    %xs = "tt.splat"(%x) : (!tt.ptr<bf16>) -> tensor<256x!tt.ptr<bf16>>
    %xp = "tt.addptr"(%xs, %index) : (tensor<256x!tt.ptr<bf16>>, tensor<256xi32>) -> tensor<256x!tt.ptr<bf16>>
    %xv = "tt.load"(%xp, %mask, %none) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32,
        isVolatile = false, operandSegmentSizes = array<i32: 1, 1, 1>}>
      : (tensor<256x!tt.ptr<bf16>>, tensor<256xi1>, tensor<256xbf16>) -> tensor<256xbf16>
    %ys = "tt.splat"(%y) : (!tt.ptr<bf16>) -> tensor<256x!tt.ptr<bf16>>
    %yp = "tt.addptr"(%ys, %index) : (tensor<256x!tt.ptr<bf16>>, tensor<256xi32>) -> tensor<256x!tt.ptr<bf16>>
    %yv = "tt.load"(%yp, %mask, %none) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32,
        isVolatile = false, operandSegmentSizes = array<i32: 1, 1, 1>}>
      : (tensor<256x!tt.ptr<bf16>>, tensor<256xi1>, tensor<256xbf16>) -> tensor<256xbf16>
    %xf = "arith.extf"(%xv) : (tensor<256xbf16>) -> tensor<256xf32>
    %yf = "arith.extf"(%yv) : (tensor<256xbf16>) -> tensor<256xf32>
    %twice = "arith.mulf"(%xf, %two) <{fastmath = #arith.fastmath<none>}> : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %sum = "arith.addf"(%twice, %yf) <{fastmath = #arith.fastmath<none>}> : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %relu = "arith.maximumf"(%sum, %zero) <{fastmath = #arith.fastmath<none>}> : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %result = "arith.truncf"(%relu) : (tensor<256xf32>) -> tensor<256xbf16>
    %os = "tt.splat"(%out) : (!tt.ptr<bf16>) -> tensor<256x!tt.ptr<bf16>>
    %op = "tt.addptr"(%os, %index) : (tensor<256x!tt.ptr<bf16>>, tensor<256xi32>) -> tensor<256x!tt.ptr<bf16>>
    "tt.store"(%op, %result, %mask) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}>
      : (tensor<256x!tt.ptr<bf16>>, tensor<256xbf16>, tensor<256xi1>) -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) : () -> ()
