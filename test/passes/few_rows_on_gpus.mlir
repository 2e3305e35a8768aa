// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries)' --split-input-file %s | filecheck %s

// Eight rows by a linear layer's weight are a kernel, of 32 rows of the weight where it has many; K is cut where it is
// long and there are few programs. A dim of 1 in the result parts nothing, so the product has none.
// CHECK-LABEL: func.func @layer
// CHECK: "cuesta.mm"(%{{.*}}, %{{.*}}) {product = "16x32x128/4/4"} : (tensor<8x1024xbf16>, tensor<1024x8192xbf16>) -> tensor<8x8192xf32>
// CHECK: "cuesta.mm"(%{{.*}}, %{{.*}}) {product = "16x16x256/2/4"} : (tensor<4x8x2048xbf16>, tensor<4x2048x1024xbf16>) -> tensor<4x8x1024xf32>
// CHECK: "cuesta.sum"(%{{.*}}) {dims = [0]
module attributes {cuesta.target = "cuda:90"} {
func.func @layer(%x: tensor<8x1024xbf16>, %up: tensor<8192x1024xbf16>, %down: tensor<1024x8192xbf16>) -> tensor<8x1024xbf16> {
  %0 = "cuesta.permute"(%up) {dims = [1, 0]} : (tensor<8192x1024xbf16>) -> tensor<1024x8192xbf16>
  %1 = "cuesta.mm"(%x, %0) : (tensor<8x1024xbf16>, tensor<1024x8192xbf16>) -> tensor<8x8192xbf16>
  %2 = "cuesta.reshape"(%1) : (tensor<8x8192xbf16>) -> tensor<8x1x8192xbf16>
  %3 = "cuesta.relu"(%2) : (tensor<8x1x8192xbf16>) -> tensor<8x1x8192xbf16>
  %4 = "cuesta.reshape"(%3) : (tensor<8x1x8192xbf16>) -> tensor<8x8192xbf16>
  %5 = "cuesta.permute"(%down) {dims = [1, 0]} : (tensor<1024x8192xbf16>) -> tensor<8192x1024xbf16>
  %6 = "cuesta.mm"(%4, %5) : (tensor<8x8192xbf16>, tensor<8192x1024xbf16>) -> tensor<8x1024xbf16>
  return %6 : tensor<8x1024xbf16>
}
}

// -----

// The library multiplies more rows, small weights, weights whose columns are contiguous, and f32.
// CHECK-LABEL: func.func @library
// CHECK-NOT: cuesta.mm
// CHECK-COUNT-4: aten.call
module attributes {cuesta.target = "cuda:90"} {
func.func @library(%many: tensor<17x1024xbf16>, %few: tensor<8x1024xbf16>, %wide: tensor<8x1024xf32>, %a: tensor<2048x1024xbf16>, %b: tensor<64x1024xbf16>, %c: tensor<1024x2048xbf16>, %d: tensor<2048x1024xf32>) -> (tensor<17x2048xbf16>, tensor<8x64xbf16>, tensor<8x2048xbf16>, tensor<8x2048xf32>) {
  %0 = "cuesta.permute"(%a) {dims = [1, 0]} : (tensor<2048x1024xbf16>) -> tensor<1024x2048xbf16>
  %1 = "cuesta.mm"(%many, %0) : (tensor<17x1024xbf16>, tensor<1024x2048xbf16>) -> tensor<17x2048xbf16>
  %2 = "cuesta.permute"(%b) {dims = [1, 0]} : (tensor<64x1024xbf16>) -> tensor<1024x64xbf16>
  %3 = "cuesta.mm"(%few, %2) : (tensor<8x1024xbf16>, tensor<1024x64xbf16>) -> tensor<8x64xbf16>
  %4 = "cuesta.mm"(%few, %c) : (tensor<8x1024xbf16>, tensor<1024x2048xbf16>) -> tensor<8x2048xbf16>
  %5 = "cuesta.permute"(%d) {dims = [1, 0]} : (tensor<2048x1024xf32>) -> tensor<1024x2048xf32>
  %6 = "cuesta.mm"(%wide, %5) : (tensor<8x1024xf32>, tensor<1024x2048xf32>) -> tensor<8x2048xf32>
  return %1, %3, %4, %6 : tensor<17x2048xbf16>, tensor<8x64xbf16>, tensor<8x2048xbf16>, tensor<8x2048xf32>
}
}
