// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// The gradients of keys and values: two products of the same rows, whose factors have a product in common, are one
// kernel, with one loop and three products of blocks for the factors. Queries and gradients are loaded once, and
// multiplied as rows and as columns.
// CHECK-LABEL: "tt.func"
// CHECK: %[[K:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<64x32xbf16>
// CHECK: %[[V:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<64x32xbf16>
// CHECK: %[[SUMS:.*]]:2 = scf.for %{{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (tensor<64x32xf32>, tensor<64x32xf32>)
// CHECK: %[[Q:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<32x64xbf16>
// CHECK: %[[S:.*]] = "tt.dot"(%[[K]], %[[Q]], %{{.*}}) {{.*}} -> tensor<64x64xf32>
// CHECK: math.exp %{{.*}} : tensor<64x64xf32>
// CHECK: %[[G:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<32x64xbf16>
// CHECK: "tt.dot"(%[[V]], %[[G]], %{{.*}}) {{.*}} -> tensor<64x64xf32>
// CHECK: %[[QT:.*]] = "tt.trans"(%[[Q]])
// CHECK: "tt.dot"(%{{.*}}, %[[QT]], %{{.*}}) {{.*}} -> tensor<64x32xf32>
// CHECK: %[[GT:.*]] = "tt.trans"(%[[G]])
// CHECK: "tt.dot"(%{{.*}}, %[[GT]], %{{.*}}) {{.*}} -> tensor<64x32xf32>
// CHECK-NOT: "tt.dot"
// CHECK: scf.yield
// CHECK-COUNT-2: "tt.store"
// CHECK: cuesta.grid = [16, 1, 1]
// CHECK-NOT: "tt.func"
func.func @graph(%q: tensor<4x256x32xbf16> {cuesta.strides = [8192, 32, 1]}, %k: tensor<4x256x32xbf16> {cuesta.strides = [8192, 32, 1]}, %v: tensor<4x256x32xbf16> {cuesta.strides = [8192, 32, 1]}, %g: tensor<4x256x32xbf16> {cuesta.strides = [8192, 32, 1]}, %l: tensor<4x1x256xf32> {cuesta.strides = [256, 256, 1]}) -> (tensor<4x256x32xf32>, tensor<4x256x32xf32>) {
  %0 = "cuesta.permute"(%q) {dims = [0, 2, 1]} : (tensor<4x256x32xbf16>) -> tensor<4x32x256xbf16>
  %1 = "cuesta.mm"(%k, %0) {product = "64x64x32/4/2"} : (tensor<4x256x32xbf16>, tensor<4x32x256xbf16>) -> tensor<4x256x256xf32>
  %2 = "cuesta.sub"(%1, %l) : (tensor<4x256x256xf32>, tensor<4x1x256xf32>) -> tensor<4x256x256xf32>
  %3 = "cuesta.exp"(%2) : (tensor<4x256x256xf32>) -> tensor<4x256x256xf32>
  %4 = "cuesta.permute"(%g) {dims = [0, 2, 1]} : (tensor<4x256x32xbf16>) -> tensor<4x32x256xbf16>
  %5 = "cuesta.mm"(%v, %4) {product = "64x64x32/4/2"} : (tensor<4x256x32xbf16>, tensor<4x32x256xbf16>) -> tensor<4x256x256xf32>
  %6 = "cuesta.mul"(%3, %5) : (tensor<4x256x256xf32>, tensor<4x256x256xf32>) -> tensor<4x256x256xf32>
  %7 = "cuesta.convert"(%6) : (tensor<4x256x256xf32>) -> tensor<4x256x256xbf16>
  %8 = "cuesta.mm"(%7, %q) {product = "64x32x64/4/2", computed} : (tensor<4x256x256xbf16>, tensor<4x256x32xbf16>) -> tensor<4x256x32xf32>
  %9 = "cuesta.mm"(%k, %0) {product = "64x64x32/4/2", cuesta.part = 1 : i64} : (tensor<4x256x32xbf16>, tensor<4x32x256xbf16>) -> tensor<4x256x256xf32>
  %10 = "cuesta.sub"(%9, %l) : (tensor<4x256x256xf32>, tensor<4x1x256xf32>) -> tensor<4x256x256xf32>
  %11 = "cuesta.exp"(%10) : (tensor<4x256x256xf32>) -> tensor<4x256x256xf32>
  %12 = "cuesta.convert"(%11) : (tensor<4x256x256xf32>) -> tensor<4x256x256xbf16>
  %13 = "cuesta.mm"(%12, %g) {product = "64x32x64/4/2", computed} : (tensor<4x256x256xbf16>, tensor<4x256x32xbf16>) -> tensor<4x256x32xf32>
  return %8, %13 : tensor<4x256x32xf32>, tensor<4x256x32xf32>
}
