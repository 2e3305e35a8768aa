// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu})' %s | filecheck %s

// A right factor with more columns than there are in memory is written first: each program would look up every element
// of it. What scales the product's columns is looked up in its kernel.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"({{.*}} : (memref<36x72xbf16>, memref<40x72xbf16>) -> ()
// CHECK: "host.launch"({{.*}} : (memref<512x72xbf16>, memref<40x72xbf16>, memref<36xf32>, memref<512x40xf32>) -> ()
// CHECK-NOT: host.launch
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<512x72xbf16> {cuesta.strides = [72, 1]}, %w: tensor<36x72xbf16> {cuesta.strides = [72, 1]}, %s: tensor<36xf32> {cuesta.strides = [1]})
      -> (tensor<512x40xf32> {cuesta.strides = [40, 1]}) {
    %0 = "cuesta.window"(%w) {starts = [0, 0], steps = [1, 1], divisors = [1, 1], outside = 0.0 : f64, repeated = [0]} : (tensor<36x72xbf16>) -> tensor<40x72xbf16>
    %1 = "cuesta.permute"(%0) {dims = [1, 0]} : (tensor<40x72xbf16>) -> tensor<72x40xbf16>
    %2 = "cuesta.mm"(%x, %1) {product = "128x64x32/4/3"} : (tensor<512x72xbf16>, tensor<72x40xbf16>) -> tensor<512x40xf32>
    %3 = "cuesta.window"(%s) {starts = [0], steps = [1], divisors = [1], outside = 0.0 : f64, repeated = [0]} : (tensor<36xf32>) -> tensor<40xf32>
    %4 = "cuesta.mul"(%2, %3) : (tensor<512x40xf32>, tensor<40xf32>) -> tensor<512x40xf32>
    return %4 : tensor<512x40xf32>
  }
}
