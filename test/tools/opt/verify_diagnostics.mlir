// RUN: cuesta-opt --split-input-file --verify-diagnostics %s

func.func @here(%x: tensor<4xf32>) -> tensor<5xf32> {
  return %x : tensor<4xf32>  // expected-error {{type of return operand 0}}
}

// -----

func.func @before(%x: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{doesn't match function result type}}
  return %x : tensor<4xf32>
}

// -----

func.func @stacked(%x: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error-re@below {{operand [0-9] .*tensor<5xf32>}}
  // expected-note@below {{see current operation}}
  return %x : tensor<4xf32>
}

// -----

func.func @after(%x: tensor<4xf32>) -> tensor<5xf32> {
  return %x : tensor<4xf32>
  // expected-error@above {{type of return operand 0}}
}

// -----

func.func @nothing_to_say() { return }
