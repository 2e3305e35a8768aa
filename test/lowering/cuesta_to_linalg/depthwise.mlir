// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg)' %s | filecheck %s

// One generic reads x at the places of each window, 0 outside of x. The weight is copied, its channels side by side.
// cuesta.windows has, for rows and for columns, the loops over windows and over places, stride, dilation, padding, size.
// CHECK-LABEL: func.func @graph
// CHECK-SAME: (%[[X:.*]]: tensor<2x5x7x4xbf16>
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<4x3x2xbf16>)
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%[[W]] : {{.*}}attrs = {cuesta.windows = [1, 4, 2, 1, 1, 5, 2, 5, 1, 3, 0, 7]}
// CHECK: %[[I:.*]] = linalg.index 1
// CHECK: arith.muli %[[I]], %{{.*}} : index
// CHECK: linalg.index 4
// CHECK: arith.cmpi sge
// CHECK: arith.cmpi sle
// CHECK: tensor.extract %[[X]]
// CHECK: %[[IN:.*]] = arith.andi
// CHECK: arith.select %[[IN]]
// CHECK: arith.mulf
// CHECK: arith.addf
func.func @graph(%x: tensor<2x5x7x4xbf16> {cuesta.strides = [140, 28, 4, 1]}, %w: tensor<4x3x2xbf16> {cuesta.strides = [6, 2, 1]}) -> tensor<2x3x4x4xf32> {
  %0 = "cuesta.permute"(%w) {dims = [1, 2, 0]} : (tensor<4x3x2xbf16>) -> tensor<3x2x4xbf16>
  %1 = "cuesta.depthwise"(%x, %0) {stride = [2, 1], padding = [1, 0], dilation = [1, 3]} : (tensor<2x5x7x4xbf16>, tensor<3x2x4xbf16>) -> tensor<2x3x4x4xf32>
  return %1 : tensor<2x3x4x4xf32>
}
