// RUN: cuesta-opt --pass-pipeline='builtin.module(part-sums)' %s | filecheck %s

// A batch norm's sums go over the rows of a matrix, which the block around it reads as tokens of images.
// CHECK-LABEL: func.func @norm
// CHECK: %[[X:.*]] = "cuesta.reshape"(%arg0) : (tensor<1024x384xbf16>) -> tensor<64x16x384xbf16>
// CHECK: %[[W:.*]] = "cuesta.convert"(%[[X]]) : (tensor<64x16x384xbf16>) -> tensor<64x16x384xf32>
// CHECK: %[[S:.*]] = "cuesta.sum"(%[[W]]) {dims = [0, 1], keepdim = 0 : i64} : (tensor<64x16x384xf32>) -> tensor<384xf32>
// CHECK: %[[P:.*]] = "cuesta.reshape"(%[[S]]) : (tensor<384xf32>) -> tensor<1x1x384xf32>
// CHECK: %[[C:.*]] = "cuesta.sub"(%[[W]], %[[P]])
// CHECK: "cuesta.sum"(%{{.*}}) {dims = [0, 1], keepdim = 0 : i64} : (tensor<64x16x384xf32>) -> tensor<384xf32>
// CHECK-NOT: tensor<1024x384xf32>
func.func @norm(%x: tensor<1024x384xbf16>, %y: tensor<64x16x384xbf16>) -> (tensor<64x16x384xbf16>, tensor<384xf32>) {
  %0 = "cuesta.convert"(%x) : (tensor<1024x384xbf16>) -> tensor<1024x384xf32>
  %1 = "cuesta.sum"(%0) {dims = [0], keepdim = 1 : i64} : (tensor<1024x384xf32>) -> tensor<1x384xf32>
  %2 = "cuesta.sub"(%0, %1) : (tensor<1024x384xf32>, tensor<1x384xf32>) -> tensor<1024x384xf32>
  %3 = "cuesta.mul"(%2, %2) : (tensor<1024x384xf32>, tensor<1024x384xf32>) -> tensor<1024x384xf32>
  %4 = "cuesta.sum"(%3) {dims = [0], keepdim = 0 : i64} : (tensor<1024x384xf32>) -> tensor<384xf32>
  %5 = "cuesta.reshape"(%x) : (tensor<1024x384xbf16>) -> tensor<64x16x384xbf16>
  %6 = "cuesta.add"(%5, %y) : (tensor<64x16x384xbf16>, tensor<64x16x384xbf16>) -> tensor<64x16x384xbf16>
  return %6, %4 : tensor<64x16x384xbf16>, tensor<384xf32>
}

// Sums stay where a matrix is read in any other way: as rows that are not summed, as rows that a kernel writes, or as
// columns in parts; and where the other reshape merges dims as well, or only a call reads it.
// CHECK-LABEL: func.func @others
// CHECK-NOT: dims = [0, 1]
func.func @others(%a: tensor<1024x384xf32>, %b: tensor<1024x384xf32>, %c: tensor<1024x384xf32>, %d: tensor<64x16x384xf32>, %e: tensor<1024x384xf32>) -> (tensor<384xf32>, tensor<1024xf32>, tensor<64x16x384xf32>, tensor<1024x384xf32>, tensor<384xf32>, tensor<64x16x384xf32>, tensor<384xf32>, tensor<1024x12x32xf32>, tensor<384xf32>, tensor<32x32x384xf32>, tensor<384xf32>, tensor<64x16x384xf32>) {
  %0 = "cuesta.sum"(%a) {dims = [0], keepdim = 0 : i64} : (tensor<1024x384xf32>) -> tensor<384xf32>
  %1 = "cuesta.sum"(%a) {dims = [1], keepdim = 0 : i64} : (tensor<1024x384xf32>) -> tensor<1024xf32>
  %2 = "cuesta.reshape"(%a) : (tensor<1024x384xf32>) -> tensor<64x16x384xf32>
  %3 = "cuesta.exp"(%2) : (tensor<64x16x384xf32>) -> tensor<64x16x384xf32>

  %4 = "cuesta.exp"(%b) : (tensor<1024x384xf32>) -> tensor<1024x384xf32>
  %5 = "cuesta.sum"(%4) {dims = [0], keepdim = 0 : i64} : (tensor<1024x384xf32>) -> tensor<384xf32>
  %6 = "cuesta.reshape"(%b) : (tensor<1024x384xf32>) -> tensor<64x16x384xf32>
  %7 = "cuesta.exp"(%6) : (tensor<64x16x384xf32>) -> tensor<64x16x384xf32>

  %8 = "cuesta.sum"(%c) {dims = [0], keepdim = 0 : i64} : (tensor<1024x384xf32>) -> tensor<384xf32>
  %9 = "cuesta.reshape"(%c) : (tensor<1024x384xf32>) -> tensor<1024x12x32xf32>
  %10 = "cuesta.exp"(%9) : (tensor<1024x12x32xf32>) -> tensor<1024x12x32xf32>

  %11 = "cuesta.sum"(%d) {dims = [1], keepdim = 0 : i64} : (tensor<64x16x384xf32>) -> tensor<64x384xf32>
  %12 = "cuesta.sum"(%11) {dims = [0], keepdim = 0 : i64} : (tensor<64x384xf32>) -> tensor<384xf32>
  %13 = "cuesta.reshape"(%d) : (tensor<64x16x384xf32>) -> tensor<32x32x384xf32>
  %14 = "cuesta.exp"(%13) : (tensor<32x32x384xf32>) -> tensor<32x32x384xf32>

  %15 = "cuesta.sum"(%e) {dims = [0], keepdim = 0 : i64} : (tensor<1024x384xf32>) -> tensor<384xf32>
  %16 = "cuesta.reshape"(%e) : (tensor<1024x384xf32>) -> tensor<64x16x384xf32>
  return %0, %1, %3, %4, %5, %7, %8, %10, %12, %14, %15, %16 : tensor<384xf32>, tensor<1024xf32>, tensor<64x16x384xf32>, tensor<1024x384xf32>, tensor<384xf32>, tensor<64x16x384xf32>, tensor<384xf32>, tensor<1024x12x32xf32>, tensor<384xf32>, tensor<32x32x384xf32>, tensor<384xf32>, tensor<64x16x384xf32>
}
