// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu})' --split-input-file %s | filecheck %s

// Powers have a kernel of their own: the product's would compute them anew for each matrix of its batch. They lie as
// their loops walk, though what they are computed from has fewer. The choice between them and 0 is in the product's
// kernel, which then knows where its factor is 0.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"({{.*}}ops = ["pow"]{{.*}} memref<8x256x256xf32>) -> ()
// CHECK: "host.launch"({{.*}}ops = ["{{.*}}where{{.*}}product"]{{.*}}memref<8x256x256xf32>
// CHECK-NOT: host.launch
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%q: tensor<4x8x256x64xbf16> {cuesta.strides = [131072, 16384, 64, 1]}, %k: tensor<4x8x64x256xbf16> {cuesta.strides = [131072, 16384, 1, 64]}, %v: tensor<4x8x256x64xbf16> {cuesta.strides = [131072, 16384, 64, 1]}, %base: tensor<8x1x1xf32> {cuesta.strides = [1, 1, 1]})
      -> (tensor<4x8x256x64xf32> {cuesta.strides = [131072, 16384, 64, 1]}) {
    %i = "cuesta.iota"() {start = 0.0 : f64, step = 1.0 : f64} : () -> tensor<256xf32> loc("pow")
    %rows = "cuesta.reshape"(%i) : (tensor<256xf32>) -> tensor<256x1xf32>
    %d = "cuesta.sub"(%rows, %i) : (tensor<256x1xf32>, tensor<256xf32>) -> tensor<256x256xf32> loc("pow")
    %zero = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<f32>
    %e = "cuesta.sub"(%rows, %i) : (tensor<256x1xf32>, tensor<256xf32>) -> tensor<256x256xf32> loc("where")
    %seen = "cuesta.ge"(%e, %zero) : (tensor<256x256xf32>, tensor<f32>) -> tensor<256x256xi1> loc("where")
    %p = "cuesta.pow"(%base, %d) : (tensor<8x1x1xf32>, tensor<256x256xf32>) -> tensor<8x256x256xf32> loc("pow")
    %mask = "cuesta.where"(%seen, %p, %zero) : (tensor<256x256xi1>, tensor<8x256x256xf32>, tensor<f32>) -> tensor<8x256x256xf32> loc("where")
    %s = "cuesta.mm"(%q, %k) {product = "64x64x64/4/3"} : (tensor<4x8x256x64xbf16>, tensor<4x8x64x256xbf16>) -> tensor<4x8x256x256xf32> loc("scores")
    %f = "cuesta.mul"(%s, %mask) : (tensor<4x8x256x256xf32>, tensor<8x256x256xf32>) -> tensor<4x8x256x256xf32> loc("mul")
    %n = "cuesta.convert"(%f) : (tensor<4x8x256x256xf32>) -> tensor<4x8x256x256xbf16> loc("mul")
    %r = "cuesta.mm"(%n, %v) {computed, product = "64x64x64/4/3"} : (tensor<4x8x256x256xbf16>, tensor<4x8x256x64xbf16>) -> tensor<4x8x256x64xf32> loc("product")
    return %r : tensor<4x8x256x64xf32>
  }
}
