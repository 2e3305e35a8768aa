// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries)' %s | filecheck %s

// By default it is a kernel where the module says that the machine is faster with it, from 8 queries on.
// CHECK-LABEL: func.func @graph
// CHECK: "cuesta.attention"({{.*}}tile = "16x16 by 8"
// CHECK-NEXT: "aten.call"
module attributes {cuesta.products = {attention = "kernel"}} {
  func.func @graph(%q: tensor<1x1x16x8xf32> {cuesta.strides = [128, 128, 8, 1]}, %r: tensor<1x1x4x8xf32> {cuesta.strides = [32, 32, 8, 1]})
      -> (tensor<1x1x4x8xf32> {cuesta.strides = [32, 32, 8, 1]}) {
    %0:2 = "cuesta.attention"(%q, %q, %q) {scale = 0.5, causal = 1} : (tensor<1x1x16x8xf32>, tensor<1x1x16x8xf32>, tensor<1x1x16x8xf32>) -> (tensor<1x1x16x8xf32>, tensor<1x1x16xf32>)
    %1:2 = "cuesta.attention"(%r, %0#0, %0#0) {scale = 0.5, causal = 0} : (tensor<1x1x4x8xf32>, tensor<1x1x16x8xf32>, tensor<1x1x16x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4xf32>)
    return %1#0 : tensor<1x1x4x8xf32>
  }
}
