// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(host-to-llvm)' %s | filecheck %s

// A launch and a typed call: the kernel moves to the top, and is run by the function that the JIT writes for it, with
// its counts of buffers, sizes, tiles, and threads that have enough to do; the call reports failure.
// CHECK-LABEL: llvm.func @exp__tiles(
// CHECK: llvm.mlir.global external constant @[[MM:table_[0-9]+]](dense<[1, 0, 0, 8, 2, 6, 0, 0, 4, 8, 8, 1, 1, 0, 10, 2, 6, 0, 0, 8, 5, 5, 1, 7, 0, 12, 2, 6, 0, 0, 4, 5, 5, 1]>
// CHECK: llvm.mlir.global external constant @[[LAUNCH:table_[0-9]+]](dense<[2, 0, 256, 30, 3, 7, 0, 2, 64]>
// CHECK: llvm.func @_mlir_exp__tiles(!llvm.ptr)
// CHECK: llvm.func @cuesta_mm_out(
// CHECK: llvm.call @aoti_torch_cpu_mm_out(
// CHECK: llvm.func @cuesta_main(%[[SLOTS:.*]]: !llvm.ptr) -> i32
// CHECK: %[[TABLE:.*]] = llvm.mlir.addressof @[[MM]]
// CHECK-NEXT: %[[CODE:.*]] = llvm.call @cuesta_mm_out(%[[SLOTS]], %[[FRAME:.*]], %[[TABLE]])
// CHECK-NEXT: %[[PASSED:.*]] = llvm.icmp "eq" %[[CODE]], %[[GOOD:.*]] : i32
// CHECK-NEXT: llvm.cond_br %[[PASSED]], ^[[ON:.*]], ^[[FAILED:.*]](%[[CODE]] : i32)
// CHECK: %[[TILES:.*]] = llvm.mlir.addressof @_mlir_exp__tiles
// CHECK-NEXT: %[[TAIL:.*]] = llvm.mlir.zero
// CHECK-NEXT: %[[TABLE:.*]] = llvm.mlir.addressof @[[LAUNCH]]
// CHECK-NEXT: llvm.call @cuesta_run(%[[SLOTS]], %[[FRAME]], %[[TABLE]], %[[TILES]], %[[TAIL]])
// CHECK-NEXT: llvm.return %[[GOOD]]
// CHECK: llvm.func @aoti_torch_cpu_mm_out(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
module {
  module @kernels {
    llvm.func @exp__tiles(%x: !llvm.ptr, %y: !llvm.ptr, %lo: i64, %hi: i64) attributes {cuesta.tiles = 256 : i64, cuesta.work = 1000000 : i64} { llvm.return }
  }
  func.func @graph(%a: memref<4x8xf32>, %b: memref<8x5xf32>) -> memref<4x5xf32> {
    %arena = "host.arena"() : () -> memref<256xi8>
    %t = "host.view"(%arena) {offset = 64} : (memref<256xi8>) -> memref<20xf32>
    %r = "host.alloc"() {owner = "caller"} : () -> memref<4x5xf32>
    "host.aten"(%a, %b, %r) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", dtypes = ["f32", "f32", "f32"], reason = "", route = "out"} : (memref<4x8xf32>, memref<8x5xf32>, memref<4x5xf32>) -> ()
    "host.launch"(%r, %t) {kernel = @kernels::@exp, outputs = 1} : (memref<4x5xf32>, memref<20xf32>) -> ()
    return %r : memref<4x5xf32>
  }
}

// -----

// Memory of torch: allocated as the result is, kept in the frame, its handle given to the caller; what is
// not returned goes back. A failed check frees both.
// CHECK: dense<[1, 0, 2, 0, 2, 6, 0, 0, 8, 8, 8, 1]>
// CHECK: dense<[2, 1, 3, 0, 1, 6, 0, 0, 64, 1]>
// CHECK: dense<[3, -4, 0]>
// CHECK: llvm.func @cuesta_main(
// CHECK: %[[WORDS:.*]] = llvm.mlir.constant(4 : i64) : i64
// CHECK-NEXT: %[[FRAME:.*]] = llvm.alloca %[[WORDS]] x i64
// CHECK: llvm.intr.memset
// CHECK: llvm.call @cuesta_allocate
// CHECK: llvm.call @cuesta_allocate
// CHECK: llvm.call @cuesta_check
// CHECK: %[[SLOT:.*]] = llvm.getelementptr %[[FRAME]][1]
// CHECK-NEXT: llvm.call @cuesta_delete(%[[SLOT]], %{{.*}})
// CHECK: %[[HANDLE:.*]] = llvm.load
// CHECK-NEXT: %[[RESULT:.*]] = llvm.getelementptr %{{.*}}[6]
// CHECK-NEXT: llvm.store %[[HANDLE]], %[[RESULT]] : i64
// CHECK: ^{{.*}}(%[[CODE:.*]]: i32):
// CHECK: llvm.call @cuesta_delete(%[[FRAME]], %{{.*}})
// CHECK-NEXT: llvm.return %[[CODE]]
func.func @graph(%x: memref<64xf32>) -> memref<8x8xf32> {
  %r = "host.alloc"() {owner = "torch"} : () -> memref<64xf32>
  %v = "host.view"(%r) {offset = 0} : (memref<64xf32>) -> memref<8x8xf32>
  %t = "host.alloc"() {owner = "torch"} : () -> memref<64xf32>
  %byte = "host.view"(%t) {offset = 0} : (memref<64xf32>) -> memref<i8>
  "host.check"(%byte) {message = "index out of range"} : (memref<i8>) -> ()
  "host.free"(%t) : (memref<64xf32>) -> ()
  return %v : memref<8x8xf32>
}

// -----

// From two huge pages on, torch's memory is asked for in them; below, as it comes.
// CHECK: llvm.func @cuesta_main(
// CHECK: llvm.call @cuesta_allocate_large(
// CHECK: llvm.call @cuesta_allocate(
// CHECK: llvm.func @cuesta_allocate_large(
// CHECK: %[[MADE:.*]] = llvm.call @cuesta_allocate(
// CHECK: llvm.call @aoti_torch_get_storage_size(
// CHECK: llvm.call @madvise(
// CHECK: llvm.return %[[MADE]]
func.func @graph() -> (memref<1048576xf32>, memref<1048575xf32>) {
  %large = "host.alloc"() {owner = "torch"} : () -> memref<1048576xf32>
  %small = "host.alloc"() {owner = "torch"} : () -> memref<1048575xf32>
  return %large, %small : memref<1048576xf32>, memref<1048575xf32>
}

// -----

// The dispatcher's table: step, words, results, where each part begins, "aten::sort", "", the words, the results.
// CHECK: dense<[1, 3, 2, 7, 9, 10, 24, 8030826583166383201, 29810, 0, 1, 0, 0, 8, 1, 6, 0, 0, 8, 1, 0, 0, 0, 1, 0, 2, 0, 1, 6, 0, 0, 8, 1, 1, 3, 0, 1, 4, 0, 0, 8, 1]>
// CHECK: llvm.func @cuesta_main(
// CHECK: llvm.call @cuesta_dispatch(
// CHECK: llvm.call @aoti_torch_call_dispatcher(
func.func @graph(%x: memref<8xf32>) -> (memref<8xf32>, memref<8xi64>) {
  %r:2 = "host.aten"(%x) {overload = "aten.sort.default", args = "[\"%0\", 0, true]", dtypes = ["f32", "f32", "i64"], reason = "", route = "shim"} : (memref<8xf32>) -> (memref<8xf32>, memref<8xi64>)
  return %r#0, %r#1 : memref<8xf32>, memref<8xi64>
}

// -----

// What MKL has packed is multiplied by MKL itself, on the memory as it lies: no tensor is made of it.
// CHECK: llvm.func @cuesta_main
// CHECK: llvm.call @cuesta_packed_mm(
// CHECK-NOT: aoti_torch_create
// CHECK: llvm.func @cblas_sgemm_compute(i32, i32, i32, i32, i32, i32, !llvm.ptr, i32, !llvm.ptr, i32, f32, !llvm.ptr, i32)
func.func @graph(%a: memref<4x8xf32>, %b: memref<64xf32>) -> memref<4x5xf32> {
  %r = "host.alloc"() {owner = "caller"} : () -> memref<4x5xf32>
  "host.aten"(%a, %b, %r) {overload = "cuesta.packed_mm.default", args = "[\"%0\", \"%1\", 5]", dtypes = ["f32", "f32", "f32"], reason = "", route = "out"} : (memref<4x8xf32>, memref<64xf32>, memref<4x5xf32>) -> ()
  return %r : memref<4x5xf32>
}

// -----

// A tensor whose handle an argument holds: the word names where the handle is, eight bytes on for the second.
// CHECK: llvm.mlir.global external constant {{.*}}(dense<[1, 10, 1, {{.*}}, 6, 1, 0, 2, 6, 1, 8, 3, 2,
// CHECK: llvm.func @cuesta_main
// CHECK: llvm.call @cuesta_dispatch(
func.func @graph(%x: memref<1x4x8x2xf32, strided<[64, 1, 8, 4]>>, %held: memref<2xi64>) -> memref<1x4x8x2xf32, strided<[64, 1, 8, 4]>> {
  %r = "host.aten"(%x, %held) {overload = "cuesta.packed_convolution.default", args = "[\"%0\", \"%1\", true, [4, 4, 3, 3], [1, 1], [1, 1], [1, 1], 1, {\"str\": \"relu\"}, true]", dtypes = ["f32", "i64", "f32"], reason = "", route = "shim"} : (memref<1x4x8x2xf32, strided<[64, 1, 8, 4]>>, memref<2xi64>) -> memref<1x4x8x2xf32, strided<[64, 1, 8, 4]>>
  return %r : memref<1x4x8x2xf32, strided<[64, 1, 8, 4]>>
}
