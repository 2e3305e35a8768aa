// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// The nine sums of 3x3 windows, over a program's sample and eight of its rows at once, of which a thread has two
// neighbouring columns. It loads their 16 gradients, then ten rows and four columns of x, the first of which only the
// first column's windows have. What the threads have along the columns is added for all sums together, and each is stored
// for its place.
// CHECK: "tt.func"
// CHECK: %[[SUMS:.*]]:9 = scf.for %{{.*}} = %c0_i32{{.*}} to %c16_i32{{.*}} step %c8_i32{{.*}} iter_args(%[[FIRST:[^ ]*]] =
// CHECK-COUNT-16: "tt.load"({{.*}} -> tensor<2x64xbf16>
// CHECK: %[[X:.*]] = "tt.load"({{.*}} -> tensor<2x64xbf16>
// CHECK: %[[WIDE:.*]] = arith.extf %[[X]]
// CHECK: %[[ONE:.*]] = math.fma %[[WIDE]], %{{.*}}, %[[FIRST]]
// CHECK: %[[NEXT:.*]] = "tt.load"({{.*}} -> tensor<2x64xbf16>
// CHECK: %[[MORE:.*]] = arith.extf %[[NEXT]]
// CHECK-DAG: math.fma %[[MORE]], %{{.*}}, %[[ONE]]
// CHECK-DAG: math.fma %[[MORE]]
// CHECK-COUNT-38: "tt.load"({{.*}} -> tensor<2x64xbf16>
// CHECK-NOT: "tt.load"
// CHECK: scf.yield
// CHECK: "tt.reduce"(%[[SUMS]]#0, %[[SUMS]]#1, %[[SUMS]]#2, {{.*}}, %[[SUMS]]#8)
// CHECK-COUNT-9: "tt.store"
// CHECK-NOT: "tt.store"
// CHECK: cuesta.grid = [264, 1, 1]
module {
func.func @graph(%x: tensor<264x16x4x64xbf16> {cuesta.strides = [4096, 256, 64, 1]}, %g: tensor<264x1x1x16x4x64xbf16> {cuesta.strides = [4096, 4096, 4096, 256, 64, 1]}) -> (tensor<264x1x3x3x64xf32> {cuesta.strides = [576, 576, 192, 64, 1]}) {
  %0 = "cuesta.depthwise_weight"(%x, %g) {stride = [1, 1], padding = [1, 1], dilation = [1, 1]} : (tensor<264x16x4x64xbf16>, tensor<264x1x1x16x4x64xbf16>) -> tensor<264x1x3x3x64xf32>
  return %0 : tensor<264x1x3x3x64xf32>
}
}
