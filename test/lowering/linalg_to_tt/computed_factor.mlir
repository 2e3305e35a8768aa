// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// The gradient of queries under a causal mask: a factor of two products, which is 0 where the mask hides it. Both left
// factors are loaded once. A loop goes along the keys that all of the block's queries see, and one along the others.
// CHECK-LABEL: "tt.func"
// CHECK: %[[Q:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<64x32xbf16>
// CHECK: %[[G:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<64x32xbf16>
// CHECK: %[[WITHIN:.*]] = scf.for %{{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> (tensor<64x32xf32>)
// CHECK-NOT: arith.cmpi sge
// CHECK: %[[SUMS:.*]] = scf.for %{{.*}} iter_args(%[[ACC:.*]] = %[[WITHIN]])
// CHECK: "tt.dot"(%[[Q]], %{{.*}} -> tensor<64x32xf32>
// CHECK: arith.cmpi sge
// CHECK: math.exp
// CHECK: "tt.dot"(%[[G]], %{{.*}} -> tensor<64x32xf32>
// CHECK: %[[F:.*]] = arith.truncf %{{.*}} : tensor<64x32xf32> to tensor<64x32xbf16>
// CHECK: "tt.dot"(%[[F]], %{{.*}}, %[[ACC]])
// CHECK: "tt.store"
// CHECK: cuesta.grid = [16, 1, 1]
// CHECK-NOT: "tt.func"
func.func @graph(%q: tensor<4x256x32xbf16> {cuesta.strides = [8192, 32, 1]}, %k: tensor<4x256x32xbf16> {cuesta.strides = [8192, 32, 1]}, %v: tensor<4x256x32xbf16> {cuesta.strides = [8192, 32, 1]}, %g: tensor<4x256x32xbf16> {cuesta.strides = [8192, 32, 1]}, %l: tensor<4x256x1xf32> {cuesta.strides = [256, 1, 1]}) -> (tensor<4x256x32xf32> {cuesta.strides = [8192, 32, 1]}) {
  %0 = "cuesta.permute"(%k) {dims = [0, 2, 1]} : (tensor<4x256x32xbf16>) -> tensor<4x32x256xbf16>
  %1 = "cuesta.mm"(%q, %0) {product = "64x32x32/4/2"} : (tensor<4x256x32xbf16>, tensor<4x32x256xbf16>) -> tensor<4x256x256xf32>
  %at = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<256xi32>
  %i = "cuesta.reshape"(%at) : (tensor<256xi32>) -> tensor<256x1xi32>
  %2 = "cuesta.ge"(%i, %at) : (tensor<256x1xi32>, tensor<256xi32>) -> tensor<256x256xi1>
  %3 = "cuesta.constant"() {value = 0xFFF0000000000000 : f64} : () -> tensor<f32>
  %4 = "cuesta.where"(%2, %1, %3) : (tensor<256x256xi1>, tensor<4x256x256xf32>, tensor<f32>) -> tensor<4x256x256xf32>
  %5 = "cuesta.sub"(%4, %l) : (tensor<4x256x256xf32>, tensor<4x256x1xf32>) -> tensor<4x256x256xf32>
  %6 = "cuesta.exp"(%5) : (tensor<4x256x256xf32>) -> tensor<4x256x256xf32>
  %7 = "cuesta.permute"(%v) {dims = [0, 2, 1]} : (tensor<4x256x32xbf16>) -> tensor<4x32x256xbf16>
  %8 = "cuesta.mm"(%g, %7) {product = "64x32x32/4/2"} : (tensor<4x256x32xbf16>, tensor<4x32x256xbf16>) -> tensor<4x256x256xf32>
  %9 = "cuesta.mul"(%6, %8) : (tensor<4x256x256xf32>, tensor<4x256x256xf32>) -> tensor<4x256x256xf32>
  %10 = "cuesta.convert"(%9) : (tensor<4x256x256xf32>) -> tensor<4x256x256xbf16>
  %11 = "cuesta.mm"(%10, %k) {product = "64x32x32/4/2", computed} : (tensor<4x256x256xbf16>, tensor<4x256x32xbf16>) -> tensor<4x256x32xf32>
  return %11 : tensor<4x256x32xf32>
}
