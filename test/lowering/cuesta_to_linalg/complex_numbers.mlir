// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg)' %s | filecheck %s

// Memory holds an integer of twice the width, the real part in its lower half.
// CHECK-LABEL: func.func @turned
// CHECK-SAME: (%[[Z:.*]]: tensor<4xi64>) -> tensor<4xi64>
// CHECK: linalg.generic {{.*}} ins(%[[Z]] : tensor<4xi64>)
// CHECK: %[[LOW:.*]] = arith.trunci %{{.*}} : i64 to i32
// CHECK-NEXT: arith.bitcast %[[LOW]] : i32 to f32
// CHECK-DAG: %[[C32:.*]] = arith.constant 32 : i64
// CHECK: %[[SHIFTED:.*]] = arith.shrui %{{.*}}, %[[C32]]
// CHECK-NEXT: %[[HIGH:.*]] = arith.trunci %[[SHIFTED]] : i64 to i32
// CHECK-NEXT: arith.bitcast %[[HIGH]] : i32 to f32
// CHECK: ^bb0(%[[RE:.*]]: f32, %[[IM:.*]]: f32, %{{.*}}: i64):
// CHECK: arith.bitcast %[[RE]] : f32 to i32
// CHECK: arith.extui
// CHECK: arith.bitcast %[[IM]] : f32 to i32
// CHECK: arith.extui
// CHECK: %[[BITS:.*]] = arith.constant 32 : i64
// CHECK: arith.shli %{{.*}}, %[[BITS]]
// CHECK: arith.ori
func.func @turned(%z: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %re = "cuesta.real"(%z) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %im = "cuesta.imag"(%z) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %minus = "cuesta.neg"(%im) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = "cuesta.complex"(%minus, %re) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}

// What moves elements moves them whole.
// CHECK-LABEL: func.func @moved
// CHECK-SAME: tensor<2x3xi128>
// CHECK: "cuesta.cat"(%{{.*}}, %{{.*}}) {dim = 0 : i64} : (tensor<2x3xi128>, tensor<2x3xi128>) -> tensor<4x3xi128>
func.func @moved(%z: tensor<2x3xcomplex<f64>>) -> tensor<4x3xcomplex<f64>> {
  %0 = "cuesta.cat"(%z, %z) {dim = 0} : (tensor<2x3xcomplex<f64>>, tensor<2x3xcomplex<f64>>) -> tensor<4x3xcomplex<f64>>
  return %0 : tensor<4x3xcomplex<f64>>
}

// Views stay, between the types that memory has.
// CHECK-LABEL: func.func @viewed
// CHECK: "cuesta.view_as_complex"(%{{.*}}) : (tensor<3x2xf32>) -> tensor<3xi64>
// CHECK: "cuesta.view_as_real"(%{{.*}}) : (tensor<3xi64>) -> tensor<3x2xf32>
func.func @viewed(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %0 = "cuesta.view_as_complex"(%x) : (tensor<3x2xf32>) -> tensor<3xcomplex<f32>>
  %1 = "cuesta.view_as_real"(%0) : (tensor<3xcomplex<f32>>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}
