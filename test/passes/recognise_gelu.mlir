// RUN: cuesta-opt --pass-pipeline='builtin.module(recognise-gelu)' %s | filecheck %s

// CHECK-LABEL: func.func @half_first
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.*]] = "cuesta.gelu"(%[[X]])
// CHECK-NEXT: return %[[Y]]
func.func @half_first(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = "cuesta.constant"() {value = 0.5 : f64} : () -> tensor<f32>
  %root = "cuesta.constant"() {value = 1.4142135623730951 : f64} : () -> tensor<f32>
  %one = "cuesta.constant"() {value = 1.0 : f64} : () -> tensor<f32>
  %0 = "cuesta.mul"(%x, %half) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = "cuesta.div"(%x, %root) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = "cuesta.erf"(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = "cuesta.add"(%one, %2) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = "cuesta.mul"(%0, %3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// Halves inside the sum, and an x that is a product of a constant itself.
// CHECK-LABEL: func.func @distributed
// CHECK-SAME: (%[[A:.*]]: tensor<8xf32>)
// CHECK: %[[X:.*]] = "cuesta.mul"(%[[A]],
// CHECK-NEXT: %[[Y:.*]] = "cuesta.gelu"(%[[X]])
// CHECK-NEXT: return %[[Y]], %[[X]]
func.func @distributed(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %three = "cuesta.constant"() {value = 3.0 : f64} : () -> tensor<f32>
  %half = "cuesta.constant"() {value = 0.5 : f64} : () -> tensor<f32>
  %root = "cuesta.constant"() {value = 0.7071067811865476 : f64} : () -> tensor<f32>
  %x = "cuesta.mul"(%a, %three) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %0 = "cuesta.mul"(%x, %root) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = "cuesta.erf"(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = "cuesta.mul"(%1, %half) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = "cuesta.add"(%2, %half) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %4 = "cuesta.mul"(%3, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4, %x : tensor<8xf32>, tensor<8xf32>
}

// x + 0.044715 x³, the cube as a square times x; x is a sum.
// CHECK-LABEL: func.func @tanh_of_cube
// CHECK: %[[X:.*]] = "cuesta.add"
// CHECK-NEXT: %[[Y:.*]] = "cuesta.gelu_tanh"(%[[X]])
// CHECK-NEXT: return %[[Y]]
func.func @tanh_of_cube(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %half = "cuesta.constant"() {value = 0.5 : f64} : () -> tensor<f32>
  %one = "cuesta.constant"() {value = 1.0 : f64} : () -> tensor<f32>
  %c = "cuesta.constant"() {value = 0.044715 : f64} : () -> tensor<f32>
  %s = "cuesta.constant"() {value = 0.7978845608 : f64} : () -> tensor<f32>
  %x = "cuesta.add"(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %0 = "cuesta.square"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "cuesta.mul"(%0, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = "cuesta.mul"(%1, %c) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = "cuesta.add"(%x, %2) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = "cuesta.mul"(%3, %s) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %5 = "cuesta.tanh"(%4) : (tensor<8xf32>) -> tensor<8xf32>
  %6 = "cuesta.add"(%5, %one) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %7 = "cuesta.mul"(%x, %half) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %8 = "cuesta.mul"(%7, %6) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %8 : tensor<8xf32>
}

// x · 0.79788 · (1 + 0.044715 x²).
// CHECK-LABEL: func.func @tanh_of_product
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.*]] = "cuesta.gelu_tanh"(%[[X]])
// CHECK-NEXT: return %[[Y]]
func.func @tanh_of_product(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = "cuesta.constant"() {value = 0.5 : f64} : () -> tensor<f32>
  %one = "cuesta.constant"() {value = 1.0 : f64} : () -> tensor<f32>
  %c = "cuesta.constant"() {value = 0.044715 : f64} : () -> tensor<f32>
  %s = "cuesta.constant"() {value = 0.7978845608 : f64} : () -> tensor<f32>
  %0 = "cuesta.mul"(%x, %c) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = "cuesta.mul"(%0, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = "cuesta.add"(%1, %one) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = "cuesta.mul"(%x, %s) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %4 = "cuesta.mul"(%3, %2) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = "cuesta.tanh"(%4) : (tensor<8xf32>) -> tensor<8xf32>
  %6 = "cuesta.add"(%5, %one) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %7 = "cuesta.mul"(%x, %6) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %8 = "cuesta.mul"(%7, %half) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %8 : tensor<8xf32>
}

// Each step of bf16 goes through f32 and back.
// CHECK-LABEL: func.func @bf16
// CHECK-SAME: (%[[X:.*]]: tensor<8xbf16>)
// CHECK-NEXT: %[[Y:.*]] = "cuesta.gelu"(%[[X]]) : (tensor<8xbf16>) -> tensor<8xbf16>
// CHECK-NEXT: return %[[Y]]
func.func @bf16(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %half = "cuesta.constant"() {value = 0.5 : f64} : () -> tensor<f32>
  %root = "cuesta.constant"() {value = 1.4142135623730951 : f64} : () -> tensor<f32>
  %one = "cuesta.constant"() {value = 1.0 : f64} : () -> tensor<bf16>
  %w = "cuesta.convert"(%x) : (tensor<8xbf16>) -> tensor<8xf32>
  %0 = "cuesta.mul"(%w, %half) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %n = "cuesta.convert"(%0) : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = "cuesta.div"(%w, %root) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %m = "cuesta.convert"(%1) : (tensor<8xf32>) -> tensor<8xbf16>
  %2 = "cuesta.erf"(%m) : (tensor<8xbf16>) -> tensor<8xbf16>
  %3 = "cuesta.add"(%2, %one) : (tensor<8xbf16>, tensor<bf16>) -> tensor<8xbf16>
  %4 = "cuesta.mul"(%n, %3) : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
  return %4 : tensor<8xbf16>
}

// 1.4142 is not the root of 2.
// CHECK-LABEL: func.func @another_constant
// CHECK: cuesta.erf
func.func @another_constant(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = "cuesta.constant"() {value = 0.5 : f64} : () -> tensor<f32>
  %root = "cuesta.constant"() {value = 1.4142 : f64} : () -> tensor<f32>
  %one = "cuesta.constant"() {value = 1.0 : f64} : () -> tensor<f32>
  %0 = "cuesta.mul"(%x, %half) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = "cuesta.div"(%x, %root) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = "cuesta.erf"(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = "cuesta.add"(%one, %2) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = "cuesta.mul"(%0, %3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// Ten digits of a constant are not f64's.
// CHECK-LABEL: func.func @rounded_constant_in_f64
// CHECK: cuesta.erf
func.func @rounded_constant_in_f64(%x: tensor<8xf64>) -> tensor<8xf64> {
  %half = "cuesta.constant"() {value = 0.5 : f64} : () -> tensor<f64>
  %root = "cuesta.constant"() {value = 1.4142135624 : f64} : () -> tensor<f64>
  %one = "cuesta.constant"() {value = 1.0 : f64} : () -> tensor<f64>
  %0 = "cuesta.mul"(%x, %half) : (tensor<8xf64>, tensor<f64>) -> tensor<8xf64>
  %1 = "cuesta.div"(%x, %root) : (tensor<8xf64>, tensor<f64>) -> tensor<8xf64>
  %2 = "cuesta.erf"(%1) : (tensor<8xf64>) -> tensor<8xf64>
  %3 = "cuesta.add"(%one, %2) : (tensor<f64>, tensor<8xf64>) -> tensor<8xf64>
  %4 = "cuesta.mul"(%0, %3) : (tensor<8xf64>, tensor<8xf64>) -> tensor<8xf64>
  return %4 : tensor<8xf64>
}

// A training graph saves the erf: it is computed anyway.
// CHECK-LABEL: func.func @saved
// CHECK: cuesta.erf
// CHECK-NOT: cuesta.gelu
// CHECK: return
func.func @saved(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %half = "cuesta.constant"() {value = 0.5 : f64} : () -> tensor<f32>
  %root = "cuesta.constant"() {value = 1.4142135623730951 : f64} : () -> tensor<f32>
  %one = "cuesta.constant"() {value = 1.0 : f64} : () -> tensor<f32>
  %0 = "cuesta.mul"(%x, %half) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = "cuesta.div"(%x, %root) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = "cuesta.erf"(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = "cuesta.add"(%one, %2) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = "cuesta.mul"(%0, %3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4, %3 : tensor<8xf32>, tensor<8xf32>
}

// Another value than the erf's is gated.
// CHECK-LABEL: func.func @gate
// CHECK: cuesta.erf
// CHECK-NOT: cuesta.gelu
// CHECK: return
func.func @gate(%x: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {
  %half = "cuesta.constant"() {value = 0.5 : f64} : () -> tensor<f32>
  %root = "cuesta.constant"() {value = 1.4142135623730951 : f64} : () -> tensor<f32>
  %one = "cuesta.constant"() {value = 1.0 : f64} : () -> tensor<f32>
  %0 = "cuesta.mul"(%z, %half) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = "cuesta.div"(%x, %root) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = "cuesta.erf"(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = "cuesta.add"(%one, %2) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = "cuesta.mul"(%0, %3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}
