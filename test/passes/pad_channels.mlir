// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(pad-channels)' %s | filecheck %s

// 24 channels where the graph has 18: the last one of the weight, the bias and the factors is repeated, and the second
// weight is 0 for what is added to its images. Its scale is computed on the padded weight. Only the sum is of slices.
// CHECK-LABEL: func.func @graph
// CHECK-SAME: (%[[X:.*]]: tensor<8x16x56x56xbf16> {{.*}}, %[[W:.*]]: tensor<18x16x3x3xbf16> {{.*}}, %[[V:.*]]: tensor<18x18x3x3xbf16> {{.*}}, %[[S:.*]]: tensor<18x1x1x1xf32> {{.*}}, %[[B:.*]]: tensor<18xbf16>
// CHECK: %[[W24:.*]] = "cuesta.window"(%[[W]]) {{.*}}repeated = [0]{{.*}} -> tensor<24x16x3x3xbf16>
// CHECK: %[[FIRST:.*]] = "cuesta.convolution"(%[[X]], %[[W24]]) {{.*}}operand_strides = {{\[}}[50176, 1, 896, 16], [144, 1, 48, 16]]{{.*}}result_strides = {{\[}}[75264, 1, 1344, 24]]
// CHECK: %[[B24:.*]] = "cuesta.window"(%[[B]]) {{.*}}repeated = [0]{{.*}} -> tensor<24xbf16>
// CHECK: %[[F:.*]] = "cuesta.reshape"(%[[B24]]) : (tensor<24xbf16>) -> tensor<1x24x1x1xbf16>
// CHECK: %[[SCALED:.*]] = "cuesta.mul"(%[[FIRST]], %[[F]])
// CHECK: %[[Y:.*]] = "cuesta.sigmoid"(%[[SCALED]]) : (tensor<8x24x56x56xbf16>)
// CHECK: %[[Y18:.*]] = "cuesta.slice"(%[[Y]])
// CHECK: %[[S24:.*]] = "cuesta.window"(%[[S]]) {{.*}}repeated = [0]{{.*}} -> tensor<24x1x1x1xf32>
// CHECK: %[[V24:.*]] = "cuesta.window"(%[[V]]) {{.*}}outside = 0.0{{.*}}repeated = [0]{{.*}} -> tensor<24x24x3x3xbf16>
// CHECK: %[[WIDE:.*]] = "cuesta.convert"(%[[V24]])
// CHECK: %[[BY:.*]] = "cuesta.mul"(%[[WIDE]], %[[S24]])
// CHECK: %[[NARROW:.*]] = "cuesta.convert"(%[[BY]])
// CHECK: %[[SECOND:.*]] = "cuesta.convolution"(%[[Y]], %[[NARROW]], %[[B24]])
// CHECK: %[[Z18:.*]] = "cuesta.slice"(%[[SECOND]])
// CHECK: %[[SUM:.*]] = "cuesta.add"(%[[Z18]], %[[Y18]])
// CHECK: return %[[SUM]]
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<8x16x56x56xbf16> {cuesta.strides = [50176, 1, 896, 16]}, %w: tensor<18x16x3x3xbf16> {cuesta.strides = [144, 1, 48, 16]}, %v: tensor<18x18x3x3xbf16> {cuesta.strides = [162, 1, 54, 18]}, %s: tensor<18x1x1x1xf32> {cuesta.strides = [1, 1, 1, 1]}, %b: tensor<18xbf16> {cuesta.strides = [1]})
      -> (tensor<8x18x56x56xbf16> {cuesta.strides = [56448, 1, 1008, 18]}) {
    %0 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[50176, 1, 896, 16], [144, 1, 48, 16]], output_padding = [0, 0], padding = [1, 1], result_strides = [[56448, 1, 1008, 18]], stride = [1, 1], transposed = false} : (tensor<8x16x56x56xbf16>, tensor<18x16x3x3xbf16>) -> tensor<8x18x56x56xbf16>
    %1 = "cuesta.reshape"(%b) : (tensor<18xbf16>) -> tensor<1x18x1x1xbf16>
    %2 = "cuesta.mul"(%0, %1) : (tensor<8x18x56x56xbf16>, tensor<1x18x1x1xbf16>) -> tensor<8x18x56x56xbf16>
    %3 = "cuesta.sigmoid"(%2) : (tensor<8x18x56x56xbf16>) -> tensor<8x18x56x56xbf16>
    %4 = "cuesta.convert"(%v) : (tensor<18x18x3x3xbf16>) -> tensor<18x18x3x3xf32>
    %5 = "cuesta.mul"(%4, %s) : (tensor<18x18x3x3xf32>, tensor<18x1x1x1xf32>) -> tensor<18x18x3x3xf32>
    %6 = "cuesta.convert"(%5) : (tensor<18x18x3x3xf32>) -> tensor<18x18x3x3xbf16>
    %7 = "cuesta.convolution"(%3, %6, %b) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>, operand_strides = [[56448, 1, 1008, 18], [162, 1, 54, 18], [1]], output_padding = [0, 0], padding = [1, 1], result_strides = [[56448, 1, 1008, 18]], stride = [1, 1], transposed = false} : (tensor<8x18x56x56xbf16>, tensor<18x18x3x3xbf16>, tensor<18xbf16>) -> tensor<8x18x56x56xbf16>
    %8 = "cuesta.add"(%7, %3) : (tensor<8x18x56x56xbf16>, tensor<8x18x56x56xbf16>) -> tensor<8x18x56x56xbf16>
    return %8 : tensor<8x18x56x56xbf16>
  }
}

// CHECK: // -----
// -----

// Images that no convolution made are padded once, for the convolution and for the sum, which cuDNN computes.
// CHECK-LABEL: func.func @graph
// CHECK: %[[X:.*]] = "cuesta.window"(%arg0) {{.*}}repeated = [1]{{.*}} -> tensor<8x24x56x56xbf16>
// CHECK: %[[A:.*]] = "cuesta.convolution"(%[[X]], %{{.*}})
// CHECK: %[[R:.*]] = "cuesta.relu"(%[[A]])
// CHECK: %[[C:.*]] = "cuesta.convolution"(%[[R]], %{{.*}})
// CHECK: %[[SUM:.*]] = "cuesta.add"(%[[C]], %[[X]])
// CHECK: %[[LAST:.*]] = "cuesta.relu"(%[[SUM]])
// CHECK: %[[CUT:.*]] = "cuesta.slice"(%[[LAST]])
// CHECK: return %[[CUT]]
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<8x18x56x56xbf16> {cuesta.strides = [56448, 1, 1008, 18]}, %w: tensor<18x18x3x3xbf16> {cuesta.strides = [162, 1, 54, 18]}, %v: tensor<18x18x3x3xbf16> {cuesta.strides = [162, 1, 54, 18]})
      -> (tensor<8x18x56x56xbf16> {cuesta.strides = [56448, 1, 1008, 18]}) {
    %0 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[56448, 1, 1008, 18], [162, 1, 54, 18]], output_padding = [0, 0], padding = [1, 1], result_strides = [[56448, 1, 1008, 18]], stride = [1, 1], transposed = false} : (tensor<8x18x56x56xbf16>, tensor<18x18x3x3xbf16>) -> tensor<8x18x56x56xbf16>
    %1 = "cuesta.relu"(%0) : (tensor<8x18x56x56xbf16>) -> tensor<8x18x56x56xbf16>
    %2 = "cuesta.convolution"(%1, %v) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[56448, 1, 1008, 18], [162, 1, 54, 18]], output_padding = [0, 0], padding = [1, 1], result_strides = [[56448, 1, 1008, 18]], stride = [1, 1], transposed = false} : (tensor<8x18x56x56xbf16>, tensor<18x18x3x3xbf16>) -> tensor<8x18x56x56xbf16>
    %3 = "cuesta.add"(%2, %x) : (tensor<8x18x56x56xbf16>, tensor<8x18x56x56xbf16>) -> tensor<8x18x56x56xbf16>
    %4 = "cuesta.relu"(%3) : (tensor<8x18x56x56xbf16>) -> tensor<8x18x56x56xbf16>
    return %4 : tensor<8x18x56x56xbf16>
  }
}

// CHECK: // -----
// -----

// Reads at computed pixels, pools' windows and depthwise sums are of 24 channels, and a sum over the pixels of a slice.
// CHECK-LABEL: func.func @graph
// CHECK: %[[A:.*]] = "cuesta.convolution"(%arg0, %{{.*}}) {{.*}} -> tensor<8x24x56x56xbf16>
// CHECK: %[[CUT:.*]] = "cuesta.slice"(%[[A]])
// CHECK: %[[I:.*]] = "cuesta.index"(%[[A]], %{{.*}}, %{{.*}}) {{.*}} -> tensor<8x24x28x28xbf16>
// CHECK: %[[W:.*]] = "cuesta.window"(%[[I]]) {{.*}} -> tensor<8x24x14x14xbf16>
// CHECK: %[[P:.*]] = "cuesta.permute"(%[[W]]) {{.*}} -> tensor<8x14x14x24xbf16>
// CHECK: %[[K:.*]] = "cuesta.window"(%arg3) {{.*}}repeated = [2]{{.*}} -> tensor<3x3x24xbf16>
// CHECK: %[[D:.*]] = "cuesta.depthwise"(%[[P]], %[[K]]) {{.*}} -> tensor<8x14x14x24xbf16>
// CHECK: %[[B:.*]] = "cuesta.permute"(%[[D]])
// CHECK: "cuesta.convolution"(%[[B]], %{{.*}}) {{.*}} -> tensor<8x32x14x14xbf16>
// CHECK: "cuesta.sum"(%[[CUT]])
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<8x16x56x56xbf16> {cuesta.strides = [50176, 1, 896, 16]}, %w: tensor<18x16x3x3xbf16> {cuesta.strides = [144, 1, 48, 16]}, %v: tensor<32x18x3x3xbf16> {cuesta.strides = [162, 1, 54, 18]}, %k: tensor<3x3x18xbf16> {cuesta.strides = [54, 18, 1]}, %i: tensor<28x28xi64> {cuesta.strides = [28, 1]})
      -> (tensor<8x32x14x14xbf16> {cuesta.strides = [6272, 1, 448, 32]}, tensor<8x18xbf16> {cuesta.strides = [18, 1]}) {
    %0 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[50176, 1, 896, 16], [144, 1, 48, 16]], output_padding = [0, 0], padding = [1, 1], result_strides = [[56448, 1, 1008, 18]], stride = [1, 1], transposed = false} : (tensor<8x16x56x56xbf16>, tensor<18x16x3x3xbf16>) -> tensor<8x18x56x56xbf16>
    %1 = "cuesta.index"(%0, %i, %i) {dims = [2, 3], in_range, operandSegmentSizes = array<i32: 1, 2>} : (tensor<8x18x56x56xbf16>, tensor<28x28xi64>, tensor<28x28xi64>) -> tensor<8x18x28x28xbf16>
    %2 = "cuesta.window"(%1) {divisors = [1, 1, 1, 1], outside = 0xFFF0000000000000 : f64, starts = [0, 0, -1, -1], steps = [1, 1, 2, 2]} : (tensor<8x18x28x28xbf16>) -> tensor<8x18x14x14xbf16>
    %3 = "cuesta.permute"(%2) {dims = [0, 2, 3, 1]} : (tensor<8x18x14x14xbf16>) -> tensor<8x14x14x18xbf16>
    %4 = "cuesta.depthwise"(%3, %k) {dilation = [1, 1], spread = [1, 1], padding = [1, 1], stride = [1, 1]} : (tensor<8x14x14x18xbf16>, tensor<3x3x18xbf16>) -> tensor<8x14x14x18xbf16>
    %5 = "cuesta.permute"(%4) {dims = [0, 3, 1, 2]} : (tensor<8x14x14x18xbf16>) -> tensor<8x18x14x14xbf16>
    %6 = "cuesta.convolution"(%5, %v) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[3528, 1, 252, 18], [162, 1, 54, 18]], output_padding = [0, 0], padding = [1, 1], result_strides = [[6272, 1, 448, 32]], stride = [1, 1], transposed = false} : (tensor<8x18x14x14xbf16>, tensor<32x18x3x3xbf16>) -> tensor<8x32x14x14xbf16>
    %7 = "cuesta.sum"(%0) {dims = [2, 3], keepdim = 0 : i64} : (tensor<8x18x56x56xbf16>) -> tensor<8x18xbf16>
    return %6, %7 : tensor<8x32x14x14xbf16>, tensor<8x18xbf16>
  }
}

// CHECK: // -----
// -----

// These stay: a convolution between an argument and a result, which would be copied in its place; row-major images;
// groups; 9 channels, of which 16 would be too many; multiples of 8; and full f32, to which cuDNN adds nothing.
// CHECK-LABEL: func.func @graph
// CHECK-NOT: cuesta.window
// CHECK-NOT: cuesta.slice
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<8x18x56x56xbf16> {cuesta.strides = [56448, 1, 1008, 18]}, %y: tensor<8x18x56x56xbf16> {cuesta.strides = [56448, 3136, 56, 1]}, %z: tensor<8x36x56x56xbf16> {cuesta.strides = [112896, 1, 2016, 36]}, %h: tensor<8x16x56x56xbf16> {cuesta.strides = [50176, 1, 896, 16]}, %w: tensor<18x18x3x3xbf16> {cuesta.strides = [162, 1, 54, 18]}, %g: tensor<36x18x3x3xbf16> {cuesta.strides = [162, 1, 54, 18]}, %u: tensor<9x16x3x3xbf16> {cuesta.strides = [144, 1, 48, 16]}, %u2: tensor<16x9x3x3xbf16> {cuesta.strides = [81, 1, 27, 9]}, %m: tensor<16x16x3x3xbf16> {cuesta.strides = [144, 1, 48, 16]}, %f: tensor<8x18x56x56xf32> {cuesta.strides = [56448, 1, 1008, 18]}, %fw: tensor<18x18x3x3xf32> {cuesta.strides = [162, 1, 54, 18]})
      -> (tensor<8x18x56x56xbf16> {cuesta.strides = [56448, 1, 1008, 18]}, tensor<8x18x56x56xbf16> {cuesta.strides = [56448, 3136, 56, 1]}, tensor<8x36x56x56xbf16> {cuesta.strides = [112896, 1, 2016, 36]}, tensor<8x16x56x56xbf16> {cuesta.strides = [50176, 1, 896, 16]}, tensor<8x16x56x56xbf16> {cuesta.strides = [50176, 1, 896, 16]}, tensor<8x18x56x56xf32> {cuesta.strides = [56448, 1, 1008, 18]}) {
    %0 = "cuesta.convolution"(%x, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[56448, 1, 1008, 18], [162, 1, 54, 18]], output_padding = [0, 0], padding = [1, 1], result_strides = [[56448, 1, 1008, 18]], stride = [1, 1], transposed = false} : (tensor<8x18x56x56xbf16>, tensor<18x18x3x3xbf16>) -> tensor<8x18x56x56xbf16>
    %1 = "cuesta.convolution"(%y, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[56448, 3136, 56, 1], [162, 1, 54, 18]], output_padding = [0, 0], padding = [1, 1], result_strides = [[56448, 3136, 56, 1]], stride = [1, 1], transposed = false} : (tensor<8x18x56x56xbf16>, tensor<18x18x3x3xbf16>) -> tensor<8x18x56x56xbf16>
    %2 = "cuesta.convolution"(%1, %w) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[56448, 3136, 56, 1], [162, 1, 54, 18]], output_padding = [0, 0], padding = [1, 1], result_strides = [[56448, 3136, 56, 1]], stride = [1, 1], transposed = false} : (tensor<8x18x56x56xbf16>, tensor<18x18x3x3xbf16>) -> tensor<8x18x56x56xbf16>
    %3 = "cuesta.convolution"(%z, %g) {cudnn = "tensor_cores", dilation = [1, 1], groups = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[112896, 1, 2016, 36], [162, 1, 54, 18]], output_padding = [0, 0], padding = [1, 1], result_strides = [[112896, 1, 2016, 36]], stride = [1, 1], transposed = false} : (tensor<8x36x56x56xbf16>, tensor<36x18x3x3xbf16>) -> tensor<8x36x56x56xbf16>
    %4 = "cuesta.convolution"(%3, %g) {cudnn = "tensor_cores", dilation = [1, 1], groups = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[112896, 1, 2016, 36], [162, 1, 54, 18]], output_padding = [0, 0], padding = [1, 1], result_strides = [[112896, 1, 2016, 36]], stride = [1, 1], transposed = false} : (tensor<8x36x56x56xbf16>, tensor<36x18x3x3xbf16>) -> tensor<8x36x56x56xbf16>
    %5 = "cuesta.convolution"(%h, %u) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[50176, 1, 896, 16], [144, 1, 48, 16]], output_padding = [0, 0], padding = [1, 1], result_strides = [[28224, 1, 504, 9]], stride = [1, 1], transposed = false} : (tensor<8x16x56x56xbf16>, tensor<9x16x3x3xbf16>) -> tensor<8x9x56x56xbf16>
    %6 = "cuesta.convolution"(%5, %u2) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[28224, 1, 504, 9], [81, 1, 27, 9]], output_padding = [0, 0], padding = [1, 1], result_strides = [[50176, 1, 896, 16]], stride = [1, 1], transposed = false} : (tensor<8x9x56x56xbf16>, tensor<16x9x3x3xbf16>) -> tensor<8x16x56x56xbf16>
    %7 = "cuesta.convolution"(%h, %m) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[50176, 1, 896, 16], [144, 1, 48, 16]], output_padding = [0, 0], padding = [1, 1], result_strides = [[50176, 1, 896, 16]], stride = [1, 1], transposed = false} : (tensor<8x16x56x56xbf16>, tensor<16x16x3x3xbf16>) -> tensor<8x16x56x56xbf16>
    %8 = "cuesta.convolution"(%7, %m) {cudnn = "tensor_cores", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[50176, 1, 896, 16], [144, 1, 48, 16]], output_padding = [0, 0], padding = [1, 1], result_strides = [[50176, 1, 896, 16]], stride = [1, 1], transposed = false} : (tensor<8x16x56x56xbf16>, tensor<16x16x3x3xbf16>) -> tensor<8x16x56x56xbf16>
    %9 = "cuesta.convolution"(%f, %fw) {cudnn = "full", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[56448, 1, 1008, 18], [162, 1, 54, 18]], output_padding = [0, 0], padding = [1, 1], result_strides = [[56448, 1, 1008, 18]], stride = [1, 1], transposed = false} : (tensor<8x18x56x56xf32>, tensor<18x18x3x3xf32>) -> tensor<8x18x56x56xf32>
    %10 = "cuesta.convolution"(%9, %fw) {cudnn = "full", dilation = [1, 1], groups = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>, operand_strides = [[56448, 1, 1008, 18], [162, 1, 54, 18]], output_padding = [0, 0], padding = [1, 1], result_strides = [[56448, 1, 1008, 18]], stride = [1, 1], transposed = false} : (tensor<8x18x56x56xf32>, tensor<18x18x3x3xf32>) -> tensor<8x18x56x56xf32>
    return %0, %2, %4, %6, %8, %10 : tensor<8x18x56x56xbf16>, tensor<8x18x56x56xbf16>, tensor<8x36x56x56xbf16>, tensor<8x16x56x56xbf16>, tensor<8x16x56x56xbf16>, tensor<8x18x56x56xf32>
  }
}
