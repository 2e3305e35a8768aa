// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(decompose,cuesta-to-linalg,form-kernels)' %s | filecheck %s

// Each concatenation is the first part of the next one: all lie in one buffer, and what a call gives is copied there
// once, short parts by one kernel. relu reads the first 12 channels where they lie.
// CHECK: func.func @graph(%[[X:.*]]: memref<2x8x4xf32> {
// CHECK-NEXT: %[[BLOCK:.*]] = "host.alloc"() {{.*}} -> memref<128xf32>
// CHECK-NEXT: "host.aten"
// CHECK: "host.launch"(%[[X]], %{{.*}}, %{{.*}}, %{{.*}}) {{.*}}ops = ["copy"]
// CHECK: %[[FIRST:.*]] = "host.view"(%[[BLOCK]]) {offset = 0 : i64} : (memref<128xf32>) -> memref<2x48xf32, strided<[64, 1]>>
// CHECK: "host.launch"(%[[FIRST]], %{{.*}}) {{.*}}ops = ["relu"]
// CHECK: %[[B:.*]] = "host.aten"
// CHECK: "host.launch"(%{{.*}}, %{{.*}}) {{.*}}ops = ["copy"]
// CHECK-NOT: "host.launch"
// CHECK: return
func.func @graph(%x: tensor<2x8x4xf32> {cuesta.strides = [32, 4, 1]}, %w: tensor<4x8x1xf32> {cuesta.strides = [8, 1, 1]}, %v: tensor<4x12x1xf32> {cuesta.strides = [12, 1, 1]}) -> (tensor<2x16x4xf32> {cuesta.strides = [64, 4, 1]}) {
  %0 = "aten.call"(%x, %w) {args = "[\22%0\22, \22%1\22, null, [1], [0], [1], false, [0], 1]", operand_strides = [[32, 4, 1], [8, 1, 1]], overload = "aten.convolution.default", reason = "", result_strides = [[16, 4, 1]]} : (tensor<2x8x4xf32>, tensor<4x8x1xf32>) -> tensor<2x4x4xf32> loc("convolution"("m.py":1:1))
  %1 = "cuesta.cat"(%x, %0) {dim = 1 : i64} : (tensor<2x8x4xf32>, tensor<2x4x4xf32>) -> tensor<2x12x4xf32> loc("copy"("m.py":2:1))
  %2 = "cuesta.relu"(%1) : (tensor<2x12x4xf32>) -> tensor<2x12x4xf32> loc("relu"("m.py":3:1))
  %3 = "aten.call"(%2, %v) {args = "[\22%0\22, \22%1\22, null, [1], [0], [1], false, [0], 1]", operand_strides = [[48, 4, 1], [12, 1, 1]], overload = "aten.convolution.default", reason = "", result_strides = [[16, 4, 1]]} : (tensor<2x12x4xf32>, tensor<4x12x1xf32>) -> tensor<2x4x4xf32> loc("convolution"("m.py":4:1))
  %4 = "cuesta.cat"(%1, %3) {dim = 1 : i64} : (tensor<2x12x4xf32>, tensor<2x4x4xf32>) -> tensor<2x16x4xf32> loc("copy"("m.py":5:1))
  return %4 : tensor<2x16x4xf32>
}

// CHECK: // -----
// -----

// What is returned is the caller's, and has memory of its own; its part of the outer one is copied.
// CHECK: func.func @graph
// CHECK: "host.launch"{{.*}}ops = ["exp", "sin", "copy"]
// CHECK: "host.launch"{{.*}}ops = ["copy"]
// CHECK: return %[[C:.*]], %[[D:.*]] : memref<4x16xf32>, memref<4x24xf32>
func.func @graph(%x: tensor<4x8xf32> {cuesta.strides = [8, 1]}) -> (tensor<4x16xf32> {cuesta.strides = [16, 1]}, tensor<4x24xf32> {cuesta.strides = [24, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.sin"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("sin"("m.py":1:1))
  %2 = "cuesta.cat"(%0, %1) {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32> loc("cat"("m.py":2:1))
  %3 = "cuesta.cat"(%2, %x) {dim = 1 : i64} : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<4x24xf32> loc("cat"("m.py":3:1))
  return %2, %3 : tensor<4x16xf32>, tensor<4x24xf32>
}

// CHECK: // -----
// -----

// The parts come channels last, and so does the whole.
// CHECK: func.func @graph
// CHECK: %[[BLOCK:.*]] = "host.alloc"() {{.*}} -> memref<256xf32>
// CHECK: "host.view"(%[[BLOCK]]) {offset = 0 : i64} : (memref<256xf32>) -> memref<32x4xf32, strided<[8, 1]>>
// CHECK: "host.view"(%[[BLOCK]]) {offset = 16 : i64} : (memref<256xf32>) -> memref<32x4xf32, strided<[8, 1]>>
// CHECK: return %{{.*}} : memref<2x8x4x4xf32, strided<[128, 1, 32, 8]>>
func.func @graph(%x: tensor<2x4x4x4xf32> {cuesta.strides = [64, 1, 16, 4]}, %w: tensor<4x4x1x1xf32> {cuesta.strides = [4, 1, 1, 1]}) -> (tensor<2x8x4x4xf32> {cuesta.strides = [128, 1, 32, 8]}) {
  %0 = "aten.call"(%x, %w) {args = "[\22%0\22, \22%1\22, null, [1, 1], [0, 0], [1, 1], false, [0, 0], 1]", operand_strides = [[64, 1, 16, 4], [4, 1, 1, 1]], overload = "aten.convolution.default", reason = "", result_strides = [[64, 1, 16, 4]]} : (tensor<2x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x4x4xf32> loc("convolution"("m.py":1:1))
  %1 = "cuesta.cat"(%0, %x) {dim = 1 : i64} : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x8x4x4xf32> loc("cat"("m.py":2:1))
  return %1 : tensor<2x8x4x4xf32>
}

// CHECK: // -----
// -----

// One concatenation in two others, and twice in one: it lies in the first that takes it once, or by itself.
// CHECK: func.func @graph
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}} : memref<4x16xf32>, memref<4x24xf32>, memref<8x8xf32>
func.func @graph(%x: tensor<4x4xf32> {cuesta.strides = [4, 1]}, %y: tensor<4x8xf32> {cuesta.strides = [8, 1]}) -> (tensor<4x16xf32> {cuesta.strides = [16, 1]}, tensor<4x24xf32> {cuesta.strides = [24, 1]}, tensor<8x8xf32> {cuesta.strides = [8, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.cat"(%0, %x) {dim = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32> loc("cat"("m.py":2:1))
  %2 = "cuesta.cat"(%1, %1) {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32> loc("cat"("m.py":3:1))
  %3 = "cuesta.cat"(%y, %2) {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<4x24xf32> loc("cat"("m.py":4:1))
  %4 = "cuesta.cat"(%1, %y) {dim = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> loc("cat"("m.py":4:1))
  return %2, %3, %4 : tensor<4x16xf32>, tensor<4x24xf32>, tensor<8x8xf32>
}

// CHECK: // -----
// -----

// A padded image: the sides lie in the buffer of the whole, and one kernel writes all of it.
// CHECK: func.func @graph(%[[X:.*]]: memref<16x30x30xf32>
// CHECK: %[[ALL:.*]] = "host.alloc"() {{.*}} -> memref<16384xf32>
// CHECK: "host.launch"(%[[X]], {{.*}}outputs = 5
// CHECK-NOT: "host.launch"
// CHECK: %[[R:.*]] = "host.view"(%[[ALL]])
// CHECK-NEXT: return %[[R]] : memref<16x32x32xf32>
func.func @graph(%x: tensor<16x30x30xf32> {cuesta.strides = [900, 30, 1]}) -> (tensor<16x32x32xf32> {cuesta.strides = [1024, 32, 1]}) {
  %0 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<16x30x1xf32>
  %1 = "cuesta.cat"(%0, %x) {dim = 2 : i64} : (tensor<16x30x1xf32>, tensor<16x30x30xf32>) -> tensor<16x30x31xf32>
  %2 = "cuesta.cat"(%1, %0) {dim = 2 : i64} : (tensor<16x30x31xf32>, tensor<16x30x1xf32>) -> tensor<16x30x32xf32>
  %3 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<16x1x32xf32>
  %4 = "cuesta.cat"(%3, %2) {dim = 1 : i64} : (tensor<16x1x32xf32>, tensor<16x30x32xf32>) -> tensor<16x31x32xf32>
  %5 = "cuesta.cat"(%4, %3) {dim = 1 : i64} : (tensor<16x31x32xf32>, tensor<16x1x32xf32>) -> tensor<16x32x32xf32>
  return %5 : tensor<16x32x32xf32>
}

// CHECK: // -----
// -----

// Parts whose runs are a page or more have kernels of their own.
// CHECK: func.func @graph
// CHECK: "host.launch"{{.*}}outputs = 1
// CHECK: "host.launch"{{.*}}outputs = 1
func.func @graph(%x: tensor<16x1024xf32> {cuesta.strides = [1024, 1]}, %y: tensor<16x1024xf32> {cuesta.strides = [1024, 1]}) -> (tensor<16x2048xf32> {cuesta.strides = [2048, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<16x1024xf32>) -> tensor<16x1024xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.cat"(%0, %y) {dim = 1 : i64} : (tensor<16x1024xf32>, tensor<16x1024xf32>) -> tensor<16x2048xf32> loc("cat"("m.py":2:1))
  return %1 : tensor<16x2048xf32>
}

// CHECK: // -----
// -----

// The channels of a concatenation are fastest in memory. The loops that write its parts have the channels innermost, though
// a part by itself would be row-major.
// CHECK: #[[POSITIONS:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-NEXT: #[[ROWS:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK: func.func @gather
// CHECK: linalg.generic {indexing_maps = [#[[POSITIONS]], #[[ROWS]]]
// CHECK: func.func @graph
func.func @graph(%x: tensor<1x16x4xf32> {cuesta.strides = [64, 1, 16]}, %y: tensor<1x16x4xf32> {cuesta.strides = [64, 1, 16]}, %i: tensor<8xi64> {cuesta.strides = [1]}) -> (tensor<1x32x8xf32> {cuesta.strides = [256, 1, 32]}) {
  %0 = "cuesta.index"(%x, %i) {dims = [2], in_range} : (tensor<1x16x4xf32>, tensor<8xi64>) -> tensor<1x16x8xf32> loc("gather"("m.py":1:1))
  %1 = "cuesta.exp"(%0) : (tensor<1x16x8xf32>) -> tensor<1x16x8xf32> loc("exp"("m.py":1:1))
  %2 = "cuesta.index"(%y, %i) {dims = [2], in_range} : (tensor<1x16x4xf32>, tensor<8xi64>) -> tensor<1x16x8xf32> loc("gather"("m.py":1:1))
  %3 = "cuesta.cat"(%1, %2) {dim = 1 : i64} : (tensor<1x16x8xf32>, tensor<1x16x8xf32>) -> tensor<1x32x8xf32> loc("cat"("m.py":2:1))
  return %3 : tensor<1x32x8xf32>
}
