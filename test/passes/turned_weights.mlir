// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries)' %s | filecheck %s

// A weight that is turned before it is widened, as torchao writes it, is widened as it is stored.
// CHECK-LABEL: func.func @widened
// CHECK-SAME: (%[[X:.*]]: tensor<32x64xbf16>, %[[V:.*]]: tensor<8x64xi8>)
// CHECK: %[[W:.*]] = "cuesta.convert"(%[[V]]) : (tensor<8x64xi8>) -> tensor<8x64xbf16>
// CHECK: %[[T:.*]] = "cuesta.permute"(%[[W]]) {dims = [1, 0]}
// CHECK: "aten.call"(%[[X]], %[[T]])
func.func @widened(%x: tensor<32x64xbf16>, %v: tensor<8x64xi8>) -> tensor<32x8xbf16> {
  %0 = "cuesta.permute"(%v) {dims = [1, 0]} : (tensor<8x64xi8>) -> tensor<64x8xi8>
  %1 = "cuesta.convert"(%0) : (tensor<64x8xi8>) -> tensor<64x8xbf16>
  %2 = "cuesta.mm"(%x, %1) : (tensor<32x64xbf16>, tensor<64x8xbf16>) -> tensor<32x8xbf16>
  return %2 : tensor<32x8xbf16>
}

// Scales and zeros that were turned as well are taken as they are stored.
// CHECK-LABEL: func.func @scaled
// CHECK-SAME: (%[[X:.*]]: tensor<32x64xf32>, %[[V:.*]]: tensor<8x64xui8>, %[[S:.*]]: tensor<8x1xf32>, %[[Z:.*]]: tensor<8xf32>)
// CHECK-DAG: %[[W:.*]] = "cuesta.convert"(%[[V]])
// CHECK-DAG: %[[ZR:.*]] = "cuesta.reshape"(%[[Z]]) : (tensor<8xf32>) -> tensor<8x1xf32>
// CHECK: %[[D:.*]] = "cuesta.sub"(%[[W]], %[[ZR]])
// CHECK: %[[M:.*]] = "cuesta.mul"(%[[D]], %[[S]]) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
// CHECK: "cuesta.permute"(%[[M]]) {dims = [1, 0]}
func.func @scaled(%x: tensor<32x64xf32>, %v: tensor<8x64xui8>, %s: tensor<8x1xf32>, %z: tensor<8xf32>) -> tensor<32x8xf32> {
  %0 = "cuesta.permute"(%v) {dims = [1, 0]} : (tensor<8x64xui8>) -> tensor<64x8xui8>
  %1 = "cuesta.convert"(%0) : (tensor<64x8xui8>) -> tensor<64x8xf32>
  %2 = "cuesta.sub"(%1, %z) : (tensor<64x8xf32>, tensor<8xf32>) -> tensor<64x8xf32>
  %3 = "cuesta.permute"(%s) {dims = [1, 0]} : (tensor<8x1xf32>) -> tensor<1x8xf32>
  %4 = "cuesta.mul"(%2, %3) : (tensor<64x8xf32>, tensor<1x8xf32>) -> tensor<64x8xf32>
  %5 = "cuesta.mm"(%x, %4) : (tensor<32x64xf32>, tensor<64x8xf32>) -> tensor<32x8xf32>
  return %5 : tensor<32x8xf32>
}

// Floats, and a scale for each row of the turned weight, stay as they are.
// CHECK-LABEL: func.func @others
// CHECK: "cuesta.permute"({{.*}}) {dims = [1, 0]} : (tensor<8x64xbf16>) -> tensor<64x8xbf16>
func.func @others(%x: tensor<32x64xf32>, %v: tensor<8x64xbf16>, %w: tensor<8x64xi8>, %s: tensor<64x1xf32>) -> (tensor<32x8xf32>, tensor<32x8xf32>) {
  %0 = "cuesta.permute"(%v) {dims = [1, 0]} : (tensor<8x64xbf16>) -> tensor<64x8xbf16>
  %1 = "cuesta.convert"(%0) : (tensor<64x8xbf16>) -> tensor<64x8xf32>
  %2 = "cuesta.mm"(%x, %1) : (tensor<32x64xf32>, tensor<64x8xf32>) -> tensor<32x8xf32>
  %3 = "cuesta.permute"(%w) {dims = [1, 0]} : (tensor<8x64xi8>) -> tensor<64x8xi8>
  %4 = "cuesta.convert"(%3) : (tensor<64x8xi8>) -> tensor<64x8xf32>
  %5 = "cuesta.mul"(%4, %s) : (tensor<64x8xf32>, tensor<64x1xf32>) -> tensor<64x8xf32>
  // CHECK: "cuesta.mul"({{.*}}) : (tensor<64x8xf32>, tensor<64x1xf32>) -> tensor<64x8xf32>
  %6 = "cuesta.mm"(%x, %5) : (tensor<32x64xf32>, tensor<64x8xf32>) -> tensor<32x8xf32>
  return %2, %6 : tensor<32x8xf32>, tensor<32x8xf32>
}
