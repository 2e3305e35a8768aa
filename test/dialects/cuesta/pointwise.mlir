// RUN: cuesta-opt %s | filecheck %s

// Operands broadcast as torch's do: trailing dims aligned, size 1 stretched.
// CHECK-LABEL: func.func @broadcast
// CHECK-SAME: %[[X:.*]]: tensor<4x1xf32>, %[[Y:.*]]: tensor<6xf32>, %[[Z:.*]]: tensor<f32>
// CHECK-NEXT: %[[SUM:.*]] = "cuesta.add"(%[[X]], %[[Y]]) : (tensor<4x1xf32>, tensor<6xf32>) -> tensor<4x6xf32>
// CHECK-NEXT: "cuesta.mul"(%[[SUM]], %[[Z]]) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
func.func @broadcast(%x: tensor<4x1xf32>, %y: tensor<6xf32>, %z: tensor<f32>) -> tensor<4x6xf32> {
  %0 = "cuesta.add"(%x, %y) : (tensor<4x1xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %1 = "cuesta.mul"(%0, %z) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// Parameters are float attributes.
// CHECK-LABEL: func.func @parameters
// CHECK: "cuesta.leaky_relu"(%{{.*}}) {negative_slope = 1.000000e-01 : f64}
// CHECK: "cuesta.elu"(%{{.*}}) {alpha = 1.000000e+00 : f64, input_scale = 1.000000e+00 : f64, scale = 2.000000e+00 : f64}
func.func @parameters(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "cuesta.leaky_relu"(%x) {negative_slope = 0.1} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "cuesta.elu"(%x) {alpha = 1.0, scale = 2.0, input_scale = 1.0} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// The element type keeps torch's meaning: i1 is bool, ui8 is uint8.
// CHECK-LABEL: func.func @types
// CHECK: %[[LESS:.*]] = "cuesta.lt"(%{{.*}}, %{{.*}}) : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
// CHECK: "cuesta.where"(%[[LESS]], %{{.*}}, %{{.*}}) : (tensor<4xi1>, tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
// CHECK: "cuesta.convert"(%{{.*}}) : (tensor<4xui8>) -> tensor<4xbf16>
func.func @types(%x: tensor<4xui8>, %y: tensor<4xui8>) -> tensor<4xbf16> {
  %0 = "cuesta.lt"(%x, %y) : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
  %1 = "cuesta.where"(%0, %x, %y) : (tensor<4xi1>, tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  %2 = "cuesta.convert"(%1) : (tensor<4xui8>) -> tensor<4xbf16>
  return %2 : tensor<4xbf16>
}
