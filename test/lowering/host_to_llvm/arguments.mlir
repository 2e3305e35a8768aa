// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(host-to-llvm)' %s | filecheck %s

// Before anything else a program checks its arguments by a table: how many they are, the slot of the list of them, then
// for each its place in the list, 0, the mask of its address (an f32 begins at a multiple of 4 bytes), its rank, dtype,
// device, sizes and strides. Nothing runs where one does not fit.
// CHECK: llvm.mlir.global external constant @[[TABLE:table_[0-9]+]](dense<[2, 6, 0, 0, 3, 2, 6, 0, 0, 4, 8, 8, 1, 1, 0, 7, 1, 4, 0, 0, 3, 2]>
// CHECK: llvm.func @cuesta_check_arguments(%[[SLOTS:.*]]: !llvm.ptr) -> i32
// CHECK: %[[WORDS:.*]] = llvm.mlir.addressof @[[TABLE]]
// CHECK: %[[CODE:.*]] = llvm.call @cuesta_all_fit(%[[SLOTS]], %[[WORDS]])
// CHECK-NEXT: %[[FIT:.*]] = llvm.icmp "eq" %[[CODE]], %[[GOOD:.*]] : i32
// CHECK-NEXT: %[[RESULT:.*]] = llvm.select %[[FIT]], %[[GOOD]], %{{.*}} : i1, i32
// CHECK-NEXT: llvm.return %[[RESULT]]
// CHECK: llvm.func @cuesta_main(%[[SLOTS:.*]]: !llvm.ptr) -> i32
// CHECK: %[[CODE:.*]] = llvm.call @cuesta_check_arguments(%[[SLOTS]])
// CHECK-NEXT: %[[FIT:.*]] = llvm.icmp "eq" %[[CODE]],
// CHECK-NEXT: llvm.cond_br %[[FIT]], ^[[ON:.*]], ^[[EARLY:.*]]
// CHECK-NEXT: ^[[EARLY]]:
// CHECK-NEXT: llvm.return %[[CODE]]
// CHECK-NEXT: ^[[ON]]:
func.func @graph(%x: memref<4x8xf32>, %y: memref<3xi64, strided<[2]>>) -> memref<4x8xf32> {
  return %x : memref<4x8xf32>
}

// -----

// An argument that the program gives back is no more in the list, but a handle in slot 7 (-1 - 7). What a kernel of a
// GPU reads begins at a multiple of 16 bytes.
// CHECK: dense<[1, 5, -8, 0, 15, 1, 6, 1, 0, 64, 1]>
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
  func.func @graph(%x: memref<64xf32>) -> memref<64xf32> attributes {arg_attrs = [{cuesta.donated}]} {
    %r = "host.alloc"() {owner = "caller"} : () -> memref<64xf32>
    "host.launch"(%x, %r) {kernel = @kernels::@exp, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
    "host.free"(%x) : (memref<64xf32>) -> ()
    return %r : memref<64xf32>
  }
}

// -----

// A program without arguments has nothing to check.
// CHECK: {{^// -----}}
// CHECK-NOT: cuesta_check_arguments
func.func @graph() -> memref<64xf32> {
  %r = "host.alloc"() {owner = "torch"} : () -> memref<64xf32>
  return %r : memref<64xf32>
}
