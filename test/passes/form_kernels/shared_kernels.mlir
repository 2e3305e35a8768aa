// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels)' %s | filecheck %s

// What is done to four sizes is one kernel, which is passed its size. A fifth that does not fill vectors has its own.
// CHECK: func.func @exp(%{{[^:]*}}: tensor<?xf32> {cuesta.bound =
// CHECK-SAME: %{{[^:]*}}: index
// CHECK-SAME: cuesta.sizes = ["p0"]
// CHECK: func.func @exp_5(%{{[^:]*}}: tensor<100xf32>
// CHECK-NOT: func.func @exp
// CHECK: func.func @graph
// CHECK: kernel = @kernels::@exp, {{.*}}parameters = [64]
// CHECK: kernel = @kernels::@exp, {{.*}}parameters = [96]
// CHECK: kernel = @kernels::@exp, {{.*}}parameters = [128]
// CHECK: kernel = @kernels::@exp, {{.*}}parameters = [160]
// CHECK: kernel = @kernels::@exp_5, ops = ["exp"], outputs = 1 : i64}
func.func @graph(
    %a: tensor<64xf32> {cuesta.strides = [1]}, %b: tensor<96xf32> {cuesta.strides = [1]},
    %c: tensor<128xf32> {cuesta.strides = [1]}, %d: tensor<160xf32> {cuesta.strides = [1]},
    %e: tensor<100xf32> {cuesta.strides = [1]}
) -> (tensor<64xf32> {cuesta.strides = [1]}, tensor<96xf32> {cuesta.strides = [1]},
      tensor<128xf32> {cuesta.strides = [1]}, tensor<160xf32> {cuesta.strides = [1]},
      tensor<100xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.exp"(%a) : (tensor<64xf32>) -> tensor<64xf32> loc("exp")
  %1 = "cuesta.exp"(%b) : (tensor<96xf32>) -> tensor<96xf32> loc("exp")
  %2 = "cuesta.exp"(%c) : (tensor<128xf32>) -> tensor<128xf32> loc("exp")
  %3 = "cuesta.exp"(%d) : (tensor<160xf32>) -> tensor<160xf32> loc("exp")
  %4 = "cuesta.exp"(%e) : (tensor<100xf32>) -> tensor<100xf32> loc("exp")
  return %0, %1, %2, %3, %4 : tensor<64xf32>, tensor<96xf32>, tensor<128xf32>, tensor<160xf32>, tensor<100xf32>
}

// -----

// Of three kernels each has its own.
// CHECK-COUNT-3: func.func @exp{{.*}} cuesta.sizes = [{{[0-9]+}}]
// CHECK-NOT: parameters
func.func @graph(
    %a: tensor<64xf32> {cuesta.strides = [1]}, %b: tensor<96xf32> {cuesta.strides = [1]},
    %c: tensor<128xf32> {cuesta.strides = [1]}
) -> (tensor<64xf32> {cuesta.strides = [1]}, tensor<96xf32> {cuesta.strides = [1]}, tensor<128xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.exp"(%a) : (tensor<64xf32>) -> tensor<64xf32> loc("exp")
  %1 = "cuesta.exp"(%b) : (tensor<96xf32>) -> tensor<96xf32> loc("exp")
  %2 = "cuesta.exp"(%c) : (tensor<128xf32>) -> tensor<128xf32> loc("exp")
  return %0, %1, %2 : tensor<64xf32>, tensor<96xf32>, tensor<128xf32>
}

// -----

// Products that sum over other lengths are one, which has at most as much of them at a time as the deepest.
// CHECK: func.func @mm(%{{[^:]*}}: tensor<64x?xf32> {{{.*}}}, %{{[^:]*}}: tensor<?x64xf32>
// CHECK-SAME: cuesta.sizes = [64, "p0", 64]
// CHECK: cuesta.product_tile = "64x64x208 by 8x48"
// CHECK-NOT: func.func @mm
func.func @graph(
    %a64: tensor<64x64xf32> {cuesta.strides = [64, 1]}, %b64: tensor<64x64xf32> {cuesta.strides = [64, 1]},
    %a96: tensor<64x96xf32> {cuesta.strides = [96, 1]}, %b96: tensor<96x64xf32> {cuesta.strides = [64, 1]},
    %a128: tensor<64x128xf32> {cuesta.strides = [128, 1]}, %b128: tensor<128x64xf32> {cuesta.strides = [64, 1]},
    %a416: tensor<64x416xf32> {cuesta.strides = [416, 1]}, %b416: tensor<416x64xf32> {cuesta.strides = [64, 1]}
) -> (tensor<64x64xf32> {cuesta.strides = [64, 1]},
      tensor<64x64xf32> {cuesta.strides = [64, 1]},
      tensor<64x64xf32> {cuesta.strides = [64, 1]},
      tensor<64x64xf32> {cuesta.strides = [64, 1]}) {
  %0 = "cuesta.mm"(%a64, %b64) {product = "64x64x64 by 8x48"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("mm")
  %1 = "cuesta.mm"(%a96, %b96) {product = "64x64x96 by 8x48"} : (tensor<64x96xf32>, tensor<96x64xf32>) -> tensor<64x64xf32> loc("mm")
  %2 = "cuesta.mm"(%a128, %b128) {product = "64x64x128 by 8x48"} : (tensor<64x128xf32>, tensor<128x64xf32>) -> tensor<64x64xf32> loc("mm")
  %3 = "cuesta.mm"(%a416, %b416) {product = "64x64x208 by 8x48"} : (tensor<64x416xf32>, tensor<416x64xf32>) -> tensor<64x64xf32> loc("mm")
  return %0, %1, %2, %3 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}
