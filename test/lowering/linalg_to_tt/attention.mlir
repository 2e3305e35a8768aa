// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// Scores, what hides some of them, their softmax and its product: one kernel. q is loaded once. The keys that all of the
// block's queries see have a loop without comparisons, between two for the first and last keys that some query sees.
// CHECK-LABEL: "tt.func"
// CHECK: %[[Q:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<64x32xbf16>
// CHECK: %[[BEFORE:.*]]:3 = scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[PEAK:.*]] = %{{.*}}, %[[TOTAL:.*]] = %{{.*}})
// CHECK: %[[K:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<32x32xbf16>
// CHECK: %[[S:.*]] = "tt.dot"(%[[Q]], %[[K]], %{{.*}})
// CHECK: %[[SEEN:.*]] = arith.select %{{.*}} : tensor<64x32xi1>, tensor<64x32xf32>
// CHECK: %[[V:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<32x32xbf16>
// CHECK: "tt.reduce"(%[[SEEN]])
// CHECK: %[[NEW:.*]] = arith.maxnumf %[[PEAK]], %{{.*}} : tensor<64x1xf32>
// CHECK: math.exp %{{.*}} : tensor<64x32xf32>
// CHECK: %[[SHARE:.*]] = math.exp %{{.*}} : tensor<64x1xf32>
// CHECK: %[[SHRUNK:.*]] = arith.mulf %[[ACC]]
// CHECK: "tt.dot"(%{{.*}}, %[[V]], %[[SHRUNK]])
// CHECK: arith.mulf %[[TOTAL]], %[[SHARE]]
// CHECK: %[[WITHIN:.*]]:3 = scf.for %{{.*}} iter_args(%{{.*}} = %[[BEFORE]]#0,
// CHECK-NOT: arith.cmpi s{{ge|lt}}
// CHECK: %[[SUMS:.*]]:3 = scf.for %{{.*}} iter_args(%{{.*}} = %[[WITHIN]]#0,
// CHECK: arith.cmpi sge
// CHECK: math.log %[[SUMS]]#2
// CHECK: arith.divf %[[SUMS]]#0
// CHECK-COUNT-2: "tt.store"
// CHECK: cuesta.grid = [16, 1, 1]
// CHECK-NOT: "tt.func"
func.func @graph(%q: tensor<4x256x32xbf16> {cuesta.strides = [8192, 32, 1]}, %k: tensor<4x256x32xbf16> {cuesta.strides = [8192, 32, 1]}, %v: tensor<4x256x32xbf16> {cuesta.strides = [8192, 32, 1]}) -> (tensor<4x256x32xf32> {cuesta.strides = [8192, 32, 1]}, tensor<4x256xf32> {cuesta.strides = [256, 1]}) {
  %0 = "cuesta.permute"(%k) {dims = [0, 2, 1]} : (tensor<4x256x32xbf16>) -> tensor<4x32x256xbf16>
  %1 = "cuesta.mm"(%q, %0) {product = "64x32x32/4/3"} : (tensor<4x256x32xbf16>, tensor<4x32x256xbf16>) -> tensor<4x256x256xf32>
  %at = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<256xi32>
  %i = "cuesta.reshape"(%at) : (tensor<256xi32>) -> tensor<256x1xi32>
  %width = "cuesta.constant"() {value = 50 : i64} : () -> tensor<i32>
  %far = "cuesta.sub"(%i, %at) : (tensor<256x1xi32>, tensor<256xi32>) -> tensor<256x256xi32>
  %2 = "cuesta.ge"(%i, %at) : (tensor<256x1xi32>, tensor<256xi32>) -> tensor<256x256xi1>
  %3 = "cuesta.lt"(%far, %width) : (tensor<256x256xi32>, tensor<i32>) -> tensor<256x256xi1>
  %4 = "cuesta.bitwise_and"(%2, %3) : (tensor<256x256xi1>, tensor<256x256xi1>) -> tensor<256x256xi1>
  %5 = "cuesta.constant"() {value = 0xFFF0000000000000 : f64} : () -> tensor<f32>
  %6 = "cuesta.where"(%4, %1, %5) : (tensor<256x256xi1>, tensor<4x256x256xf32>, tensor<f32>) -> tensor<4x256x256xf32>
  %7:2 = "cuesta.softmax_mm"(%6, %v) {product = "64x32x32/4/3", safe = 1} : (tensor<4x256x256xf32>, tensor<4x256x32xbf16>) -> (tensor<4x256x32xf32>, tensor<4x256xf32>)
  return %7#0, %7#1 : tensor<4x256x32xf32>, tensor<4x256xf32>
}

// -----
// Scores from memory: their softmax and its product, with the same loop over all keys. Beyond the last key they are -inf.
// CHECK-LABEL: "tt.func"
// CHECK: scf.for
// CHECK: "tt.load"(%{{.*}}) {{.*}} -> tensor<16x32xf32>
// CHECK: arith.constant dense<0xFF800000> : tensor<16x32xf32>
// CHECK: arith.select
// CHECK: "tt.dot"
// CHECK: "tt.store"
// CHECK-NOT: "tt.store"
// CHECK-NOT: "tt.func"
func.func @graph(%s: tensor<4x20x70xf32> {cuesta.strides = [1400, 70, 1]}, %v: tensor<4x70x16xf32> {cuesta.strides = [1120, 16, 1]}) -> (tensor<4x20x16xf32> {cuesta.strides = [320, 16, 1]}) {
  %0:2 = "cuesta.softmax_mm"(%s, %v) {product = "16x16x32/4/3", safe = 0} : (tensor<4x20x70xf32>, tensor<4x70x16xf32>) -> (tensor<4x20x16xf32>, tensor<4x20xf32>)
  return %0#0 : tensor<4x20x16xf32>
}
