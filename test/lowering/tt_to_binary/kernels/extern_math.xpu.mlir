// tanh in f32 and pow in f64, from the target's library of device functions.
"builtin.module"() ({
  "tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}],
      function_type = (!tt.ptr<f32>, !tt.ptr<f64>) -> (), sym_name = "extern_math", sym_visibility = "public"}> ({
  ^bb0(%x: !tt.ptr<f32>, %out: !tt.ptr<f64>):
    %index = "tt.make_range"() <{start = 0 : i32, end = 128 : i32}> : () -> tensor<128xi32>
    %power = "arith.constant"() <{value = dense<2.5> : tensor<128xf64>}> : () -> tensor<128xf64>
    %xs = "tt.splat"(%x) : (!tt.ptr<f32>) -> tensor<128x!tt.ptr<f32>>
    %xp = "tt.addptr"(%xs, %index) : (tensor<128x!tt.ptr<f32>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f32>>
    %xv = "tt.load"(%xp) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32,
        isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<128x!tt.ptr<f32>>) -> tensor<128xf32>
    %tanh = "tt.extern_elementwise"(%xv) <{libname = "", libpath = "", pure = true, symbol = "__imf_tanhf"}>
      : (tensor<128xf32>) -> tensor<128xf32>
    %wide = "arith.extf"(%tanh) : (tensor<128xf32>) -> tensor<128xf64>
    %pow = "tt.extern_elementwise"(%wide, %power) <{libname = "", libpath = "", pure = true, symbol = "__imf_pow"}>
      : (tensor<128xf64>, tensor<128xf64>) -> tensor<128xf64>
    %os = "tt.splat"(%out) : (!tt.ptr<f64>) -> tensor<128x!tt.ptr<f64>>
    %op = "tt.addptr"(%os, %index) : (tensor<128x!tt.ptr<f64>>, tensor<128xi32>) -> tensor<128x!tt.ptr<f64>>
    "tt.store"(%op, %pow) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}>
      : (tensor<128x!tt.ptr<f64>>, tensor<128xf64>) -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) : () -> ()
