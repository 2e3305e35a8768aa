// RUN: cuesta-opt --pass-pipeline='builtin.module(annotate-kernels)' %s | filecheck %s

module {
  module @kernels {
    // What a loop was annotated with is the branch's own, which is what LLVM is told of.
    // CHECK-LABEL: llvm.func @endless__tiles(
    // CHECK: llvm.br ^bb1 {loop_annotation = #{{.*}}}
    llvm.func @endless__tiles(%p: !llvm.ptr, %lo: i64, %hi: i64) attributes {cuesta.tiles = 4 : i64, cuesta.work = 100 : i64} {
      llvm.br ^loop
    ^loop:
      llvm.br ^loop {llvm.loop_annotation = #llvm.loop_annotation<vectorize = <disable = true>>}
    }

    // CHECK-LABEL: llvm.func @big__tail(
    // CHECK-SAME: passthrough = ["noinline", "no-builtin-memcpy", ["prefer-vector-width", "512"]]
    llvm.func @big__tail(%p: !llvm.ptr) {
      llvm.return
    }

    // Other functions are LLVM's to inline.
    // CHECK-LABEL: llvm.func @other(
    // CHECK-NOT: passthrough
    llvm.func @other(%p: !llvm.ptr) {
      llvm.return
    }
  }
}
