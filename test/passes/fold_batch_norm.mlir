// RUN: cuesta-opt --pass-pipeline='builtin.module(fold-batch-norm)' %s | filecheck %s

module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {

// The weight is scaled in f32 and rounded once; relu stays for cuDNN to take in.
// CHECK-LABEL: func.func @batch_norm
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x8x8xbf16>, %[[W:.*]]: tensor<4x3x3x3xbf16>, %[[MEAN:.*]]: tensor<4x1x1xf32>, %[[RSTD:.*]]: tensor<4x1x1xf32>, %[[G:.*]]: tensor<4x1x1xf32>, %[[B:.*]]: tensor<4x1x1xf32>)
// CHECK: %[[M:.*]] = "cuesta.reshape"(%[[MEAN]])
// CHECK-NEXT: %[[N:.*]] = "cuesta.neg"(%[[M]])
// CHECK: %[[FACTORS:.*]] = "cuesta.reshape"({{.*}}) : (tensor<4xf32>) -> tensor<4x1x1x1xf32>
// CHECK-NEXT: %[[WIDE:.*]] = "cuesta.convert"(%[[W]])
// CHECK-NEXT: %[[SCALED:.*]] = "cuesta.mul"(%[[WIDE]], %[[FACTORS]]) : {{.*}}tensor<4x3x3x3xf32>
// CHECK-NEXT: %[[NARROW:.*]] = "cuesta.convert"(%[[SCALED]])
// CHECK-NEXT: %[[BIAS:.*]] = "cuesta.convert"({{.*}}) : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK-NEXT: %[[C:.*]] = "cuesta.convolution"(%[[X]], %[[NARROW]], %[[BIAS]]) {{.*}}operand_strides = {{\[\[}}192, 64, 8, 1], [27, 9, 3, 1], [1]]
// CHECK-NEXT: %[[R:.*]] = "cuesta.relu"(%[[C]])
// CHECK-NEXT: return %[[R]]
func.func @batch_norm(%x: tensor<2x3x8x8xbf16>, %w: tensor<4x3x3x3xbf16>, %mean: tensor<4x1x1xf32>, %rstd: tensor<4x1x1xf32>, %g: tensor<4x1x1xf32>, %b: tensor<4x1x1xf32>) -> tensor<2x4x8x8xbf16> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "full", operand_strides = [[192, 64, 8, 1], [27, 9, 3, 1]], result_strides = [[256, 64, 8, 1]]} : (tensor<2x3x8x8xbf16>, tensor<4x3x3x3xbf16>) -> tensor<2x4x8x8xbf16>
  %1 = "cuesta.convert"(%0) : (tensor<2x4x8x8xbf16>) -> tensor<2x4x8x8xf32>
  %2 = "cuesta.sub"(%1, %mean) : (tensor<2x4x8x8xf32>, tensor<4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %3 = "cuesta.mul"(%2, %rstd) : (tensor<2x4x8x8xf32>, tensor<4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %4 = "cuesta.mul"(%3, %g) : (tensor<2x4x8x8xf32>, tensor<4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %5 = "cuesta.add"(%4, %b) : (tensor<2x4x8x8xf32>, tensor<4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %6 = "cuesta.convert"(%5) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xbf16>
  %7 = "cuesta.relu"(%6) : (tensor<2x4x8x8xbf16>) -> tensor<2x4x8x8xbf16>
  return %7 : tensor<2x4x8x8xbf16>
}

// A bias that the convolution has goes through the same steps; a residual may come before relu.
// CHECK-LABEL: func.func @bias_and_residual
// CHECK: %[[S:.*]] = "cuesta.div"(%{{.*}}, %{{.*}}) : (tensor<4xf32>, tensor<4xf32>)
// CHECK: "cuesta.mul"
// CHECK: %[[C:.*]] = "cuesta.convolution"(%{{.*}}, %{{.*}}, %[[S]])
// CHECK-NEXT: "cuesta.add"(%{{.*}}, %[[C]])
// CHECK-NEXT: "cuesta.relu"
func.func @bias_and_residual(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x1x1xf32>, %b: tensor<4xf32>, %s: tensor<1x4x1x1xf32>, %z: tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32> {
  %0 = "cuesta.convolution"(%x, %w, %b) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "full"} : (tensor<2x3x8x8xf32>, tensor<4x3x1x1xf32>, tensor<4xf32>) -> tensor<2x4x8x8xf32>
  %1 = "cuesta.div"(%0, %s) : (tensor<2x4x8x8xf32>, tensor<1x4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %2 = "cuesta.add"(%z, %1) : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %3 = "cuesta.relu"(%2) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  return %3 : tensor<2x4x8x8xf32>
}

// Small scales would leave f16's range.
// CHECK-LABEL: func.func @f16
// CHECK-SAME: cuesta.remarks = [{bytes = 2048 : i64, consumer = "relu", producer = "convolution", reason = "{{.*}}range of f16"}]
// CHECK-NEXT: "cuesta.convolution"(%{{.*}}, %{{.*}}) {
// CHECK-NEXT: "cuesta.mul"
func.func @f16(%x: tensor<2x3x8x8xf16>, %w: tensor<4x3x1x1xf16>, %s: tensor<4x1x1xf16>) -> tensor<2x4x8x8xf16> {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "full"} : (tensor<2x3x8x8xf16>, tensor<4x3x1x1xf16>) -> tensor<2x4x8x8xf16>
  %1 = "cuesta.mul"(%0, %s) : (tensor<2x4x8x8xf16>, tensor<4x1x1xf16>) -> tensor<2x4x8x8xf16>
  %2 = "cuesta.relu"(%1) : (tensor<2x4x8x8xf16>) -> tensor<2x4x8x8xf16>
  return %2 : tensor<2x4x8x8xf16>
}

// Without relu nothing would be saved; a second reader needs what the norm changes; a number a pixel is no channel's.
// CHECK-LABEL: func.func @left_alone
// CHECK-NEXT: "cuesta.convolution"
// CHECK-NEXT: "cuesta.mul"
// CHECK-NEXT: "cuesta.convolution"
// CHECK-NEXT: "cuesta.mul"
// CHECK-NEXT: "cuesta.relu"
// CHECK-NEXT: "cuesta.convolution"
// CHECK-NEXT: "cuesta.mul"
// CHECK-NEXT: "cuesta.relu"
func.func @left_alone(%x: tensor<2x8x8x8xf32>, %w: tensor<8x8x1x1xf32>, %s: tensor<8x1x1xf32>, %p: tensor<8x8xf32>) -> (tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>) {
  %0 = "cuesta.convolution"(%x, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "full"} : (tensor<2x8x8x8xf32>, tensor<8x8x1x1xf32>) -> tensor<2x8x8x8xf32>
  %1 = "cuesta.mul"(%0, %s) : (tensor<2x8x8x8xf32>, tensor<8x1x1xf32>) -> tensor<2x8x8x8xf32>
  %2 = "cuesta.convolution"(%1, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "full"} : (tensor<2x8x8x8xf32>, tensor<8x8x1x1xf32>) -> tensor<2x8x8x8xf32>
  %3 = "cuesta.mul"(%2, %s) : (tensor<2x8x8x8xf32>, tensor<8x1x1xf32>) -> tensor<2x8x8x8xf32>
  %4 = "cuesta.relu"(%3) : (tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  %5 = "cuesta.convolution"(%4, %w) {stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = 0 : i64, output_padding = [0, 0], groups = 1 : i64, cudnn = "full"} : (tensor<2x8x8x8xf32>, tensor<8x8x1x1xf32>) -> tensor<2x8x8x8xf32>
  %6 = "cuesta.mul"(%5, %p) : (tensor<2x8x8x8xf32>, tensor<8x8xf32>) -> tensor<2x8x8x8xf32>
  %7 = "cuesta.relu"(%6) : (tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  return %1, %2, %4, %7 : tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>
}

}
