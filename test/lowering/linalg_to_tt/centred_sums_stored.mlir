// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// What is summed is written in the loop that sums it, where others read it too: one more loop would read x and y again.
// CHECK-LABEL: "tt.func"
// CHECK: scf.for
// CHECK-COUNT-2: "tt.load"
// CHECK: arith.addf
// CHECK: "tt.store"
// CHECK: scf.yield
// CHECK-NOT: scf.for
// CHECK-COUNT-2: "tt.reduce"
// CHECK-COUNT-2: "tt.store"
// CHECK-NOT: "tt.store"
// CHECK: "tt.return"
func.func @graph(%x: tensor<512x784x64xbf16> {cuesta.strides = [50176, 64, 1]}, %y: tensor<512x784x64xbf16> {cuesta.strides = [50176, 64, 1]}) -> (tensor<512x784x64xbf16>, tensor<512x64xf32>, tensor<512x64xf32>) {
  %0 = "cuesta.add"(%x, %y) : (tensor<512x784x64xbf16>, tensor<512x784x64xbf16>) -> tensor<512x784x64xbf16>
  %1 = "cuesta.convert"(%0) : (tensor<512x784x64xbf16>) -> tensor<512x784x64xf32>
  %2 = "cuesta.sum"(%1) {dims = [1], keepdim = false} : (tensor<512x784x64xf32>) -> tensor<512x64xf32>
  %3 = "cuesta.constant"() {value = 784.0 : f64} : () -> tensor<f32>
  %4 = "cuesta.div"(%2, %3) : (tensor<512x64xf32>, tensor<f32>) -> tensor<512x64xf32>
  %5 = "cuesta.reshape"(%4) : (tensor<512x64xf32>) -> tensor<512x1x64xf32>
  %6 = "cuesta.convert"(%0) : (tensor<512x784x64xbf16>) -> tensor<512x784x64xf32>
  %7 = "cuesta.sub"(%6, %5) : (tensor<512x784x64xf32>, tensor<512x1x64xf32>) -> tensor<512x784x64xf32>
  %8 = "cuesta.square"(%7) : (tensor<512x784x64xf32>) -> tensor<512x784x64xf32>
  %9 = "cuesta.sum"(%8) {dims = [1], keepdim = false} : (tensor<512x784x64xf32>) -> tensor<512x64xf32>
  return %0, %2, %9 : tensor<512x784x64xbf16>, tensor<512x64xf32>, tensor<512x64xf32>
}
