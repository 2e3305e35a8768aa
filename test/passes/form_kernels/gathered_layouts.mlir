// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(fold-views,decompose,cuesta-to-linalg,form-kernels)' %s | filecheck %s

// Images that are read at computed rows and columns are in channels_last, and so is what is computed of them: channels
// lie side by side in a load. No part is a call's, so the concatenation has the order that its parts are known to have.
// CHECK: func.func @graph
// CHECK: "host.launch"{{.*}}ops = ["kernel", "exp", "sin"]{{.*}} memref<8x8x4xf32, strided<[64, 8, 1]>>, memref<8x8x4xf32, strided<[64, 8, 1]>>) -> ()
// CHECK-NOT: "host.launch"
// CHECK: "host.aten"{{.*}} : (memref<64x8xf32>, memref<8x8xf32>, memref<64x8xf32>) -> ()
func.func @graph(%x: tensor<1x4x2x2xf32> {cuesta.strides = [16, 1, 8, 4]}, %y: tensor<1x4x3x3xf32> {cuesta.strides = [36, 1, 12, 4]}, %i: tensor<8x1xi64> {cuesta.strides = [1, 1]}, %j: tensor<8xi64> {cuesta.strides = [1]}, %w: tensor<8x8xf32> {cuesta.strides = [8, 1]}) -> (tensor<64x8xf32> {cuesta.strides = [8, 1]}) {
  %a = "cuesta.expand"(%i) : (tensor<8x1xi64>) -> tensor<8x8xi64>
  %b = "cuesta.expand"(%j) : (tensor<8xi64>) -> tensor<8x8xi64>
  %0 = "cuesta.index"(%x, %a, %b) {dims = [2, 3], in_range, operandSegmentSizes = array<i32: 1, 2>} : (tensor<1x4x2x2xf32>, tensor<8x8xi64>, tensor<8x8xi64>) -> tensor<1x4x8x8xf32>
  %1 = "cuesta.exp"(%0) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32> loc("exp"("m.py":1:1))
  %2 = "cuesta.index"(%y, %a, %b) {dims = [2, 3], in_range, operandSegmentSizes = array<i32: 1, 2>} : (tensor<1x4x3x3xf32>, tensor<8x8xi64>, tensor<8x8xi64>) -> tensor<1x4x8x8xf32>
  %3 = "cuesta.sin"(%2) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32> loc("sin"("m.py":2:1))
  %4 = "cuesta.cat"(%1, %3) {dim = 1 : i64} : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x8x8x8xf32>
  %5 = "cuesta.permute"(%4) {dims = [0, 2, 3, 1]} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %6 = "cuesta.reshape"(%5) : (tensor<1x8x8x8xf32>) -> tensor<64x8xf32>
  %7 = "aten.call"(%6, %w) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[8, 1]]} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
  return %7 : tensor<64x8xf32>
}

// CHECK: // -----
// -----

// Of one image, relu's result gets its dim of size 1 back by a reshape, which says nothing of the order of the others.
// CHECK: func.func @graph
// CHECK: "host.launch"(%{{.*}}, %{{.*}}) {{.*}}ops = ["relu"]{{.*}} : (memref<128xf32>, memref<128xf32>) -> ()
// CHECK: "host.aten"{{.*}} : (memref<16x8xf32>, memref<8x8xf32>, memref<16x8xf32>) -> ()
func.func @graph(%x: tensor<1x8x4x4xf32> {cuesta.strides = [128, 1, 32, 8]}, %w: tensor<8x8xf32> {cuesta.strides = [8, 1]}) -> (tensor<16x8xf32> {cuesta.strides = [8, 1]}) {
  %0 = "cuesta.relu"(%x) : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32> loc("relu"("m.py":1:1))
  %1 = "cuesta.permute"(%0) {dims = [0, 2, 3, 1]} : (tensor<1x8x4x4xf32>) -> tensor<1x4x4x8xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<1x4x4x8xf32>) -> tensor<16x8xf32>
  %3 = "aten.call"(%2, %w) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[8, 1]]} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  return %3 : tensor<16x8xf32>
}

// CHECK: // -----
// -----

// Where nothing asks for an order, the kernel walks its result as it goes through the images.
// CHECK: func.func @graph
// CHECK: "host.launch"{{.*}}ops = ["kernel", "exp"]{{.*}} memref<8x8x4xf32>) -> ()
// CHECK: "host.aten"(%{{.*}}) {{.*}} : (memref<1x4x8x8xf32, strided<[4, 1, 32, 4]>>)
func.func @graph(%x: tensor<1x4x2x2xf32> {cuesta.strides = [16, 1, 8, 4]}, %i: tensor<8x1xi64> {cuesta.strides = [1, 1]}, %j: tensor<8xi64> {cuesta.strides = [1]}) -> (tensor<1x4x1x1xf32> {cuesta.strides = [4, 1, 4, 4]}) {
  %a = "cuesta.expand"(%i) : (tensor<8x1xi64>) -> tensor<8x8xi64>
  %b = "cuesta.expand"(%j) : (tensor<8xi64>) -> tensor<8x8xi64>
  %0 = "cuesta.index"(%x, %a, %b) {dims = [2, 3], in_range, operandSegmentSizes = array<i32: 1, 2>} : (tensor<1x4x2x2xf32>, tensor<8x8xi64>, tensor<8x8xi64>) -> tensor<1x4x8x8xf32>
  %1 = "cuesta.exp"(%0) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32> loc("exp"("m.py":1:1))
  %2 = "aten.call"(%1) {args = "[\22%0\22, [1, 1]]", overload = "aten._adaptive_avg_pool2d.default", reason = "", result_strides = [[4, 1, 4, 4]]} : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>
  return %2 : tensor<1x4x1x1xf32>
}
