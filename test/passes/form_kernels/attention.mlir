// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries{attention=kernel},cuesta-to-linalg,form-kernels)' --split-input-file %s | filecheck %s

// Equal attention is one kernel, of the op alone, on operands with the strides that they have: heads seen from outside.
// A mask has 1 for what it was stretched along.
// CHECK-LABEL: module @kernels
// CHECK: func.func @attention(%[[Q:[^:]*]]: memref<1x2x32x8xf32, strided<[512, 8, 16, 1]>>, {{.*}}, %[[M:[^:]*]]: memref<1x1x1x32xi8>, %[[O:[^:]*]]: memref<1x2x32x8xf32, strided<[512, 8, 16, 1]>>, %[[L:[^:]*]]: memref<1x2x32xf32, strided<[64, 1, 2]>>)
// CHECK-NEXT: "kernel.attention"(%[[Q]], %{{.*}}, %{{.*}}, %[[M]], %[[O]], %[[L]]) {causal = 0 : i64, masked = 1 : i64, scale = 5.000000e-01 : f64, tile = "32x32 by 8"}
// CHECK-NOT: kernel.attention
// CHECK-LABEL: func.func @graph
// CHECK-COUNT-2: "host.launch"({{.*}}) {kernel = @kernels::@attention, ops = ["attention"], outputs = 2 : i64}
func.func @graph(
    %q: tensor<1x2x32x8xf32> {cuesta.strides = [512, 8, 16, 1]}, %m: tensor<32xi1> {cuesta.strides = [1]}
) -> (tensor<1x2x32x8xf32> {cuesta.strides = [512, 8, 16, 1]}) {
  %mask = "cuesta.expand"(%m) : (tensor<32xi1>) -> tensor<32x32xi1>
  %0:2 = "cuesta.attention"(%q, %q, %q, %mask) {scale = 0.5, causal = 0, result_strides = [[512, 8, 16, 1], [64, 1, 2]]} : (tensor<1x2x32x8xf32>, tensor<1x2x32x8xf32>, tensor<1x2x32x8xf32>, tensor<32x32xi1>) -> (tensor<1x2x32x8xf32>, tensor<1x2x32xf32>)
  %1:2 = "cuesta.attention"(%0#0, %0#0, %0#0, %mask) {scale = 0.5, causal = 0, result_strides = [[512, 8, 16, 1], [64, 1, 2]]} : (tensor<1x2x32x8xf32>, tensor<1x2x32x8xf32>, tensor<1x2x32x8xf32>, tensor<32x32xi1>) -> (tensor<1x2x32x8xf32>, tensor<1x2x32xf32>)
  return %1#0 : tensor<1x2x32x8xf32>
}

// -----

// Elements of a row that lie apart are copied first.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"({{.*}}) {kernel = @kernels::@copy,
// CHECK: "host.launch"({{.*}}) {kernel = @kernels::@attention,
func.func @graph(%q: tensor<1x1x16x8xf32> {cuesta.strides = [128, 128, 1, 16]})
    -> (tensor<1x1x16x8xf32> {cuesta.strides = [128, 128, 8, 1]}) {
  %0:2 = "cuesta.attention"(%q, %q, %q) {scale = 0.5, causal = 1} : (tensor<1x1x16x8xf32>, tensor<1x1x16x8xf32>, tensor<1x1x16x8xf32>) -> (tensor<1x1x16x8xf32>, tensor<1x1x16xf32>)
  return %0#0 : tensor<1x1x16x8xf32>
}

// -----

// What no kernel takes is called, and says why.
// CHECK-LABEL: func.func @graph
// CHECK: "host.aten"{{.*}}reason = "{{.*}}other than f32
func.func @graph(%q: tensor<1x1x16x8xf16> {cuesta.strides = [128, 128, 8, 1]})
    -> (tensor<1x1x16x8xf16> {cuesta.strides = [128, 128, 8, 1]}) {
  %0:2 = "cuesta.attention"(%q, %q, %q) {scale = 0.5, causal = 1} : (tensor<1x1x16x8xf16>, tensor<1x1x16x8xf16>, tensor<1x1x16x8xf16>) -> (tensor<1x1x16x8xf16>, tensor<1x1x16xf32>)
  return %0#0 : tensor<1x1x16x8xf16>
}

// -----

// Batch, queries and keys that the call says are the kernel's parameters, and so are strides.
// CHECK-LABEL: module @kernels
// CHECK: func.func @attention(%[[Q:[^:]*]]: memref<?x2x?x8xf32, strided<[?, 8, 16, 1]>, {at = ["p0", "p1", "p2"]}> {cuesta.bound = {{\[}}["p0", 2, "p1", 8], ["p2", 8, 16, 1]]},
// CHECK-SAME: %{{[^:]*}}: index, %{{[^:]*}}: index, %{{[^:]*}}: index, %{{[^:]*}}: index)
// CHECK-NEXT: "kernel.attention"(%[[Q]],
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"({{.*}}) {kernel = @kernels::@attention, ops = ["attention"], outputs = 2 : i64, parameters = ["s0", "s1", "16*s1", "2*s1"]}
module attributes {cuesta.hints = {s0 = 2 : i64, s1 = 32 : i64}} {
  func.func @graph(%q: tensor<?x2x?x8xf32, ["s0", "s1"]> {cuesta.strides = ["16*s1", 8, 16, 1]})
      -> (tensor<?x2x?x8xf32, ["s0", "s1"]> {cuesta.strides = ["16*s1", 8, 16, 1]}) {
    %0:2 = "cuesta.attention"(%q, %q, %q) {scale = 0.5, causal = 0, result_strides = [["16*s1", 8, 16, 1], ["2*s1", 1, 2]]}
      : (tensor<?x2x?x8xf32, ["s0", "s1"]>, tensor<?x2x?x8xf32, ["s0", "s1"]>, tensor<?x2x?x8xf32, ["s0", "s1"]>)
      -> (tensor<?x2x?x8xf32, ["s0", "s1"]>, tensor<?x2x?xf32, ["s0", "s1"]>)
    return %0#0 : tensor<?x2x?x8xf32, ["s0", "s1"]>
  }
}

// -----

// A bias that a kernel computes is written along the keys, whatever the order of its factors: slopes by distances.
// CHECK-LABEL: module @kernels
// CHECK: func.func @attention({{[^)]*}}%{{[^:]*}}: memref<1x2x32x64xf32>, %{{[^:]*}}: memref<1x2x32x8xf32>
func.func @graph(
    %q: tensor<1x2x32x8xf32> {cuesta.strides = [512, 256, 8, 1]}, %k: tensor<1x2x64x8xf32> {cuesta.strides = [1024, 512, 8, 1]},
    %s: tensor<2xf32> {cuesta.strides = [1]}
) -> (tensor<1x2x32x8xf32> {cuesta.strides = [512, 256, 8, 1]}) {
  %slopes = "cuesta.reshape"(%s) : (tensor<2xf32>) -> tensor<2x1x1xf32>
  %i = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<32xi32>
  %j = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<64xi32>
  %column = "cuesta.reshape"(%i) : (tensor<32xi32>) -> tensor<32x1xi32>
  %apart = "cuesta.sub"(%j, %column) : (tensor<64xi32>, tensor<32x1xi32>) -> tensor<32x64xi32>
  %d = "cuesta.convert"(%apart) : (tensor<32x64xi32>) -> tensor<32x64xf32>
  %bias = "cuesta.mul"(%slopes, %d) : (tensor<2x1x1xf32>, tensor<32x64xf32>) -> tensor<2x32x64xf32>
  %mask = "cuesta.reshape"(%bias) : (tensor<2x32x64xf32>) -> tensor<1x2x32x64xf32>
  %0:2 = "cuesta.attention"(%q, %k, %k, %mask) {scale = 0.5, causal = 0, operandSegmentSizes = array<i32: 1, 1, 1, 1>}
      : (tensor<1x2x32x8xf32>, tensor<1x2x64x8xf32>, tensor<1x2x64x8xf32>, tensor<1x2x32x64xf32>) -> (tensor<1x2x32x8xf32>, tensor<1x2x32xf32>)
  return %0#0 : tensor<1x2x32x8xf32>
}
