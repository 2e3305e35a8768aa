// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// The kernel behind the call reads what is narrow and widens it: the kernel before it need not write it wide.
// CHECK: func.func @graph(%[[X:[^:]*]]:
// CHECK: "host.launch"(%[[X]], %[[N:.*]]) {{.*}}ops = ["neg"], outputs = 1
// CHECK: "host.aten"
// CHECK: "host.launch"({{.*}}%[[N]]{{.*}}) {{.*}}ops = ["to_copy", "add"], outputs = 1 : i64} : (memref<4096xbf16>, memref<4096xf32>, memref<4096xf32>)
func.func @graph(%x: tensor<4096xbf16> {cuesta.strides = [1]}) -> (tensor<4096xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.neg"(%x) : (tensor<4096xbf16>) -> tensor<4096xbf16> loc("neg"("m.py":1:1))
  %1 = "cuesta.convert"(%0) : (tensor<4096xbf16>) -> tensor<4096xf32> loc("to_copy"("m.py":2:1))
  %2 = "aten.call"(%0) {args = "[\22%0\22, 0, {\22kwargs\22: {\22dtype\22: {\22dtype\22: \22float32\22}}}]", overload = "aten.cumsum.default", reason = "", result_strides = [[1]]} : (tensor<4096xbf16>) -> tensor<4096xf32>
  %3 = "cuesta.add"(%1, %2) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32> loc("add"("m.py":3:1))
  return %3 : tensor<4096xf32>
}

// CHECK: // -----
// -----

// Squares of what a kernel cannot add up itself are computed by the kernel that adds them up, from what is narrow: a
// product's kernel writes one tensor.
// CHECK: func.func @graph(
// CHECK: "host.launch"({{.*}}) {{.*}}ops = ["mm", "gelu"], outputs = 1 : i64} : (memref<256x64xbf16>, memref<64x128xbf16>, memref<256x128xbf16>)
// CHECK: "host.launch"({{.*}}) {{.*}}ops = ["to_copy", "pow", "sum"], outputs = 1 : i64} : (memref<256x128xbf16>, memref<128xf32>)
func.func @graph(%x: tensor<256x64xbf16> {cuesta.strides = [64, 1]}, %w: tensor<64x128xbf16> {cuesta.strides = [128, 1]}) -> (tensor<256x128xbf16> {cuesta.strides = [128, 1]}, tensor<128xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.mm"(%x, %w) {product = "64x64x32/4/3"} : (tensor<256x64xbf16>, tensor<64x128xbf16>) -> tensor<256x128xf32> loc("mm"("m.py":1:1))
  %1 = "cuesta.convert"(%0) : (tensor<256x128xf32>) -> tensor<256x128xbf16> loc("gelu"("m.py":2:1))
  %2 = "cuesta.gelu"(%1) : (tensor<256x128xbf16>) -> tensor<256x128xbf16> loc("gelu"("m.py":2:1))
  %3 = "cuesta.convert"(%2) : (tensor<256x128xbf16>) -> tensor<256x128xf32> loc("to_copy"("m.py":3:1))
  %4 = "cuesta.square"(%3) : (tensor<256x128xf32>) -> tensor<256x128xf32> loc("pow"("m.py":4:1))
  %5 = "cuesta.sum"(%4) {dims = [0], keepdim = 0 : i64} : (tensor<256x128xf32>) -> tensor<128xf32> loc("sum"("m.py":5:1))
  return %2, %5 : tensor<256x128xbf16>, tensor<128xf32>
}

// CHECK: // -----
// -----

// So are products of what is widened, and what is computed for them alone from it and a row: the kernel in front, which
// reduces along another dim, writes one narrow tensor.
// CHECK: func.func @graph(
// CHECK: "host.launch"({{.*}}) {{.*}}ops = ["amax", "mul"], outputs = 1 : i64} : (memref<64x256x128xbf16>, memref<64x256x128xbf16>)
// CHECK: "host.launch"({{.*}}) {{.*}}ops = ["mul", "sub", "sum"], outputs = 1 : i64} : (memref<16384x128xbf16>, memref<16384x128xbf16>, memref<128xf32>, memref<128xf32>)
func.func @graph(%x: tensor<64x256x128xbf16> {cuesta.strides = [32768, 128, 1]}, %m: tensor<128xf32> {cuesta.strides = [1]}) -> (tensor<64x256x128xbf16> {cuesta.strides = [32768, 128, 1]}, tensor<128xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.amax"(%x) {dims = [1], keepdim = 1 : i64} : (tensor<64x256x128xbf16>) -> tensor<64x1x128xbf16> loc("amax"("m.py":1:1))
  %1 = "cuesta.mul"(%x, %0) : (tensor<64x256x128xbf16>, tensor<64x1x128xbf16>) -> tensor<64x256x128xbf16> loc("mul"("m.py":2:1))
  %2 = "cuesta.convert"(%1) : (tensor<64x256x128xbf16>) -> tensor<64x256x128xf32> loc("mul"("m.py":3:1))
  %3 = "cuesta.convert"(%x) : (tensor<64x256x128xbf16>) -> tensor<64x256x128xf32> loc("sub"("m.py":4:1))
  %4 = "cuesta.sub"(%3, %m) : (tensor<64x256x128xf32>, tensor<128xf32>) -> tensor<64x256x128xf32> loc("sub"("m.py":4:1))
  %5 = "cuesta.mul"(%2, %4) : (tensor<64x256x128xf32>, tensor<64x256x128xf32>) -> tensor<64x256x128xf32> loc("mul"("m.py":5:1))
  %6 = "cuesta.sum"(%5) {dims = [0, 1], keepdim = 0 : i64} : (tensor<64x256x128xf32>) -> tensor<128xf32> loc("sum"("m.py":6:1))
  return %1, %6 : tensor<64x256x128xbf16>, tensor<128xf32>
}

// CHECK: // -----
// -----

// A factor for each row is a sum along it. What it multiplies, which is in memory, is multiplied by the kernel behind
// the call, not by that of the sums, which would write the product.
// CHECK: func.func @graph(
// CHECK: "host.launch"({{.*}}) {{.*}}ops = ["sum"], outputs = 1 : i64} : (memref<4096x4xf32>, memref<4096xf32>)
// CHECK: "host.aten"
// CHECK: "host.launch"({{.*}}) {{.*}}ops = ["mul", "add"], outputs = 1 : i64} : (memref<4096x64xf32>, memref<4096xf32>, memref<4096x64xf32>, memref<4096x64xf32>)
func.func @graph(%x: tensor<4096x64xf32> {cuesta.strides = [64, 1]}, %f: tensor<4096x4xf32> {cuesta.strides = [4, 1]}) -> (tensor<4096x64xf32> {cuesta.strides = [64, 1]}) {
  %0 = "cuesta.sum"(%f) {dims = [1], keepdim = 1 : i64} : (tensor<4096x4xf32>) -> tensor<4096x1xf32> loc("sum"("m.py":1:1))
  %1 = "cuesta.mul"(%x, %0) : (tensor<4096x64xf32>, tensor<4096x1xf32>) -> tensor<4096x64xf32> loc("mul"("m.py":2:1))
  %2 = "aten.call"(%0, %x) {args = "[\22%1\22, \22%0\22]", overload = "aten.pow.Tensor_Tensor", reason = "", result_strides = [[64, 1]]} : (tensor<4096x1xf32>, tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %3 = "cuesta.add"(%1, %2) : (tensor<4096x64xf32>, tensor<4096x64xf32>) -> tensor<4096x64xf32> loc("add"("m.py":3:1))
  return %3 : tensor<4096x64xf32>
}
