// RUN: cuesta-opt --split-input-file --verify-diagnostics %s

// What MLIR's verifier cannot know about our ops is checked as well.
func.func @no_permutation(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  // expected-error@below {{'cuesta.permute' op}}
  %0 = "cuesta.permute"(%x) {dims = [1, 1]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

func.func @elements_of_the_wrong_kind(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  // expected-error@below {{'cuesta.permute' op}}
  %0 = "cuesta.permute"(%x) {dims = ["one", "zero"]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

func.func @no_such_op(%x: tensor<2x3xf32>) {
  // expected-error@below {{unregistered operation 'cuesta.permutation'}}
  "cuesta.permutation"(%x) : (tensor<2x3xf32>) -> ()
  return
}

// -----

func.func @call_into_aten_without_its_overload(%x: tensor<2x3xf32>) {
  // expected-error@below {{'aten.call' op lacks the attribute 'overload'}}
  "aten.call"(%x) : (tensor<2x3xf32>) -> ()
  return
}

// -----

// expected-error@below {{'somebody.elses' op belongs to no dialect}}
"somebody.elses"() : () -> ()
