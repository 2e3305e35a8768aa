// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg)' %s | filecheck %s

// One generic reads x at the places of each window, 0 outside of x. The weight is copied, its channels side by side.
// cuesta.windows has, for rows and for columns, the loops over windows and over places, stride, dilation,
// padding, spread and size.
// CHECK-LABEL: func.func @graph
// CHECK-SAME: (%[[X:.*]]: tensor<2x5x7x4xbf16>
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<4x3x2xbf16>)
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%[[W]] : {{.*}}attrs = {cuesta.windows = [1, 4, 2, 1, 1, 1, 5, 2, 5, 1, 3, 0, 1, 7]}
// CHECK: %[[I:.*]] = linalg.index 1
// CHECK: linalg.index 4
// CHECK: arith.muli %[[I]], %{{.*}} : index
// CHECK: arith.cmpi sge
// CHECK: arith.cmpi sle
// CHECK: tensor.extract %[[X]]
// CHECK: %[[IN:.*]] = arith.andi
// CHECK: arith.select %[[IN]]
// CHECK: arith.mulf
// CHECK: arith.addf
func.func @graph(%x: tensor<2x5x7x4xbf16> {cuesta.strides = [140, 28, 4, 1]}, %w: tensor<4x3x2xbf16> {cuesta.strides = [6, 2, 1]}) -> tensor<2x3x4x4xf32> {
  %0 = "cuesta.permute"(%w) {dims = [1, 2, 0]} : (tensor<4x3x2xbf16>) -> tensor<3x2x4xbf16>
  %1 = "cuesta.depthwise"(%x, %0) {stride = [2, 1], padding = [1, 0], dilation = [1, 3], spread = [1, 1]} : (tensor<2x5x7x4xbf16>, tensor<3x2x4xbf16>) -> tensor<2x3x4x4xf32>
  return %1 : tensor<2x3x4x4xf32>
}

// CHECK: // -----
// -----

// The weight's gradient sums over the samples of a group, the rows of a group and the columns; the groups of samples and
// of rows are parallel. cuesta.window_parts has the loops over groups of samples, over their samples, and over groups of
// rows.
// CHECK-LABEL: func.func @weight
// CHECK-SAME: (%[[X:.*]]: tensor<4x5x7x4xbf16>
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "parallel", "reduction", "parallel", "parallel", "parallel"]} ins(%{{.*}} : tensor<2x2x3x4x4xbf16>) {{.*}}attrs = {cuesta.window_parts = [0, 1, 2], cuesta.windows = [-1, 4, 2, 1, 1, 1, 5, 3, 5, 1, 3, 0, 1, 7]}
// CHECK: %[[P:.*]] = linalg.index 0
// CHECK: %[[M:.*]] = linalg.index 1
// CHECK: %[[FIRST:.*]] = arith.muli %[[P]], %c2{{.*}} : index
// CHECK: %[[N:.*]] = arith.addi %[[FIRST]], %[[M]] : index
// CHECK: tensor.extract %[[X]][%[[N]],
// CHECK: arith.mulf
// CHECK: arith.addf
func.func @weight(%x: tensor<4x5x7x4xbf16> {cuesta.strides = [140, 28, 4, 1]}, %g: tensor<2x2x3x1x4x4xbf16> {cuesta.strides = [96, 48, 16, 16, 4, 1]}) -> tensor<2x3x3x2x4xf32> {
  %0 = "cuesta.depthwise_weight"(%x, %g) {stride = [2, 1], padding = [1, 0], dilation = [1, 3]} : (tensor<4x5x7x4xbf16>, tensor<2x2x3x1x4x4xbf16>) -> tensor<2x3x3x2x4xf32>
  return %0 : tensor<2x3x3x2x4xf32>
}

// CHECK: // -----
// -----

// With a spread, only places that are a multiple of it read x.
// CHECK-LABEL: func.func @spread
// CHECK: attrs = {cuesta.windows = [-1, -1, 1, 1, 0, 1, 1, 1, 3, 1, -1, -1, 2, 3]}
// CHECK: %[[AT:.*]] = arith.addi %{{.*}}, %c1{{.*}} : index
// CHECK: %[[QUOTIENT:.*]] = arith.floordivsi %[[AT]], %[[TWO:.*]] : index
// CHECK: %[[BACK:.*]] = arith.muli %[[QUOTIENT]], %[[TWO]] : index
// CHECK: %[[REST:.*]] = arith.subi %[[AT]], %[[BACK]] : index
// CHECK: arith.cmpi eq, %[[REST]], %{{.*}} : index
// CHECK: arith.cmpi sge, %[[QUOTIENT]],
func.func @spread(%x: tensor<2x1x3x4xf32> {cuesta.strides = [12, 12, 4, 1]}, %w: tensor<1x3x4xf32> {cuesta.strides = [12, 4, 1]}) -> tensor<2x1x6x4xf32> {
  %0 = "cuesta.depthwise"(%x, %w) {stride = [1, 1], padding = [0, -1], dilation = [1, -1], spread = [1, 2]} : (tensor<2x1x3x4xf32>, tensor<1x3x4xf32>) -> tensor<2x1x6x4xf32>
  return %0 : tensor<2x1x6x4xf32>
}
