// RUN: cuesta-opt --pass-pipeline='builtin.module(plan-memory)' %s | filecheck %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(plan-memory{caller-limit=0})' %s | filecheck --check-prefix=TORCH %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(plan-memory{caller-limit=0 guarded=true})' %s | filecheck --check-prefix=GUARDED %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(plan-memory{spill-from=8388609})' %s | filecheck --check-prefix=STAYS %s

// %a is dead when %c is written, so they share a place; %b lives beside both.
// GUARDED-LABEL: func.func @shares_places(
// GUARDED: "host.alloc"() {owner = "caller"}
// CHECK-LABEL: func.func @shares_places(
// CHECK-SAME: %[[X:[^:]*]]:
// CHECK-SAME: cuesta.memory = {arena = 512 : i64, inputs = 256 : i64, kept = 256 : i64, peak = 768 : i64}
// CHECK-NEXT: %[[ARENA:.*]] = "host.arena"() : () -> memref<512xi8>
// CHECK-NEXT: %[[A:.*]] = "host.view"(%[[ARENA]]) {offset = 0 : i64} : (memref<512xi8>) -> memref<64xf32>
// CHECK-NEXT: "host.launch"(%[[X]], %[[A]])
// CHECK-NEXT: %[[B:.*]] = "host.view"(%[[ARENA]]) {offset = 256 : i64}
// CHECK-NEXT: "host.launch"(%[[A]], %[[B]])
// CHECK-NEXT: %[[C:.*]] = "host.view"(%[[ARENA]]) {offset = 0 : i64}
// CHECK-NEXT: "host.launch"(%[[B]], %[[C]])
// CHECK-NEXT: %[[R:.*]] = "host.alloc"() {owner = "caller"}
// CHECK-NEXT: "host.launch"(%[[C]], %[[R]])
// CHECK-NEXT: return %[[R]]
func.func @shares_places(%x: memref<64xf32>) -> memref<64xf32> {
  %a = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  "host.launch"(%x, %a) {kernel = @kernels::@k, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
  %b = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  "host.launch"(%a, %b) {kernel = @kernels::@k, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
  %c = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  "host.launch"(%b, %c) {kernel = @kernels::@k, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
  %r = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  "host.launch"(%c, %r) {kernel = @kernels::@k, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
  return %r : memref<64xf32>
}

// A result goes to torch with its views, just before its first use: the first launch does not know it.
// TORCH-LABEL: func.func @sinks
// TORCH-SAME: (%[[X:.*]]: memref<64xf32>)
// TORCH: "host.launch"(%[[X]], %{{.*}})
// TORCH-NEXT: %[[R:.*]] = "host.alloc"() {owner = "torch"} : () -> memref<64xf32>
// TORCH-NEXT: %[[V:.*]] = "host.view"(%[[R]])
// TORCH-NEXT: "host.launch"(%{{.*}}, %[[V]])
// TORCH-NEXT: return %[[V]]
func.func @sinks(%x: memref<64xf32>) -> memref<8x8xf32> {
  %r = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  %v = "host.view"(%r) {offset = 0} : (memref<64xf32>) -> memref<8x8xf32>
  %a = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  "host.launch"(%x, %a) {kernel = @kernels::@k, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
  "host.launch"(%a, %v) {kernel = @kernels::@k, outputs = 1} : (memref<64xf32>, memref<8x8xf32>) -> ()
  return %v : memref<8x8xf32>
}

// What a call returned is given back after its last use through any view; unused results at once.
// CHECK-LABEL: func.func @frees
// CHECK: %[[C:.*]]:2 = "host.aten"
// CHECK-NEXT: "host.free"(%[[C]]#1)
// CHECK-NEXT: %[[V:.*]] = "host.view"(%[[C]]#0)
// CHECK: "host.launch"(%[[V]], %{{.*}})
// CHECK-NEXT: "host.free"(%[[C]]#0)
// CHECK-NEXT: return
func.func @frees(%x: memref<64xf32>) -> memref<64xf32> {
  %c:2 = "host.aten"(%x) {overload = "aten.sort.default", args = "[\"%0\"]", dtypes = ["f32", "f32", "i64"], reason = "", route = "python"} : (memref<64xf32>) -> (memref<64xf32>, memref<64xi64>)
  %v = "host.view"(%c#0) {offset = 0} : (memref<64xf32>) -> memref<8x8xf32>
  %r = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  "host.launch"(%v, %r) {kernel = @kernels::@k, outputs = 1} : (memref<8x8xf32>, memref<64xf32>) -> ()
  return %r : memref<64xf32>
}

// The large %a is dead before the large results exist; the arena would hold its 8 MB beside them.
// It does where what may leave it is larger.
// STAYS-LABEL: func.func @large_and_early(
// STAYS-SAME: cuesta.memory = {arena = 8388608 : i64, inputs = 256 : i64, kept = 16777216 : i64, peak = 25165824 : i64}
// CHECK-LABEL: func.func @large_and_early(
// CHECK-SAME: %[[X:[^:]*]]:
// CHECK-SAME: cuesta.memory = {arena = 0 : i64, inputs = 256 : i64, kept = 16777216 : i64, peak = 16777216 : i64}
// CHECK-NEXT: %[[A:.*]] = "host.alloc"() {owner = "torch"} : () -> memref<2097152xf32>
// CHECK-NEXT: "host.launch"(%[[X]], %[[A]])
// CHECK-NEXT: %[[R:.*]] = "host.alloc"() {owner = "torch"}
// CHECK-NEXT: "host.launch"(%[[A]], %[[R]])
// CHECK-NEXT: "host.free"(%[[A]])
// CHECK-NEXT: %[[S:.*]] = "host.alloc"() {owner = "torch"}
// CHECK-NEXT: "host.launch"(%[[R]], %[[S]])
// CHECK-NEXT: return %[[R]], %[[S]]
func.func @large_and_early(%x: memref<64xf32>) -> (memref<2097152xf32>, memref<2097152xf32>) {
  %a = "host.alloc"() {owner = "plan"} : () -> memref<2097152xf32>
  %r = "host.alloc"() {owner = "plan"} : () -> memref<2097152xf32>
  %s = "host.alloc"() {owner = "plan"} : () -> memref<2097152xf32>
  "host.launch"(%x, %a) {kernel = @kernels::@k, outputs = 1} : (memref<64xf32>, memref<2097152xf32>) -> ()
  "host.launch"(%a, %r) {kernel = @kernels::@k, outputs = 1} : (memref<2097152xf32>, memref<2097152xf32>) -> ()
  "host.launch"(%r, %s) {kernel = @kernels::@k, outputs = 1} : (memref<2097152xf32>, memref<2097152xf32>) -> ()
  return %r, %s : memref<2097152xf32>, memref<2097152xf32>
}

// The arena costs nothing that torch would not hold as well: %a stays in it.
// CHECK-LABEL: func.func @large_and_late(
// CHECK-SAME: cuesta.memory = {arena = 8388608 : i64, inputs = 256 : i64, kept = 8388608 : i64, peak = 16777216 : i64}
func.func @large_and_late(%x: memref<64xf32>) -> memref<2097152xf32> {
  %a = "host.alloc"() {owner = "plan"} : () -> memref<2097152xf32>
  %r = "host.alloc"() {owner = "plan"} : () -> memref<2097152xf32>
  "host.launch"(%x, %a) {kernel = @kernels::@k, outputs = 1} : (memref<64xf32>, memref<2097152xf32>) -> ()
  "host.launch"(%a, %r) {kernel = @kernels::@k, outputs = 1} : (memref<2097152xf32>, memref<2097152xf32>) -> ()
  return %r : memref<2097152xf32>
}

// 8 MB, then 4 MB that outlive it, then 6 MB: an arena for both would hold 12 MB beside the result. The 8 MB go out of
// it; the 4 MB may stay.
// CHECK-LABEL: func.func @large_by_turns(
// CHECK-SAME: %[[X:[^:]*]]:
// CHECK-SAME: cuesta.memory = {arena = 4194304 : i64, inputs = 256 : i64, kept = 6291456 : i64, peak = 12582912 : i64}
// CHECK: %[[B:.*]] = "host.view"(%{{.*}}) {offset = 0
// CHECK-NEXT: %[[A:.*]] = "host.alloc"() {owner = "torch"}
// CHECK-NEXT: "host.launch"(%[[X]], %[[A]])
// CHECK-NEXT: "host.launch"(%[[A]], %[[B]])
// CHECK-NEXT: "host.free"(%[[A]])
// CHECK-NEXT: %[[R:.*]] = "host.alloc"() {owner = "torch"} : () -> memref<1572864xf32>
// CHECK-NEXT: "host.launch"(%[[B]], %[[R]])
// CHECK-NEXT: return %[[R]]
func.func @large_by_turns(%x: memref<64xf32>) -> memref<1572864xf32> {
  %a = "host.alloc"() {owner = "plan"} : () -> memref<2097152xf32>
  %b = "host.alloc"() {owner = "plan"} : () -> memref<1048576xf32>
  %r = "host.alloc"() {owner = "plan"} : () -> memref<1572864xf32>
  "host.launch"(%x, %a) {kernel = @kernels::@k, outputs = 1} : (memref<64xf32>, memref<2097152xf32>) -> ()
  "host.launch"(%a, %b) {kernel = @kernels::@k, outputs = 1} : (memref<2097152xf32>, memref<1048576xf32>) -> ()
  "host.launch"(%b, %r) {kernel = @kernels::@k, outputs = 1} : (memref<1048576xf32>, memref<1572864xf32>) -> ()
  return %r : memref<1572864xf32>
}

// An argument that the call owns is given back after its last use through any view, before the next result takes
// its memory: the level never rises above that at the start. %y is somebody else's, %z is returned, %s is small.
// CHECK-LABEL: func.func @gives_back(
// CHECK-SAME: %[[X:[^:]*]]: {{[^%]*}}%[[Y:[^:]*]]: {{[^%]*}}%[[Z:[^:]*]]: {{[^%]*}}%[[S:[^:]*]]:
// CHECK-SAME: cuesta.memory = {arena = 0 : i64, inputs = 12583936 : i64, kept = 0 : i64, peak = 8 : i64}
// CHECK-NEXT: %[[V:.*]] = "host.view"(%[[X]])
// CHECK-NEXT: %[[A:.*]] = "host.alloc"()
// CHECK-NEXT: "host.launch"(%[[V]], %[[S]], %[[A]])
// CHECK-NEXT: "host.free"(%[[X]])
// CHECK-NEXT: %[[R:.*]] = "host.alloc"() {owner = "torch"}
// CHECK-NEXT: "host.launch"(%[[A]], %[[Y]], %[[R]])
// CHECK-NEXT: "host.free"(%[[A]])
// CHECK-NEXT: return %[[R]], %[[Z]]
func.func @gives_back(%x: memref<1048576xf32> {cuesta.donated}, %y: memref<1048576xf32>,
    %z: memref<1048576xf32> {cuesta.donated}, %s: memref<256xf32> {cuesta.donated}) -> (memref<1048576xf32>, memref<1048576xf32>) {
  %a = "host.alloc"() {owner = "plan"} : () -> memref<2xf32>
  %r = "host.alloc"() {owner = "plan"} : () -> memref<1048576xf32>
  %v = "host.view"(%x) {offset = 0} : (memref<1048576xf32>) -> memref<1024x1024xf32>
  "host.launch"(%v, %s, %a) {kernel = @kernels::@k, outputs = 1} : (memref<1024x1024xf32>, memref<256xf32>, memref<2xf32>) -> ()
  "host.launch"(%a, %y, %r) {kernel = @kernels::@k, outputs = 1} : (memref<2xf32>, memref<1048576xf32>, memref<1048576xf32>) -> ()
  return %r, %z : memref<1048576xf32>, memref<1048576xf32>
}

// One that nobody reads goes at once.
// CHECK-LABEL: func.func @gives_back_unread(
// CHECK-SAME: %[[X:[^:]*]]:
// CHECK-NEXT: "host.free"(%[[X]])
func.func @gives_back_unread(%x: memref<1048576xf32> {cuesta.donated}, %y: memref<64xf32>) -> memref<64xf32> {
  %r = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  "host.launch"(%y, %r) {kernel = @kernels::@k, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
  return %r : memref<64xf32>
}

// Small ones stay to the end, the smallest first, while they are 16 KiB together: %s and one of two.
// CHECK-LABEL: func.func @gives_back_small_ones(
// CHECK-COUNT-1: "host.free"(%{{.*}}) : (memref<3072xf32>)
// CHECK-NOT: "host.free"
// CHECK: return
func.func @gives_back_small_ones(%s: memref<256xf32> {cuesta.donated}, %x: memref<3072xf32> {cuesta.donated},
    %y: memref<3072xf32> {cuesta.donated}) -> memref<1048576xf32> {
  %r = "host.alloc"() {owner = "plan"} : () -> memref<1048576xf32>
  "host.launch"(%s, %x, %y, %r) {kernel = @kernels::@k, outputs = 1} : (memref<256xf32>, memref<3072xf32>, memref<3072xf32>, memref<1048576xf32>) -> ()
  return %r : memref<1048576xf32>
}

// An LSTM's call takes 10.7 MB of its own: the 1 MB of %e, dead by then, is not kept in an arena beside it.
// CHECK-LABEL: func.func @beside_scratch(
// CHECK-SAME: cuesta.memory = {arena = 0 : i64, inputs = 8912896 : i64, kept = 1572864 : i64, peak = 11206664 : i64}
func.func @beside_scratch(%x: memref<32x8x512xf32>, %w: memref<2048x512xf32>, %v: memref<2048x512xf32>) -> (memref<32x8x512xf32>, memref<64x8x512xf32>) {
  %e = "host.alloc"() {owner = "plan"} : () -> memref<64x8x512xf32>
  "host.launch"(%x, %e) {kernel = @kernels::@k, outputs = 1} : (memref<32x8x512xf32>, memref<64x8x512xf32>) -> ()
  %s = "host.alloc"() {owner = "plan"} : () -> memref<2xf32>
  "host.launch"(%e, %s) {kernel = @kernels::@k, outputs = 1} : (memref<64x8x512xf32>, memref<2xf32>) -> ()
  %y = "host.aten"(%x, %w, %v, %s) {overload = "aten.mkldnn_rnn_layer.default", args = "[]", dtypes = ["f32", "f32", "f32", "f32", "f32"], reason = "", route = "shim"} : (memref<32x8x512xf32>, memref<2048x512xf32>, memref<2048x512xf32>, memref<2xf32>) -> memref<32x8x512xf32>
  %r = "host.alloc"() {owner = "plan"} : () -> memref<64x8x512xf32>
  "host.launch"(%y, %r) {kernel = @kernels::@k, outputs = 1} : (memref<32x8x512xf32>, memref<64x8x512xf32>) -> ()
  return %y, %r : memref<32x8x512xf32>, memref<64x8x512xf32>
}

// oneDNN's gradients of a convolution in channels_last take its weight twice, in row-major memory the images and the
// results, or the weight once; of a depthwise one with a large window, 257 times. What is returned comes on top.
// CHECK-LABEL: func.func @gradients(
// CHECK-SAME: peak = 442368 : i64
func.func @gradients(%g: memref<2x64x8x8xf32, strided<[4096, 1, 512, 64]>>, %x: memref<2x64x8x8xf32, strided<[4096, 1, 512, 64]>>, %w: memref<64x64x3x3xf32, strided<[576, 1, 192, 64]>>) -> memref<64x64x3x3xf32> {
  %y = "host.aten"(%g, %x, %w) {overload = "aten.convolution_backward.default", args = "[\"%0\", \"%1\", \"%2\", [0], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [false, true, false]]", dtypes = ["f32", "f32", "f32", "f32"], positions = [1], reason = "", route = "shim"} : (memref<2x64x8x8xf32, strided<[4096, 1, 512, 64]>>, memref<2x64x8x8xf32, strided<[4096, 1, 512, 64]>>, memref<64x64x3x3xf32, strided<[576, 1, 192, 64]>>) -> memref<64x64x3x3xf32>
  return %y : memref<64x64x3x3xf32>
}
// CHECK-LABEL: func.func @row_major_gradients(
// CHECK-SAME: peak = 294912 : i64
func.func @row_major_gradients(%g: memref<2x64x8x8xf32>, %x: memref<2x64x8x8xf32>, %w: memref<64x64x3x3xf32>) -> memref<64x64x3x3xf32> {
  %y = "host.aten"(%g, %x, %w) {overload = "aten.convolution_backward.default", args = "[\"%0\", \"%1\", \"%2\", [0], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [false, true, false]]", dtypes = ["f32", "f32", "f32", "f32"], positions = [1], reason = "", route = "shim"} : (memref<2x64x8x8xf32>, memref<2x64x8x8xf32>, memref<64x64x3x3xf32>) -> memref<64x64x3x3xf32>
  return %y : memref<64x64x3x3xf32>
}
// CHECK-LABEL: func.func @depthwise_gradients(
// CHECK-SAME: peak = 1651200 : i64
func.func @depthwise_gradients(%g: memref<2x64x8x8xf32, strided<[4096, 1, 512, 64]>>, %x: memref<2x64x8x8xf32, strided<[4096, 1, 512, 64]>>, %w: memref<64x1x5x5xf32>) -> memref<64x1x5x5xf32> {
  %y = "host.aten"(%g, %x, %w) {overload = "aten.convolution_backward.default", args = "[\"%0\", \"%1\", \"%2\", [0], [1, 1], [2, 2], [1, 1], false, [0, 0], 64, [false, true, false]]", dtypes = ["f32", "f32", "f32", "f32"], positions = [1], reason = "", route = "shim"} : (memref<2x64x8x8xf32, strided<[4096, 1, 512, 64]>>, memref<2x64x8x8xf32, strided<[4096, 1, 512, 64]>>, memref<64x1x5x5xf32>) -> memref<64x1x5x5xf32>
  return %y : memref<64x1x5x5xf32>
}

// A convolution takes its weight, and of a row-major call the images.
// CHECK-LABEL: func.func @convolution(
// CHECK-SAME: peak = 212992 : i64
func.func @convolution(%x: memref<2x64x8x8xf32>, %w: memref<64x64x3x3xf32>) -> memref<2x64x8x8xf32> {
  %y = "host.aten"(%x, %w) {overload = "aten.convolution.default", args = "[]", dtypes = ["f32", "f32", "f32"], reason = "", route = "shim"} : (memref<2x64x8x8xf32>, memref<64x64x3x3xf32>) -> memref<2x64x8x8xf32>
  return %y : memref<2x64x8x8xf32>
}

// The images' gradients take the weight and the results' gradients in row-major memory, or as much as they return.
// CHECK-LABEL: func.func @row_major_image_gradients(
// CHECK-SAME: peak = 65536 : i64
func.func @row_major_image_gradients(%g: memref<2x16x8x8xf32>, %x: memref<2x64x8x8xf32>, %w: memref<16x64x1x1xf32>) -> memref<2x64x8x8xf32> {
  %y = "host.aten"(%g, %x, %w) {overload = "aten.convolution_backward.default", args = "[\"%0\", \"%1\", \"%2\", [0], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [true, false, false]]", dtypes = ["f32", "f32", "f32", "f32"], positions = [0], reason = "", route = "shim"} : (memref<2x16x8x8xf32>, memref<2x64x8x8xf32>, memref<16x64x1x1xf32>) -> memref<2x64x8x8xf32>
  return %y : memref<2x64x8x8xf32>
}
