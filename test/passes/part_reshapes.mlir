// RUN: cuesta-opt --pass-pipeline='builtin.module(part-reshapes)' %s | filecheck %s

// Pairs among groups: 1024 dims become 64x16, and 16x2 become 32.
// CHECK-LABEL: func.func @halves
// CHECK: %[[W:.*]] = "cuesta.where"
// CHECK: %[[P:.*]] = "cuesta.reshape"(%[[W]]) : (tensor<8x1024x2xui8>) -> tensor<8x64x16x2xui8>
// CHECK: %[[M:.*]] = "cuesta.reshape"(%[[P]]) : (tensor<8x64x16x2xui8>) -> tensor<8x64x32xui8>
// CHECK: "cuesta.convert"(%[[M]])
func.func @halves(%even: tensor<1x1x2xi1>, %low: tensor<8x1024x1xui8>, %high: tensor<8x1024x1xui8>) -> tensor<8x64x32xf32> {
  %0 = "cuesta.where"(%even, %low, %high) : (tensor<1x1x2xi1>, tensor<8x1024x1xui8>, tensor<8x1024x1xui8>) -> tensor<8x1024x2xui8>
  %1 = "cuesta.reshape"(%0) : (tensor<8x1024x2xui8>) -> tensor<8x64x32xui8>
  %2 = "cuesta.convert"(%1) : (tensor<8x64x32xui8>) -> tensor<8x64x32xf32>
  return %2 : tensor<8x64x32xf32>
}

// One that only parts or only merges, one that moves up whole, and one whose dims have no common parts stay.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-4: cuesta.reshape
// CHECK-NOT: cuesta.reshape
func.func @others(%even: tensor<1x1x2xi1>, %low: tensor<8x1024x1xf32>, %high: tensor<8x1024x1xf32>, %x: tensor<8x1024x2xf32>, %y: tensor<6x1xf32>, %z: tensor<1x4xf32>) -> (tensor<8x64x16x2xf32>, tensor<8x2048xf32>, tensor<8x64x32xf32>, tensor<4x6xf32>) {
  %0 = "cuesta.where"(%even, %low, %high) : (tensor<1x1x2xi1>, tensor<8x1024x1xf32>, tensor<8x1024x1xf32>) -> tensor<8x1024x2xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<8x1024x2xf32>) -> tensor<8x64x16x2xf32>
  %2 = "cuesta.exp"(%1) : (tensor<8x64x16x2xf32>) -> tensor<8x64x16x2xf32>
  %3 = "cuesta.where"(%even, %high, %low) : (tensor<1x1x2xi1>, tensor<8x1024x1xf32>, tensor<8x1024x1xf32>) -> tensor<8x1024x2xf32>
  %4 = "cuesta.reshape"(%3) : (tensor<8x1024x2xf32>) -> tensor<8x2048xf32>
  %5 = "cuesta.exp"(%4) : (tensor<8x2048xf32>) -> tensor<8x2048xf32>
  %6 = "cuesta.exp"(%x) : (tensor<8x1024x2xf32>) -> tensor<8x1024x2xf32>
  %7 = "cuesta.reshape"(%6) : (tensor<8x1024x2xf32>) -> tensor<8x64x32xf32>
  %8 = "cuesta.exp"(%7) : (tensor<8x64x32xf32>) -> tensor<8x64x32xf32>
  %9 = "cuesta.mul"(%y, %z) : (tensor<6x1xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %10 = "cuesta.reshape"(%9) : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %11 = "cuesta.exp"(%10) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %2, %5, %8, %11 : tensor<8x64x16x2xf32>, tensor<8x2048xf32>, tensor<8x64x32xf32>, tensor<4x6xf32>
}
