// RUN: cuesta-opt --split-input-file --verify-diagnostics %s

func.func @extern_of_two_shapes(%x: tensor<64xf32>, %y: tensor<32xf32>) {
  // expected-error@below {{keeps the shape, but takes (tensor<64xf32>, tensor<32xf32>) to tensor<64xf32>}}
  %0 = "tt.extern_elementwise"(%x, %y) {libname = "", libpath = "", pure = true, symbol = "__nv_powf"} : (tensor<64xf32>, tensor<32xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @precise_f64(%x: tensor<64xf64>) {
  // expected-error@below {{takes f32 of one shape, not (tensor<64xf64>)}}
  %0 = "tt.precise_sqrt"(%x) : (tensor<64xf64>) -> tensor<64xf64>
  return
}

// -----

func.func @precise_of_two_shapes(%x: tensor<64xf32>, %y: f32) {
  // expected-error@below {{takes f32 of one shape, not (tensor<64xf32>, f32)}}
  %0 = "tt.precise_divf"(%x, %y) : (tensor<64xf32>, f32) -> tensor<64xf32>
  return
}

// -----

func.func @bitcast_to_another_width(%x: tensor<64xf32>) {
  // expected-error@below {{keeps shape and width, but goes from tensor<64xf32> to tensor<64xi64>}}
  %0 = "tt.bitcast"(%x) : (tensor<64xf32>) -> tensor<64xi64>
  return
}

// -----

func.func @bitcast_of_a_pointer(%x: !tt.ptr<f32>) {
  // expected-error@below {{keeps shape and width, but goes from !tt.ptr<f32> to i64}}
  %0 = "tt.bitcast"(%x) : (!tt.ptr<f32>) -> i64
  return
}

// -----

func.func @dot_of_another_depth(%a: tensor<16x32xf16>, %c: tensor<16x32xf32>) {
  // expected-error@below {{cannot multiply tensor<16x32xf16> by tensor<16x32xf16>}}
  %0 = "tt.dot"(%a, %a, %c) {inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32} : (tensor<16x32xf16>, tensor<16x32xf16>, tensor<16x32xf32>) -> tensor<16x32xf32>
  return
}

// -----

func.func @dot_to_another_shape(%a: tensor<16x16xf16>, %c: tensor<16x32xf32>) {
  // expected-error@below {{adds to [16, 16], not [16, 32]}}
  %0 = "tt.dot"(%a, %a, %c) {inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32} : (tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x32xf32>) -> tensor<16x32xf32>
  return
}

// -----

func.func @dot_of_two_types(%a: tensor<16x16xf16>, %b: tensor<16x16xbf16>, %c: tensor<16x16xf32>) {
  // expected-error@below {{multiplies elements of one type, not f16 and bf16}}
  %0 = "tt.dot"(%a, %b, %c) {inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32} : (tensor<16x16xf16>, tensor<16x16xbf16>, tensor<16x16xf32>) -> tensor<16x16xf32>
  return
}
