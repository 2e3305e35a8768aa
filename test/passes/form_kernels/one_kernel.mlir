// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(decompose,cuesta-to-linalg,form-kernels)' %s | filecheck %s

// A softmax: two reductions, what stands between them and what follows, tiled over rows.
// CHECK: module @kernels
// CHECK-NEXT: func.func @[[NAME:.*]](%{{.*}}: tensor<12x256xf32>, %{{.*}}: tensor<12x256xf32> {bufferization.writable = true})
// CHECK-SAME: cuesta.parallel = [0], cuesta.sizes = [12, 256]
// CHECK-COUNT-5: linalg.generic
// CHECK-NOT: func.func @{{[^g]}}
// CHECK: func.func @graph
// CHECK-COUNT-1: "host.launch"
// CHECK-NOT: "host.launch"
// CHECK: return
func.func @graph(%x: tensor<12x256xf32> {cuesta.strides = [256, 1]}) -> (tensor<12x256xf32> {cuesta.strides = [256, 1]}) {
  %0 = "cuesta.softmax"(%x) {dim = 1, safe = 0} : (tensor<12x256xf32>) -> tensor<12x256xf32> loc("softmax"("m.py":1:1))
  return %0 : tensor<12x256xf32>
}

// CHECK: // -----
// -----

// A layer norm with its residual, of which somebody reads the statistics.
// CHECK: module @kernels
// CHECK: cuesta.parallel = [0]
// CHECK: func.func @graph
// CHECK-COUNT-1: "host.launch"{{.*}}outputs = 3
// CHECK-NOT: "host.launch"
// CHECK: return
func.func @graph(%x: tensor<64x768xf32> {cuesta.strides = [768, 1]}, %y: tensor<64x768xf32> {cuesta.strides = [768, 1]},
                 %w: tensor<768xf32> {cuesta.strides = [1]}, %b: tensor<768xf32> {cuesta.strides = [1]})
    -> (tensor<64x768xf32> {cuesta.strides = [768, 1]}, tensor<64x1xf32> {cuesta.strides = [1, 1]},
        tensor<64x1xf32> {cuesta.strides = [1, 1]}) {
  %0 = "cuesta.add"(%x, %y) : (tensor<64x768xf32>, tensor<64x768xf32>) -> tensor<64x768xf32>
  %1:3 = "cuesta.layer_norm"(%0, %w, %b) {rank = 1, eps = 1.0e-5}
    : (tensor<64x768xf32>, tensor<768xf32>, tensor<768xf32>) -> (tensor<64x768xf32>, tensor<64x1xf32>, tensor<64x1xf32>)
  return %1#0, %1#1, %1#2 : tensor<64x768xf32>, tensor<64x1xf32>, tensor<64x1xf32>
}

// CHECK: // -----
// -----

// Siblings read one tensor once.
// CHECK: func.func @graph(%[[X:.*]]: memref<64x64xf32>
// CHECK: "host.launch"(%[[X]], %{{.*}}, %{{.*}}) {{.*}}outputs = 2
// CHECK-NOT: "host.launch"
// CHECK: return
func.func @graph(%x: tensor<64x64xf32> {cuesta.strides = [64, 1]})
    -> (tensor<64x64xf32> {cuesta.strides = [64, 1]}, tensor<64xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "cuesta.amax"(%x) {dims = [1], keepdim = 0} : (tensor<64x64xf32>) -> tensor<64xf32>
  return %0, %1 : tensor<64x64xf32>, tensor<64xf32>
}

// CHECK: // -----
// -----

// Two launches of one function on other buffers are one kernel.
// CHECK: module @kernels
// CHECK-NEXT: func.func @[[GELU:.*]](%{{.*}}: tensor<4096xf32>, %{{.*}}: tensor<4096xf32>
// CHECK: return
// CHECK-NOT: func.func @[[GELU]]_2
// CHECK: func.func @graph
// CHECK-COUNT-2: "host.launch"(%{{.*}}) {kernel = @kernels::@[[GELU]],
// CHECK-NOT: "host.launch"
// CHECK: return
func.func @graph(%x: tensor<64x64xf32> {cuesta.strides = [64, 1]}, %y: tensor<4096xf32> {cuesta.strides = [1]})
    -> (tensor<64x64xf32> {cuesta.strides = [64, 1]}, tensor<4096xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.gelu"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("gelu"("m.py":1:1))
  %1 = "cuesta.gelu"(%y) : (tensor<4096xf32>) -> tensor<4096xf32> loc("gelu_1"("m.py":2:1))
  return %0, %1 : tensor<64x64xf32>, tensor<4096xf32>
}
