// RUN: cuesta-opt --pass-pipeline='builtin.module(complex-views)' %s | filecheck %s

// What becomes of both parts is done to each, and a view of the pairs is what is left.
// CHECK-LABEL: func.func @rounded
// CHECK-SAME: (%[[RE:.*]]: tensor<4xf32>, %[[IM:.*]]: tensor<4xf32>)
// CHECK-DAG: %[[A:.*]] = "cuesta.convert"(%[[RE]]) : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK-DAG: %[[B:.*]] = "cuesta.convert"(%[[IM]]) : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK: %[[Z:.*]] = "cuesta.complex"(%[[A]], %[[B]]) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xcomplex<bf16>>
// CHECK-NEXT: %[[V:.*]] = "cuesta.view_as_real"(%[[Z]]) : (tensor<4xcomplex<bf16>>) -> tensor<4x2xbf16>
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[V]]) : (tensor<4x2xbf16>) -> tensor<8xbf16>
// CHECK-NEXT: return %[[R]]
func.func @rounded(%re: tensor<4xf32>, %im: tensor<4xf32>) -> tensor<8xbf16> {
  %0 = "cuesta.complex"(%re, %im) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xcomplex<f32>>
  %1 = "cuesta.view_as_real"(%0) : (tensor<4xcomplex<f32>>) -> tensor<4x2xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<4x2xf32>) -> tensor<8xf32>
  %3 = "cuesta.convert"(%2) : (tensor<8xf32>) -> tensor<8xbf16>
  return %3 : tensor<8xbf16>
}

// Whole numbers have no complex form.
// CHECK-LABEL: func.func @to_integers
// CHECK: "cuesta.view_as_real"
// CHECK-NEXT: "cuesta.convert"
func.func @to_integers(%re: tensor<4xf32>, %im: tensor<4xf32>) -> tensor<4x2xi32> {
  %0 = "cuesta.complex"(%re, %im) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xcomplex<f32>>
  %1 = "cuesta.view_as_real"(%0) : (tensor<4xcomplex<f32>>) -> tensor<4x2xf32>
  %2 = "cuesta.convert"(%1) : (tensor<4x2xf32>) -> tensor<4x2xi32>
  return %2 : tensor<4x2xi32>
}

// CHECK-LABEL: func.func @part_of_what_is_computed
// CHECK-SAME: (%{{.*}}: tensor<4xf32>, %[[IM:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[IM]]) : (tensor<4xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: return %[[R]]
func.func @part_of_what_is_computed(%re: tensor<4xf32>, %im: tensor<4xf32>) -> tensor<4x1xf32> {
  %0 = "cuesta.complex"(%re, %im) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xcomplex<f32>>
  %1 = "cuesta.view_as_real"(%0) : (tensor<4xcomplex<f32>>) -> tensor<4x2xf32>
  %2 = "cuesta.slice"(%1) {starts = [0, 1], steps = [1, 1]} : (tensor<4x2xf32>) -> tensor<4x1xf32>
  return %2 : tensor<4x1xf32>
}

// Of an argument, who computes takes the part; who returns it takes a view.
// CHECK-LABEL: func.func @parts_of_an_argument
// CHECK-SAME: (%[[Z:.*]]: tensor<4xcomplex<f32>>)
// CHECK: "cuesta.real"(%[[Z]])
// CHECK: "cuesta.exp"
// CHECK: %[[V:.*]] = "cuesta.view_as_real"(%[[Z]])
// CHECK: %[[S:.*]] = "cuesta.slice"(%[[V]]) {starts = [0, 1]
// CHECK: return %{{.*}}, %[[S]]
func.func @parts_of_an_argument(%z: tensor<4xcomplex<f32>>) -> (tensor<4xf32>, tensor<4x1xf32>) {
  %0 = "cuesta.view_as_real"(%z) : (tensor<4xcomplex<f32>>) -> tensor<4x2xf32>
  %1 = "cuesta.slice"(%0) {starts = [0, 0], steps = [1, 1]} : (tensor<4x2xf32>) -> tensor<4x1xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<4x1xf32>) -> tensor<4xf32>
  %3 = "cuesta.exp"(%2) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "cuesta.view_as_real"(%z) : (tensor<4xcomplex<f32>>) -> tensor<4x2xf32>
  %5 = "cuesta.slice"(%4) {starts = [0, 1], steps = [1, 1]} : (tensor<4x2xf32>) -> tensor<4x1xf32>
  return %3, %5 : tensor<4xf32>, tensor<4x1xf32>
}

// Pairs of bf16 are read as pairs, and widened in the kernel that takes them.
// CHECK-LABEL: func.func @widened
// CHECK-SAME: (%[[X:.*]]: tensor<8xbf16>)
// CHECK: %[[P:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<8xbf16>) -> tensor<4x2xbf16>
// CHECK-NEXT: %[[Z:.*]] = "cuesta.view_as_complex"(%[[P]]) : (tensor<4x2xbf16>) -> tensor<4xcomplex<bf16>>
// CHECK: "cuesta.real"(%[[Z]]) : (tensor<4xcomplex<bf16>>) -> tensor<4xbf16>
// CHECK: "cuesta.convert"(%{{.*}}) : (tensor<4xbf16>) -> tensor<4xf32>
func.func @widened(%x: tensor<8xbf16>) -> tensor<4xf32> {
  %0 = "cuesta.convert"(%x) : (tensor<8xbf16>) -> tensor<8xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<8xf32>) -> tensor<4x2xf32>
  %2 = "cuesta.view_as_complex"(%1) : (tensor<4x2xf32>) -> tensor<4xcomplex<f32>>
  %3 = "cuesta.real"(%2) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
