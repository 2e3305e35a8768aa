// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// The sum of columns, and of the squares of what they hold less their mean, are summed in one loop, which reads once.
// Each place of the block has a mean; what lies beyond the last row leaves it as it is.
// CHECK-LABEL: "tt.func"
// CHECK: %[[SUMS:.*]]:2 = scf.for %[[AT:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[MEAN:.*]] = %{{.*}}, %[[SQUARES:.*]] = %{{.*}})
// CHECK: %[[X:.*]] = "tt.load"
// CHECK: %[[W:.*]] = arith.extf %[[X]]
// CHECK: %[[Y:.*]] = arith.select %{{.*}}, %[[W]], %[[MEAN]]
// CHECK: %[[SHARE:.*]] = arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: %[[D:.*]] = arith.subf %[[Y]], %[[MEAN]]
// CHECK: %[[NEW:.*]] = arith.addf %[[MEAN]], %{{.*}}
// CHECK: %[[E:.*]] = arith.subf %[[Y]], %[[NEW]]
// CHECK: %[[P:.*]] = arith.mulf %[[D]], %[[E]]
// CHECK: arith.addf %[[SQUARES]], %[[P]]
// CHECK-NOT: scf.for
// CHECK-COUNT-2: "tt.reduce"
// CHECK-COUNT-2: "tt.store"
// CHECK-NOT: "tt.func"
func.func @graph(%x: tensor<512x784x64xbf16> {cuesta.strides = [50176, 64, 1]}) -> (tensor<512x64xf32>, tensor<512x64xf32>) {
  %0 = "cuesta.convert"(%x) : (tensor<512x784x64xbf16>) -> tensor<512x784x64xf32>
  %1 = "cuesta.sum"(%0) {dims = [1], keepdim = false} : (tensor<512x784x64xf32>) -> tensor<512x64xf32>
  %2 = "cuesta.constant"() {value = 784.0 : f64} : () -> tensor<f32>
  %3 = "cuesta.div"(%1, %2) : (tensor<512x64xf32>, tensor<f32>) -> tensor<512x64xf32>
  %4 = "cuesta.reshape"(%3) : (tensor<512x64xf32>) -> tensor<512x1x64xf32>
  %5 = "cuesta.convert"(%x) : (tensor<512x784x64xbf16>) -> tensor<512x784x64xf32>
  %6 = "cuesta.sub"(%5, %4) : (tensor<512x784x64xf32>, tensor<512x1x64xf32>) -> tensor<512x784x64xf32>
  %7 = "cuesta.square"(%6) : (tensor<512x784x64xf32>) -> tensor<512x784x64xf32>
  %8 = "cuesta.sum"(%7) {dims = [1], keepdim = false} : (tensor<512x784x64xf32>) -> tensor<512x64xf32>
  return %1, %8 : tensor<512x64xf32>, tensor<512x64xf32>
}
