// RUN: cuesta-opt --split-input-file --verify-diagnostics %s

func.func @blocks_of_two_shapes(%x: tensor<64xf32>, %y: tensor<32xf32>) {
  // expected-error@below {{takes blocks of one shape, not tensor<64xf32>, tensor<32xf32>}}
  %0:2 = "tt.reduce"(%x, %y) ({
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    "tt.reduce.return"(%a, %b) : (f32, f32) -> ()
  }) {axis = 0 : i32} : (tensor<64xf32>, tensor<32xf32>) -> (f32, f32)
  return
}

// -----

func.func @one_argument(%x: tensor<64xf32>) {
  // expected-error@below {{combines (f32, f32), not (f32)}}
  %0 = "tt.reduce"(%x) ({
  ^bb0(%a: f32):
    "tt.reduce.return"(%a) : (f32) -> ()
  }) {axis = 0 : i32} : (tensor<64xf32>) -> f32
  return
}

// -----

func.func @ends_like_a_scan(%x: tensor<64xf32>) {
  // expected-error@below {{has a region that ends in tt.scan.return, not tt.reduce.return}}
  %0 = "tt.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    "tt.scan.return"(%a) : (f32) -> ()
  }) {axis = 0 : i32} : (tensor<64xf32>) -> f32
  return
}

// -----

func.func @combines_to_nothing(%x: tensor<64xf32>) {
  // expected-error@below {{combines to (), not (f32)}}
  %0 = "tt.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    "tt.reduce.return"() : () -> ()
  }) {axis = 0 : i32} : (tensor<64xf32>) -> f32
  return
}

// -----

func.func @keeps_the_axis(%x: tensor<64x32xf32>) {
  // expected-error@below {{gives (tensor<32xf32>), not (tensor<1x32xf32>)}}
  %0 = "tt.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    "tt.reduce.return"(%a) : (f32) -> ()
  }) {axis = 0 : i32} : (tensor<64x32xf32>) -> tensor<1x32xf32>
  return
}

// -----

func.func @axis_of_a_reduction(%x: tensor<64x32xf32>) {
  // expected-error@below {{axis 2 is not within 0..1}}
  %0 = "tt.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    "tt.reduce.return"(%a) : (f32) -> ()
  }) {axis = 2 : i32} : (tensor<64x32xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @scan_loses_the_axis(%x: tensor<64x32xf32>) {
  // expected-error@below {{gives (tensor<64x32xf32>), not (tensor<64xf32>)}}
  %0 = "tt.scan"(%x) ({
  ^bb0(%a: f32, %b: f32):
    "tt.scan.return"(%a) : (f32) -> ()
  }) {axis = 1 : i32, reverse = false} : (tensor<64x32xf32>) -> tensor<64xf32>
  return
}

// -----

// expected-error@below {{has arguments ['i32'], which its type (!tt.ptr<f32>) -> () does not state}}
"tt.func"() ({
^bb0(%a: i32):
  "tt.return"() : () -> ()
}) {sym_name = "k", function_type = (!tt.ptr<f32>) -> (), arg_attrs = [{}]} : () -> ()

// -----

// expected-error@below {{returns nothing: results are stored}}
"tt.func"() ({
  "tt.return"() : () -> ()
}) {sym_name = "k", function_type = () -> f32, arg_attrs = []} : () -> ()

// -----

// expected-error@below {{has 1 arguments and attributes for 2}}
"tt.func"() ({
^bb0(%a: !tt.ptr<f32>):
  "tt.return"() : () -> ()
}) {sym_name = "k", function_type = (!tt.ptr<f32>) -> (), arg_attrs = [{}, {}]} : () -> ()

// -----

// expected-error@below {{cuesta.grid must be three numbers of programs}}
"tt.func"() ({
  "tt.return"() : () -> ()
}) {sym_name = "k", function_type = () -> (), arg_attrs = [], cuesta.grid = [4, 1]} : () -> ()

// -----

// expected-error@below {{must end in tt.return}}
"tt.func"() ({
  "tt.get_program_id"() {axis = 0 : i32} : () -> i32
}) {sym_name = "k", function_type = () -> (), arg_attrs = []} : () -> ()

// -----

"tt.func"() ({
  // expected-error@below {{belongs to no dialect that cuesta knows}}
  "tt.descriptor_load"() : () -> ()
  "tt.return"() : () -> ()
}) {sym_name = "k", function_type = () -> (), arg_attrs = []} : () -> ()

// -----

"tt.func"() ({
  %c = arith.constant true
  scf.if %c {
    // expected-error@below {{axis 3 is not within 0..2}}
    %0 = "tt.get_program_id"() {axis = 3 : i32} : () -> i32
  }
  "tt.return"() : () -> ()
}) {sym_name = "k", function_type = () -> (), arg_attrs = []} : () -> ()

// -----

// expected-error@below {{Triton does not lower arith.negf: subtract from -0.0}}
"tt.func"() ({
  %c = arith.constant true
  scf.if %c {
    %x = arith.constant 1.0 : f32
    %0 = arith.negf %x : f32
  }
  "tt.return"() : () -> ()
}) {sym_name = "k", function_type = () -> (), arg_attrs = []} : () -> ()

// -----

// expected-error@below {{Triton does not lower math.tanh: decompose it, or call tt.extern_elementwise}}
"tt.func"() ({
  %x = arith.constant dense<1.0> : tensor<64xf32>
  %0 = math.tanh %x : tensor<64xf32>
  "tt.return"() : () -> ()
}) {sym_name = "k", function_type = () -> (), arg_attrs = []} : () -> ()
