// RUN: cuesta-opt --pass-pipeline='builtin.module(plan-memory)' %s | filecheck %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(plan-memory{caller-limit=0})' %s | filecheck --check-prefix=TORCH %s

// %a is dead when %c is written, so they share a place; %b lives beside both.
// CHECK-LABEL: func.func @shares_places(
// CHECK-SAME: cuesta.memory = {arena = 512 : i64, inputs = 256 : i64, peak = 768 : i64}
// CHECK-NEXT: %[[ARENA:.*]] = "host.arena"() : () -> memref<512xi8>
// CHECK-NEXT: %[[A:.*]] = "host.view"(%[[ARENA]]) {offset = 0 : i64} : (memref<512xi8>) -> memref<64xf32>
// CHECK-NEXT: "host.launch"(%arg0, %[[A]])
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
// TORCH: "host.launch"(%arg0, %{{.*}})
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
// CHECK-LABEL: func.func @large_and_early(
// CHECK-SAME: cuesta.memory = {arena = 0 : i64, inputs = 256 : i64, peak = 16777216 : i64}
// CHECK-NEXT: %[[A:.*]] = "host.alloc"() {owner = "torch"} : () -> memref<2097152xf32>
// CHECK-NEXT: "host.launch"(%arg0, %[[A]])
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
// CHECK-SAME: cuesta.memory = {arena = 8388608 : i64, inputs = 256 : i64, peak = 16777216 : i64}
func.func @large_and_late(%x: memref<64xf32>) -> memref<2097152xf32> {
  %a = "host.alloc"() {owner = "plan"} : () -> memref<2097152xf32>
  %r = "host.alloc"() {owner = "plan"} : () -> memref<2097152xf32>
  "host.launch"(%x, %a) {kernel = @kernels::@k, outputs = 1} : (memref<64xf32>, memref<2097152xf32>) -> ()
  "host.launch"(%a, %r) {kernel = @kernels::@k, outputs = 1} : (memref<2097152xf32>, memref<2097152xf32>) -> ()
  return %r : memref<2097152xf32>
}
