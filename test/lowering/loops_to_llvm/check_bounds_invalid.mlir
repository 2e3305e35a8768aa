// RUN: cuesta-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(check-bounds)' %s

// Nothing goes unchecked: what the pass does not know is an error.
module {
  module @kernels {
    llvm.func @k__tail(%x: !llvm.ptr, %y: !llvm.ptr) {
      %n = llvm.mlir.constant(64 : i64) : i64
      // expected-error @+1 {{check-bounds does not know what llvm.intr.memcpy does to memory}}
      "llvm.intr.memcpy"(%x, %y, %n) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
      llvm.return
    }
  }
}

// -----

module {
  module @kernels {
    llvm.func @k__tail(%x: !llvm.ptr) {
      // expected-error @+1 {{check-bounds does not know the memory of a pointer that is a result of llvm.load}}
      %p = llvm.load %x : !llvm.ptr -> !llvm.ptr
      %v = llvm.load %p : !llvm.ptr -> f32
      llvm.return
    }
  }
}

// -----

module {
  module @kernels {
    llvm.func @elsewhere(!llvm.ptr)
    llvm.func @k__tail(%x: !llvm.ptr) {
      // expected-error @+1 {{check-bounds does not know what a call of @elsewhere does to memory}}
      llvm.call @elsewhere(%x) : (!llvm.ptr) -> ()
      llvm.return
    }
  }
}
