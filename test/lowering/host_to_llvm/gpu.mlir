// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(host-to-llvm)' %s | filecheck %s

// A launch on a GPU: step, kernel, buffers, sizes, slot of the stream, programs, whether it overlaps, the
// buffers. The kernel itself is gone, and nobody waits for the byte of a check. Tensors are on device 1 (CUDA), its second one.
// CHECK-NOT: @kernels
// CHECK-DAG: dense<[1, 0, 2, 0, 3, -1, 1, 0, 0, 7, 0]>
// CHECK-DAG: dense<[2, 0, 0, 9, 2, 6, 1, 1, 4, 8, 8, 1, 1, 0, 11, 2, 6, 1, 1, 8, 4, 4, 1, 8, 0, 13, 2, 6, 1, 1, 4, 4, 4, 1]>
// CHECK: llvm.func @cuesta_mm_out(
// CHECK: llvm.call @aoti_torch_cuda_mm_out(
// CHECK: llvm.func @cuesta_main(%[[SLOTS:.*]]: !llvm.ptr) -> i32
// CHECK: llvm.call @cuesta_launch(%[[SLOTS]],
// CHECK-NOT: @cuesta_check
// CHECK: llvm.call @cuesta_mm_out(%[[SLOTS]],
// CHECK: llvm.func @cuesta_launch(
// CHECK: %[[TABLE:.*]] = llvm.mlir.addressof @cuesta_kernels
// CHECK: llvm.call @cuLaunchKernelEx(
// CHECK: llvm.call @cuCtxSetCurrent(
// CHECK: llvm.call @cuLaunchKernelEx(
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:1"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>):
      "tt.return"() : () -> ()
    }) {sym_name = "exp", function_type = (!tt.ptr<f32>, !tt.ptr<f32>) -> (), arg_attrs = [{}, {}]} : () -> ()
  }
  func.func @graph(%a: memref<4x8xf32>, %b: memref<8x4xf32>) -> (memref<4x8xf32>, memref<4x4xf32>) {
    %e = "host.alloc"() {owner = "caller"} : () -> memref<4x8xf32>
    %m = "host.alloc"() {owner = "caller"} : () -> memref<4x4xf32>
    "host.launch"(%a, %e) {kernel = @kernels::@exp, outputs = 1, overlaps} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
    %byte = "host.view"(%e) {offset = 0} : (memref<4x8xf32>) -> memref<i8>
    "host.check"(%byte) {message = "index out of range"} : (memref<i8>) -> ()
    "host.aten"(%a, %b, %m) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", dtypes = ["f32", "f32", "f32"], reason = "", route = "out"} : (memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>) -> ()
    return %e, %m : memref<4x8xf32>, memref<4x4xf32>
  }
}

// -----

// What is on the CPU in a program for a GPU: an argument (word 0 of its device), and the result of a call, which is
// on the CPU as well as what is given back of it.
// CHECK: dense<[1, 3, 1, 7, 9, 10, 24, {{.*}}, 0, 1, 0, 0, 7, 1, 6, 0, 0, 2, 1, 0, 0, 0, 0, 0, 1, 0, 1, 6, 0, 0, 2, 1]>
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
  func.func @graph(%s: memref<2xf32>) -> memref<2xf32> attributes {arg_attrs = [{cuesta.device = "cpu"}]} {
    %r = "host.aten"(%s) {overload = "aten.cumsum.default", args = "[\"%0\", 0]", device = "cpu", dtypes = ["f32", "f32"], reason = "", route = "shim"} : (memref<2xf32>) -> memref<2xf32>
    return %r : memref<2xf32>
  }
}

// -----

// Sizes: 2 of them, behind the buffers; g0 is how many programs they make. All is filled in for each set of sizes.
// CHECK: module attributes {{.*}}cuesta.words = [1, 0, 2, 2, 2, "g0", 0, 0, 0, 6, 0, "s0", "8*s0", 
// CHECK: llvm.func @cuesta_launch(
// CHECK: %[[NONE:.*]] = llvm.icmp "eq" %{{.*}}, %{{.*}} : i64
// CHECK-NEXT: llvm.cond_br %[[NONE]], ^[[END:.*]](%{{.*}} : i32), ^
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
  func.func @graph(%a: memref<?x8xf32, {at = ["s0"]}>) -> memref<?x8xf32, {at = ["s0"]}> {
    %e = "host.alloc"() {owner = "caller"} : () -> memref<?x8xf32, {at = ["s0"]}>
    "host.launch"(%a, %e) {kernel = @kernels::@exp, outputs = 1, parameters = ["s0", "8*s0"]} : (memref<?x8xf32, {at = ["s0"]}>, memref<?x8xf32, {at = ["s0"]}>) -> ()
    return %e : memref<?x8xf32, {at = ["s0"]}>
  }
}

// -----

// Two versions of a kernel, of which the sizes choose one: k0 is its number, g0 how many programs it makes.
// CHECK: module attributes {{.*}}cuesta.words = [1, "k0", 2, 1, 2, "g0", 0, 0, 0, 6, 0, "s0", 
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
  func.func @graph(%a: memref<?xf32, {at = ["s0"]}>) -> memref<?xf32, {at = ["s0"]}> {
    %e = "host.alloc"() {owner = "caller"} : () -> memref<?xf32, {at = ["s0"]}>
    "host.launch"(%a, %e) {kernel = @kernels::@exp, otherwise = [@kernels::@exp__any], unless = [["(s0 % 16)"]], outputs = 1, parameters = ["s0"]} : (memref<?xf32, {at = ["s0"]}>, memref<?xf32, {at = ["s0"]}>) -> ()
    return %e : memref<?xf32, {at = ["s0"]}>
  }
}
