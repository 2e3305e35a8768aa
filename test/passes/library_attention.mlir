// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries)' --split-input-file %s | filecheck %s

module attributes {cuesta.target = "cuda:90"} {
  // The route that it was traced for; nobody reads the logsumexp, so it is not asked for.
  // CHECK-LABEL: func.func @traced
  // CHECK-NEXT: "aten.call"(%{{.*}}, %{{.*}}, %{{.*}}) {args = "[\22%0\22, \22%1\22, \22%2\22, null, false, 0.0, true, false, {\22kwargs\22: {\22scale\22: 0.5}}]",
  // CHECK-SAME: overload = "aten._scaled_dot_product_cudnn_attention.default", positions = [0, 1]
  // CHECK-SAME: result_strides = {{\[\[}}64, 8, 16, 1], [8, 4, 1, 1]]
  func.func @traced(%q: tensor<1x2x4x8xbf16>) -> tensor<1x2x4x8xbf16> {
    %0:2 = "cuesta.attention"(%q, %q, %q) {scale = 0.5, causal = 1, route = "cudnn", operand_strides = [[64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1]], result_strides = [[64, 8, 16, 1], [8, 4, 1, 1]]} : (tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>) -> (tensor<1x2x4x8xbf16>, tensor<1x2x4x1xf32>)
    return %0#0 : tensor<1x2x4x8xbf16>
  }

  // A recognised one is given a route; its results' strides are the kernel's.
  // CHECK-LABEL: func.func @recognised
  // CHECK-NEXT: %[[R:.*]]:2 = "aten.call"{{.*}}operand_strides = {{\[\[}}64, 8, 16, 1], {{.*}}_cudnn_attention.default"{{.*}}result_strides = {{\[\[}}64, 8, 16, 1], [8, 4, 1, 1]]
  // CHECK-NEXT: "cuesta.reshape"(%[[R]]#1) : (tensor<1x2x4x1xf32>) -> tensor<1x2x4xf32>
  func.func @recognised(%q: tensor<1x2x4x8xbf16>) -> tensor<1x2x4xf32> {
    %0:2 = "cuesta.attention"(%q, %q, %q) {scale = 0.5, causal = 0, operand_strides = [[64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1]], result_strides = [[64, 32, 8, 1], [8, 4, 1]]} : (tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>) -> (tensor<1x2x4x8xbf16>, tensor<1x2x4xf32>)
    return %0#1 : tensor<1x2x4xf32>
  }

  // The efficient kernel's logsumexp has rows of multiples of 32.
  // CHECK-LABEL: func.func @single_precision
  // CHECK: %[[R:.*]]:2 = "aten.call"{{.*}}_efficient_attention.default"{{.*}}result_strides = {{\[\[}}64, 8, 16, 1], [64, 32, 1]]
  // CHECK: %[[L:.*]] = "cuesta.slice"(%[[R]]#1)
  // CHECK: %[[P:.*]] = "cuesta.cat"(%[[L]],
  // CHECK: "aten.call"(%{{.*}}, %[[P]]) {args = "[{{.*}}null, \22%4\22, \22%5\22, null, null, 0.0, [true, true, true, false], false,
  func.func @single_precision(%q: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
    %0:2 = "cuesta.attention"(%q, %q, %q) {scale = 0.5, causal = 0} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
    %1:3 = "cuesta.attention_backward"(%q, %q, %q, %q, %0#0, %0#1) {scale = 0.5, causal = 0} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
    return %1#0 : tensor<1x2x4x8xf32>
  }

  // A mask comes before what was saved there, with the strides that it was traced with.
  // CHECK-LABEL: func.func @masked_backward
  // CHECK-SAME: (%[[Q:.*]]: tensor<1x2x4x8xf32>, %[[L:.*]]: tensor<1x2x32xf32>, %[[M:.*]]: tensor<1x2x4x4xf32>)
  // CHECK: "aten.call"(%[[Q]], %[[Q]], %[[Q]], %[[Q]], %[[M]], %[[Q]], %[[L]])
  // CHECK-SAME: operand_strides = {{\[\[}}64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1], [0, 64, 16, 1], [64, 8, 16, 1], [64, 32, 1]]
  // CHECK-SAME: rows_aligned
  func.func @masked_backward(%q: tensor<1x2x4x8xf32>, %l: tensor<1x2x32xf32>, %m: tensor<1x2x4x4xf32>) -> tensor<1x2x4x8xf32> {
    %1:3 = "cuesta.attention_backward"(%q, %q, %q, %q, %q, %l, %m) {scale = 0.5, causal = 0, route = "efficient", operand_strides = [[64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1], [64, 32, 1], [0, 64, 16, 1]], result_strides = [[64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1]]} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x32xf32>, tensor<1x2x4x4xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
    return %1#0 : tensor<1x2x4x8xf32>
  }

  // cuDNN gets the gradient in the output's strides, whatever strides it was traced with, and -0.0 for the dropout.
  // CHECK-LABEL: func.func @gradient_with_gaps
  // CHECK: "aten.call"({{.*}}null, null, null, 4, 4, -0.0, true,
  // CHECK-SAME: operand_strides = {{\[\[}}64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1], [8, 4, 1, 1]],
  func.func @gradient_with_gaps(%g: tensor<1x2x4x8xbf16>, %q: tensor<1x2x4x8xbf16>, %l: tensor<1x2x4x1xf32>) -> tensor<1x2x4x8xbf16> {
    %1:3 = "cuesta.attention_backward"(%g, %q, %q, %q, %q, %l) {scale = 0.5, causal = 1, route = "cudnn", operand_strides = [[128, 16, 32, 1], [64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1], [8, 4, 1, 1]], result_strides = [[64, 8, 16, 1], [64, 8, 16, 1], [64, 8, 16, 1]]} : (tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x1xf32>) -> (tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>)
    return %1#0 : tensor<1x2x4x8xbf16>
  }

  // Flash's seeds go from forward to backward.
  // CHECK-LABEL: func.func @dropout
  // CHECK-NEXT: %[[R:.*]]:4 = "aten.call"{{.*}}0.1, true, false, {{.*}}_flash_attention.default", positions = [0, 1, 6, 7]
  // CHECK-NEXT: "aten.call"({{.*}}, %[[R]]#0, %[[R]]#1, %[[R]]#2, %[[R]]#3) {{.*}}\22%5\22, null, null, 4, 4, 0.1, true, \22%6\22, \22%7\22,
  func.func @dropout(%q: tensor<1x2x4x8xbf16>) -> tensor<1x2x4x8xbf16> {
    %0:4 = "cuesta.dropout_attention"(%q, %q, %q) {scale = 0.5, causal = 1, p = 0.1, route = "flash"} : (tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>) -> (tensor<1x2x4x8xbf16>, tensor<1x2x4xf32>, tensor<2xui64>, tensor<ui64>)
    %1:3 = "cuesta.dropout_attention_backward"(%q, %q, %q, %q, %0#0, %0#1, %0#2, %0#3) {scale = 0.5, causal = 1, p = 0.1, route = "flash"} : (tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4xf32>, tensor<2xui64>, tensor<ui64>) -> (tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>)
    return %1#0 : tensor<1x2x4x8xbf16>
  }
}
