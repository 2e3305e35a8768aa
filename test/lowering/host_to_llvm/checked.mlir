// RUN: cuesta-opt --pass-pipeline='builtin.module(host-to-llvm)' %s | filecheck %s

// A checked kernel is passed, behind its buffers, where it records an access outside: a word of the frame, whose address
// is the word before it; then the bytes of its buffers, then its sizes. After each launch the program looks at it.
// CHECK: @[[LAUNCH:table_[0-9]+]](dense<[3, 3, 1, 0, 2, 0, 0, 6, 0, -1, 0, 64, 256, 7]>
// CHECK: @[[BOUNDS:table_[0-9]+]](dense<[1, -1, 0, 2]>
// CHECK: llvm.func @cuesta_main(
// CHECK: %[[WORDS:.*]] = llvm.mlir.constant(2 : i64) : i64
// CHECK: %[[FRAME:.*]] = llvm.alloca %[[WORDS]] x i64
// CHECK: %[[ADDRESS:.*]] = llvm.getelementptr %[[FRAME]][0]
// CHECK: %[[RECORD:.*]] = llvm.getelementptr %[[FRAME]][1]
// CHECK: llvm.store %[[RECORD]], %[[ADDRESS]]
// CHECK: llvm.store %{{.*}}, %[[RECORD]] : i64
// CHECK: llvm.call @cuesta_run(
// CHECK: %[[TABLE:.*]] = llvm.mlir.addressof @[[BOUNDS]]
// CHECK: %[[CODE:.*]] = llvm.call @cuesta_bounds(%{{.*}}, %[[FRAME]], %[[TABLE]])
// CHECK: llvm.cond_br %{{.*}}, ^{{.*}}, ^{{.*}}(%[[CODE]] : i32)
module attributes {cuesta.checked} {
  module @kernels {
    llvm.func @k__tiles(%x: !llvm.ptr, %y: !llvm.ptr, %record: !llvm.ptr, %xs: i64, %ys: i64, %n: i64, %lo: i64, %hi: i64) attributes {cuesta.tiles = 1 : i64, cuesta.work = 100 : i64} { llvm.return }
  }
  func.func @graph(%x: memref<16xf32>) -> memref<64xf32> {
    %y = "host.alloc"() {owner = "caller"} : () -> memref<64xf32>
    "host.launch"(%x, %y) {kernel = @kernels::@k, outputs = 1, parameters = [7], extents = [64, 256]} : (memref<16xf32>, memref<64xf32>) -> ()
    return %y : memref<64xf32>
  }
}
