// RUN: cuesta-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(host-to-llvm)' %s

module {
  module @kernels {
    llvm.func @k__tail(%x: !llvm.ptr) { llvm.return }
  }
  func.func @graph(%a: memref<4xf32>) -> memref<4xf32> {
    // expected-error@+1 {{kernel @k takes 1 buffers, not 2 buffers}}
    "host.launch"(%a, %a) {kernel = @kernels::@k, outputs = 1} : (memref<4xf32>, memref<4xf32>) -> ()
    return %a : memref<4xf32>
  }
}

// -----

func.func @graph(%a: memref<4xf32>) -> memref<4xf32> {
  // expected-error@+1 {{kernel @absent does not exist}}
  "host.launch"(%a) {kernel = @kernels::@absent, outputs = 1} : (memref<4xf32>) -> ()
  return %a : memref<4xf32>
}

// -----

func.func @graph(%a: memref<4xf32>) -> memref<4xf32> {
  // expected-error@+1 {{aten.leaky_relu.default cannot be called}}
  %r = "host.aten"(%a) {overload = "aten.leaky_relu.default", args = "[\"%0\", 0.5]", dtypes = ["f32", "f32"], reason = "", route = "shim"} : (memref<4xf32>) -> memref<4xf32>
  return %r : memref<4xf32>
}
