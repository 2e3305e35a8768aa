// RUN: cuesta-opt --pass-pipeline='builtin.module(kernel-drivers)' %s | filecheck %s

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

    // CHECK-LABEL: llvm.func @big__omp
    // CHECK: llvm.call @big__tiles(%{{.*}}, %{{.*}}, %{{.*}}) : (!llvm.ptr, i64, i64) -> ()
    // CHECK-LABEL: llvm.func @big(
    // CHECK-SAME: %{{.*}}: !llvm.ptr, %{{.*}}: i64)
    // CHECK: llvm.call @GOMP_parallel
    // CHECK: llvm.call @big__tail(%{{.*}}) : (!llvm.ptr) -> ()
    llvm.func @big__tiles(%p: !llvm.ptr, %lo: i64, %hi: i64) attributes {cuesta.tiles = 256 : i64, cuesta.work = 1000000 : i64} {
      llvm.return
    }
    llvm.func @big__tail(%p: !llvm.ptr) {
      llvm.return
    }

    // Too little work for a second thread.
    // CHECK-LABEL: llvm.func @small(
    // CHECK-NOT: GOMP_parallel
    // CHECK: llvm.call @small__tiles
    // CHECK-NEXT: llvm.return
    llvm.func @small__tiles(%p: !llvm.ptr, %lo: i64, %hi: i64) attributes {cuesta.tiles = 4 : i64, cuesta.work = 100 : i64} {
      llvm.return
    }
  }
}
