// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// Images that lie row-major and are asked for in channels_last: one kernel would have a program for each few channels,
// side by side, and too few of them. The sums are a kernel of their own, with a program for each channel. What comes
// before the last op counts as asked for like its result.
// CHECK: cuesta.parallel = [1], cuesta.sizes = [32, 256, 1024]
// CHECK: cuesta.parallel = [0, 1, 2], cuesta.sizes = [32, 1024, 256]
// CHECK-COUNT-2: "host.launch"
// CHECK-NOT: "host.launch"
func.func @graph(%x: tensor<32x256x32x32xf32> {cuesta.strides = [262144, 1024, 32, 1]}) -> (tensor<32x256x32x32xf32> {cuesta.strides = [262144, 1, 8192, 256]}) {
  %0 = "cuesta.sum"(%x) {dims = [0, 2, 3], keepdim = 1} : (tensor<32x256x32x32xf32>) -> tensor<1x256x1x1xf32>
  %1 = "cuesta.sub"(%x, %0) : (tensor<32x256x32x32xf32>, tensor<1x256x1x1xf32>) -> tensor<32x256x32x32xf32>
  %2 = "cuesta.sigmoid"(%1) : (tensor<32x256x32x32xf32>) -> tensor<32x256x32x32xf32>
  %3 = "cuesta.mul"(%1, %2) : (tensor<32x256x32x32xf32>, tensor<32x256x32x32xf32>) -> tensor<32x256x32x32xf32>
  return %3 : tensor<32x256x32x32xf32>
}

// CHECK: // -----
// -----

// Asked for as they lie, they are one kernel, which reads each channel twice, the second time from a cache.
// CHECK: cuesta.parallel = [1], cuesta.sizes = [32, 256, 1024]
// CHECK-COUNT-1: "host.launch"
// CHECK-NOT: "host.launch"
func.func @graph(%x: tensor<32x256x32x32xf32> {cuesta.strides = [262144, 1024, 32, 1]}) -> (tensor<32x256x32x32xf32> {cuesta.strides = [262144, 1024, 32, 1]}) {
  %0 = "cuesta.sum"(%x) {dims = [0, 2, 3], keepdim = 1} : (tensor<32x256x32x32xf32>) -> tensor<1x256x1x1xf32>
  %1 = "cuesta.sub"(%x, %0) : (tensor<32x256x32x32xf32>, tensor<1x256x1x1xf32>) -> tensor<32x256x32x32xf32>
  %2 = "cuesta.sigmoid"(%1) : (tensor<32x256x32x32xf32>) -> tensor<32x256x32x32xf32>
  %3 = "cuesta.mul"(%1, %2) : (tensor<32x256x32x32xf32>, tensor<32x256x32x32xf32>) -> tensor<32x256x32x32xf32>
  return %3 : tensor<32x256x32x32xf32>
}

// CHECK: // -----
// -----

// So do the operands of a call into ATen.
// CHECK-COUNT-2: "host.launch"
// CHECK: "host.aten"
func.func @graph(%x: tensor<32x256x32x32xf32> {cuesta.strides = [262144, 1024, 32, 1]}) -> tensor<32x256x16x16xf32> {
  %0 = "cuesta.sum"(%x) {dims = [0, 2, 3], keepdim = 1} : (tensor<32x256x32x32xf32>) -> tensor<1x256x1x1xf32>
  %1 = "cuesta.sub"(%x, %0) : (tensor<32x256x32x32xf32>, tensor<1x256x1x1xf32>) -> tensor<32x256x32x32xf32>
  %2 = "aten.call"(%1) {args = "[\22%0\22, [2, 2], [2, 2]]", overload = "aten.avg_pool2d.default", reason = "", operand_strides = [[262144, 1, 8192, 256]], result_strides = [[65536, 1, 4096, 256]]} : (tensor<32x256x32x32xf32>) -> tensor<32x256x16x16xf32>
  return %2 : tensor<32x256x16x16xf32>
}

// CHECK: // -----
// -----

// A permute that is to be written is not read in its operand's order: what computes it writes it so, and what is computed
// at positions of it reads its rows.
// CHECK: #[[TURNED:.*]] = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
// CHECK: #[[STRAIGHT:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK: func.func @kernel_copy
// CHECK: linalg.generic {indexing_maps = [#[[TURNED]], #{{.*}}, #[[STRAIGHT]]]{{.*}} ins(%arg0
// CHECK: linalg.generic {indexing_maps = [#[[STRAIGHT]], #[[STRAIGHT]]]{{.*}} outs(%arg1
// CHECK: func.func @kernel(
// CHECK: tensor.extract %arg2[%{{.*}}, %{{.*}}, %{{.*}}] : tensor<8x512x512xbf16>
// CHECK-COUNT-2: "host.launch"
// CHECK-NOT: "host.launch"
func.func @graph(%x: tensor<8x512x512xbf16> {cuesta.strides = [262144, 512, 1]}, %p: tensor<512x512xi64>, %q: tensor<512x512xi64>) -> tensor<8x512x512xbf16> {
  %0 = "cuesta.amax"(%x) {dims = [2], keepdim = 1} : (tensor<8x512x512xbf16>) -> tensor<8x512x1xbf16>
  %1 = "cuesta.sub"(%x, %0) : (tensor<8x512x512xbf16>, tensor<8x512x1xbf16>) -> tensor<8x512x512xbf16>
  %2 = "cuesta.exp"(%1) : (tensor<8x512x512xbf16>) -> tensor<8x512x512xbf16>
  %3 = "cuesta.permute"(%2) {dims = [0, 2, 1], written} : (tensor<8x512x512xbf16>) -> tensor<8x512x512xbf16>
  %4 = "cuesta.iota"() {start = 0, step = 1} : () -> tensor<8xi64>
  %5 = "cuesta.reshape"(%4) : (tensor<8xi64>) -> tensor<8x1x1xi64>
  %b = "cuesta.expand"(%5) : (tensor<8x1x1xi64>) -> tensor<8x512x512xi64>
  %6 = "cuesta.iota"() {start = 0, step = 1} : () -> tensor<512xi64>
  %7 = "cuesta.reshape"(%6) : (tensor<512xi64>) -> tensor<512x1xi64>
  %i = "cuesta.expand"(%7) : (tensor<512x1xi64>) -> tensor<8x512x512xi64>
  %j = "cuesta.expand"(%p) : (tensor<512x512xi64>) -> tensor<8x512x512xi64>
  %k = "cuesta.expand"(%q) : (tensor<512x512xi64>) -> tensor<8x512x512xi64>
  %8 = "cuesta.index"(%3, %b, %i, %j) {dims = [0, 1, 2], in_range} : (tensor<8x512x512xbf16>, tensor<8x512x512xi64>, tensor<8x512x512xi64>, tensor<8x512x512xi64>) -> tensor<8x512x512xbf16>
  %9 = "cuesta.index"(%3, %b, %i, %k) {dims = [0, 1, 2], in_range} : (tensor<8x512x512xbf16>, tensor<8x512x512xi64>, tensor<8x512x512xi64>, tensor<8x512x512xi64>) -> tensor<8x512x512xbf16>
  %10 = "cuesta.add"(%8, %9) : (tensor<8x512x512xbf16>, tensor<8x512x512xbf16>) -> tensor<8x512x512xbf16>
  return %10 : tensor<8x512x512xbf16>
}
