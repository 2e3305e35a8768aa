// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(decompose,cuesta-to-linalg,form-kernels)' %s | filecheck %s

// A path from one to the other leads through a call: they stay two.
// CHECK: func.func @graph
// CHECK-SAME: cuesta.remarks = [{bytes = 16384 : i64, consumer = "add", producer = "exp", reason = "{{.*}} through another kernel or call"}]
// CHECK: "host.launch"
// CHECK: "host.aten"
// CHECK: "host.launch"
func.func @graph(%x: tensor<64x64xf32> {cuesta.strides = [64, 1]}) -> (tensor<64x64xf32> {cuesta.strides = [64, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("exp"("m.py":1:1))
  %1 = "aten.call"(%0, %x) {
    overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "-", result_strides = [[64, 1]]
  } : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = "cuesta.add"(%0, %1) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("add"("m.py":2:1))
  return %2 : tensor<64x64xf32>
}

// CHECK: // -----
// -----

// What is read at computed positions must have been written whole.
// CHECK: func.func @graph
// CHECK-SAME: consumer = "embedding", producer = "exp", reason = "{{.*}}computed positions
func.func @graph(%x: tensor<64x64xf32> {cuesta.strides = [64, 1]}, %i: tensor<8xi64> {cuesta.strides = [1]})
    -> (tensor<8x64xf32> {cuesta.strides = [64, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.index"(%0, %i) {dims = [0]} : (tensor<64x64xf32>, tensor<8xi64>) -> tensor<8x64xf32> loc("embedding"("m.py":2:1))
  return %1 : tensor<8x64xf32>
}

// CHECK: // -----
// -----

// Sums over all of a large tensor, which every element then reads, need a second pass over it.
// CHECK: func.func @graph
// CHECK-SAME: reason = "no loop is parallel
// CHECK-COUNT-2: "host.launch"
// CHECK-NOT: "host.launch"
// CHECK: return
func.func @graph(%x: tensor<4096x4096xf32> {cuesta.strides = [4096, 1]}) -> (tensor<4096x4096xf32> {cuesta.strides = [4096, 1]}) {
  %0 = "cuesta.amax"(%x) {dims = [0, 1], keepdim = 1} : (tensor<4096x4096xf32>) -> tensor<1x1xf32> loc("amax"("m.py":1:1))
  %1 = "cuesta.sub"(%x, %0) : (tensor<4096x4096xf32>, tensor<1x1xf32>) -> tensor<4096x4096xf32> loc("sub"("m.py":2:1))
  return %1 : tensor<4096x4096xf32>
}

// CHECK: // -----
// -----

// The sum follows exp's tiles as a tail. What is read backwards from the tiles must not join them behind it.
// CHECK: func.func @graph
// CHECK-SAME: consumer = "add", producer = "exp", reason = "{{.*}}computed positions
// CHECK-COUNT-2: "host.launch"
// CHECK-NOT: "host.launch"
// CHECK: return
func.func @graph(%x: tensor<64xf32> {cuesta.strides = [1]})
    -> (tensor<f32> {cuesta.strides = []}, tensor<64xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<64xf32>) -> tensor<64xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.sum"(%0) {dims = [0], keepdim = 0} : (tensor<64xf32>) -> tensor<f32> loc("sum"("m.py":2:1))
  %2 = "cuesta.flip"(%0) {dims = [0]} : (tensor<64xf32>) -> tensor<64xf32> loc("add"("m.py":3:1))
  %3 = "cuesta.add"(%1, %2) : (tensor<f32>, tensor<64xf32>) -> tensor<64xf32> loc("add"("m.py":3:1))
  return %1, %3 : tensor<f32>, tensor<64xf32>
}
