// RUN: cuesta-opt --pass-pipeline='builtin.module(limit-stack{bytes=1000})' %s | filecheck %s

// The smallest buffers stay on the stack, as long as there is room.
module {
  module @kernels {
    // CHECK-LABEL: func.func @k__tiles(
    // CHECK: memref.alloc() {alignment = 64 : i64} : memref<8x64xf32>
    // CHECK: memref.alloca() {alignment = 64 : i64} : memref<64xf32>
    // CHECK: memref.alloca() {alignment = 64 : i64} : memref<128xf32>
    func.func @k__tiles(%lo: index, %hi: index) {
      %large = memref.alloca() {alignment = 64 : i64} : memref<8x64xf32>
      %small = memref.alloca() {alignment = 64 : i64} : memref<64xf32>
      %middle = memref.alloca() {alignment = 64 : i64} : memref<128xf32>
      return
    }
  }
}
