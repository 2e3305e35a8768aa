// RUN: cuesta-opt --pass-pipeline='builtin.module(unmerged-parts)' %s | filecheck %s

// The permuted part is written where it is to be, and not copied for the reshape first.
// CHECK-LABEL: func.func @padded
// CHECK-NEXT: %[[P:.*]] = "cuesta.permute"(%arg0) {dims = [0, 2, 1]}
// CHECK-NEXT: %[[Z:.*]] = "cuesta.constant"() {value = 0.000000e+00 : f64} : () -> tensor<4x256x8xf32>
// CHECK-NEXT: %[[C:.*]] = "cuesta.cat"(%[[P]], %[[Z]]) {dim = 2 : i64} : {{.*}} -> tensor<4x256x32xf32>
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[C]]) : (tensor<4x256x32xf32>) -> tensor<1024x32xf32>
// CHECK-NEXT: return %[[R]]
func.func @padded(%x: tensor<4x24x256xf32>) -> tensor<1024x32xf32> {
  %0 = "cuesta.permute"(%x) {dims = [0, 2, 1]} : (tensor<4x24x256xf32>) -> tensor<4x256x24xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<4x256x24xf32>) -> tensor<1024x24xf32>
  %2 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<1024x8xf32>
  %3 = "cuesta.cat"(%1, %2) {dim = 1 : i64} : (tensor<1024x24xf32>, tensor<1024x8xf32>) -> tensor<1024x32xf32>
  return %3 : tensor<1024x32xf32>
}

// A reshape that is a view, of what is not permuted; one that splits the dim of the parts.
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-2: "cuesta.cat"({{.*}}) {dim = 1 : i64}
func.func @stays(%x: tensor<4x24x256xf32>, %z: tensor<96x8xf32>, %y: tensor<4x6xf32>) -> (tensor<96x264xf32>, tensor<3x16xf32>) {
  %0 = "cuesta.reshape"(%x) : (tensor<4x24x256xf32>) -> tensor<96x256xf32>
  %1 = "cuesta.cat"(%0, %z) {dim = 1 : i64} : (tensor<96x256xf32>, tensor<96x8xf32>) -> tensor<96x264xf32>
  %2 = "cuesta.permute"(%y) {dims = [1, 0]} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<6x4xf32>) -> tensor<3x8xf32>
  %4 = "cuesta.cat"(%3, %3) {dim = 1 : i64} : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x16xf32>
  return %1, %4 : tensor<96x264xf32>, tensor<3x16xf32>
}
