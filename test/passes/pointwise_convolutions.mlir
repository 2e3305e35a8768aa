// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(pointwise-convolutions)' %s | filecheck %s

// Few channels, and silu behind: a product of ours, whose kernel computes silu.
// CHECK-LABEL: func.func @graph
// CHECK: %[[X:.*]] = "cuesta.permute"(%arg0) {dims = [0, 2, 3, 1]}
// CHECK: %[[W:.*]] = "cuesta.permute"(%{{.*}}) {dims = [1, 0]} : (tensor<96x16xbf16>) -> tensor<16x96xbf16>
// CHECK: %[[P:.*]] = "cuesta.mm"(%[[X]], %[[W]]) {product = "{{.*}}"} {{.*}} -> tensor<64x56x56x96xf32>
// CHECK: %[[S:.*]] = "cuesta.add"(%[[P]], %{{.*}})
// CHECK: "cuesta.permute"(%[[S]]) {dims = [0, 3, 1, 2]}
// CHECK-NOT: cuesta.convolution
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<64x16x56x56xbf16> {cuesta.strides = [50176, 1, 896, 16]}, %w: tensor<96x16x1x1xbf16> {cuesta.strides = [16, 1, 1, 1]}, %b: tensor<96xbf16> {cuesta.strides = [1]})
      -> (tensor<64x96x56x56xbf16> {cuesta.strides = [301056, 1, 5376, 96]}) {
    %0 = "cuesta.convolution"(%x, %w, %b) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false} : (tensor<64x16x56x56xbf16>, tensor<96x16x1x1xbf16>, tensor<96xbf16>) -> tensor<64x96x56x56xbf16>
    %1 = "cuesta.sigmoid"(%0) : (tensor<64x96x56x56xbf16>) -> tensor<64x96x56x56xbf16>
    %2 = "cuesta.mul"(%0, %1) : (tensor<64x96x56x56xbf16>, tensor<64x96x56x56xbf16>) -> tensor<64x96x56x56xbf16>
    return %2 : tensor<64x96x56x56xbf16>
  }
}

// CHECK: // -----
// -----

// These stay with the library: nothing follows, a kernel reduces what follows, images that are row-major, and a result
// that is reduced as well, as by a norm in training.
// CHECK-COUNT-4: cuesta.convolution
// CHECK-NOT: cuesta.mm
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<64x16x56x56xbf16> {cuesta.strides = [50176, 1, 896, 16]}, %y: tensor<64x16x56x56xbf16> {cuesta.strides = [50176, 3136, 56, 1]}, %w: tensor<96x16x1x1xbf16> {cuesta.strides = [16, 1, 1, 1]})
      -> (tensor<64x96x56x56xbf16> {cuesta.strides = [301056, 1, 5376, 96]}, tensor<64x96xbf16> {cuesta.strides = [96, 1]}, tensor<64x96x56x56xbf16> {cuesta.strides = [301056, 3136, 56, 1]}, tensor<64x96x56x56xbf16> {cuesta.strides = [301056, 1, 5376, 96]}) {
    %0 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false} : (tensor<64x16x56x56xbf16>, tensor<96x16x1x1xbf16>) -> tensor<64x96x56x56xbf16>
    %1 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false} : (tensor<64x16x56x56xbf16>, tensor<96x16x1x1xbf16>) -> tensor<64x96x56x56xbf16>
    %2 = "cuesta.tanh"(%1) : (tensor<64x96x56x56xbf16>) -> tensor<64x96x56x56xbf16>
    %3 = "cuesta.sum"(%2) {dims = [2, 3], keepdim = 0 : i64} : (tensor<64x96x56x56xbf16>) -> tensor<64x96xbf16>
    %4 = "cuesta.convolution"(%y, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false} : (tensor<64x16x56x56xbf16>, tensor<96x16x1x1xbf16>) -> tensor<64x96x56x56xbf16>
    %5 = "cuesta.tanh"(%4) : (tensor<64x96x56x56xbf16>) -> tensor<64x96x56x56xbf16>
    %6 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false} : (tensor<64x16x56x56xbf16>, tensor<96x16x1x1xbf16>) -> tensor<64x96x56x56xbf16>
    %7 = "cuesta.sum"(%6) {dims = [0, 2, 3], keepdim = 1 : i64} : (tensor<64x96x56x56xbf16>) -> tensor<1x96x1x1xbf16>
    %8 = "cuesta.sub"(%6, %7) : (tensor<64x96x56x56xbf16>, tensor<1x96x1x1xbf16>) -> tensor<64x96x56x56xbf16>
    return %0, %3, %5, %8 : tensor<64x96x56x56xbf16>, tensor<64x96xbf16>, tensor<64x96x56x56xbf16>, tensor<64x96x56x56xbf16>
  }
}

// CHECK: // -----
// -----

// Rows of points, whose second dim of 1 is taken away before what follows: a product of ours as well.
// CHECK-LABEL: func.func @points
// CHECK: %[[P:.*]] = "cuesta.mm"({{.*}}) {product = "{{.*}}"} {{.*}} -> tensor<32x1x1024x64xf32>
// CHECK-NOT: cuesta.convolution
module attributes {cuesta.target = "cuda:90"} {
  func.func @points(%x: tensor<32x64x1x1024xbf16> {cuesta.strides = [65536, 1, 65536, 64]}, %w: tensor<64x64x1x1xbf16> {cuesta.strides = [64, 1, 1, 1]}, %b: tensor<64x1xbf16> {cuesta.strides = [1, 1]})
      -> (tensor<32x64x1024xbf16> {cuesta.strides = [65536, 1, 64]}) {
    %0 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false} : (tensor<32x64x1x1024xbf16>, tensor<64x64x1x1xbf16>) -> tensor<32x64x1x1024xbf16>
    %1 = "cuesta.reshape"(%0) : (tensor<32x64x1x1024xbf16>) -> tensor<32x64x1024xbf16>
    %2 = "cuesta.add"(%1, %b) : (tensor<32x64x1024xbf16>, tensor<64x1xbf16>) -> tensor<32x64x1024xbf16>
    %3 = "cuesta.relu"(%2) : (tensor<32x64x1024xbf16>) -> tensor<32x64x1024xbf16>
    return %3 : tensor<32x64x1024xbf16>
  }
}

// CHECK: // -----
// -----

// The second one would be a product for the sake of what is in front of it. But the kernel of the first computes
// that, so it stays with the library.
// CHECK-LABEL: func.func @graph
// CHECK: "cuesta.mm"
// CHECK: cuesta.convolution
// CHECK-NOT: "cuesta.mm"
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<16x192x14x14xbf16> {cuesta.strides = [37632, 1, 2688, 192]}, %u: tensor<384x192x1x1xbf16> {cuesta.strides = [192, 1, 1, 1]}, %w: tensor<192x384x1x1xbf16> {cuesta.strides = [384, 1, 1, 1]}, %s: tensor<384x1x1xf32> {cuesta.strides = [1, 1, 1]})
      -> (tensor<16x192x14x14xbf16> {cuesta.strides = [37632, 1, 2688, 192]}) {
    %0 = "cuesta.convolution"(%x, %u) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[37632, 1, 2688, 192], [192, 1, 1, 1]], output_padding = [0, 0], padding = [0, 0], result_strides = [[75264, 1, 5376, 384]], stride = [1, 1], transposed = false} : (tensor<16x192x14x14xbf16>, tensor<384x192x1x1xbf16>) -> tensor<16x384x14x14xbf16>
    %1 = "cuesta.convert"(%0) : (tensor<16x384x14x14xbf16>) -> tensor<16x384x14x14xf32>
    %2 = "cuesta.mul"(%1, %s) : (tensor<16x384x14x14xf32>, tensor<384x1x1xf32>) -> tensor<16x384x14x14xf32>
    %3 = "cuesta.mul"(%2, %s) : (tensor<16x384x14x14xf32>, tensor<384x1x1xf32>) -> tensor<16x384x14x14xf32>
    %4 = "cuesta.add"(%3, %s) : (tensor<16x384x14x14xf32>, tensor<384x1x1xf32>) -> tensor<16x384x14x14xf32>
    %5 = "cuesta.convert"(%4) : (tensor<16x384x14x14xf32>) -> tensor<16x384x14x14xbf16>
    %6 = "cuesta.gelu"(%5) : (tensor<16x384x14x14xbf16>) -> tensor<16x384x14x14xbf16>
    %7 = "cuesta.convolution"(%6, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[75264, 1, 5376, 384], [384, 1, 1, 1]], output_padding = [0, 0], padding = [0, 0], result_strides = [[37632, 1, 2688, 192]], stride = [1, 1], transposed = false} : (tensor<16x384x14x14xbf16>, tensor<192x384x1x1xbf16>) -> tensor<16x192x14x14xbf16>
    %8 = "cuesta.add"(%7, %x) : (tensor<16x192x14x14xbf16>, tensor<16x192x14x14xbf16>) -> tensor<16x192x14x14xbf16>
    return %8 : tensor<16x192x14x14xbf16>
  }
}
