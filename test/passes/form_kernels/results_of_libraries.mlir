// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(form-kernels)' %s | filecheck %s

// A convolution's result is new memory that nothing reads any more: the kernel behind it writes there. A graph's result
// does not lie in such memory.
// CHECK-LABEL: func.func @graph
// CHECK: %[[C:.*]] = "host.aten"(%arg0, %arg1) {{.*}}aten.convolution.default
// CHECK-NEXT: %[[V:.*]] = "host.view"(%[[C]])
// CHECK-NEXT: "host.launch"(%[[V]]) {kernel = @kernels::@tanh,
// CHECK-NEXT: "host.aten"(%[[C]], %arg1) {{.*}}aten.convolution.default
// CHECK-NEXT: %[[R:.*]] = "host.alloc"
// CHECK-NEXT: %[[D:.*]] = "host.view"
// CHECK-NEXT: "host.launch"(%[[D]], %[[R]]) {kernel = @kernels::@tanh_2
func.func @graph(%x: tensor<2x8x16x16xf32> {cuesta.strides = [2048, 256, 16, 1]}, %w: tensor<8x8x3x3xf32> {cuesta.strides = [72, 9, 3, 1]}) -> (tensor<2x8x12x12xf32> {cuesta.strides = [1152, 144, 12, 1]}) {
  %0 = "aten.call"(%x, %w) {args = "[\22%0\22, \22%1\22, null, [1, 1], [0, 0], [1, 1], false, [0, 0], 1]", dtypes = ["f32", "f32", "f32"], overload = "aten.convolution.default", reason = "", result_strides = [[1568, 196, 14, 1]]} : (tensor<2x8x16x16xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x14x14xf32>
  %e0 = tensor.empty() : tensor<2x8x14x14xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%0 : tensor<2x8x14x14xf32>) outs(%e0 : tensor<2x8x14x14xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.tanh %a : f32
    linalg.yield %t : f32
  } -> tensor<2x8x14x14xf32> loc("tanh"("m.py":1:1))
  %2 = "aten.call"(%1, %w) {args = "[\22%0\22, \22%1\22, null, [1, 1], [0, 0], [1, 1], false, [0, 0], 1]", dtypes = ["f32", "f32", "f32"], overload = "aten.convolution.default", reason = "", result_strides = [[1152, 144, 12, 1]]} : (tensor<2x8x14x14xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x12x12xf32>
  %e1 = tensor.empty() : tensor<2x8x12x12xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%2 : tensor<2x8x12x12xf32>) outs(%e1 : tensor<2x8x12x12xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.tanh %a : f32
    linalg.yield %t : f32
  } -> tensor<2x8x12x12xf32> loc("tanh_2"("m.py":1:1))
  return %3 : tensor<2x8x12x12xf32>
}
