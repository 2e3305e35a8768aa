// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu})' %s | filecheck %s

// A weight that is computed of numbers in f32 is written once: all pixels of all images are rows, and each of their
// blocks would compute it.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"({{.*}}ops = ["weight"]
// CHECK: "host.launch"({{.*}}ops = ["mm", "relu"]
// CHECK-NOT: host.launch
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%x: tensor<64x28x28x512xbf16> {cuesta.strides = [401408, 14336, 512, 1]}, %w: tensor<512x256xf32> {cuesta.strides = [256, 1]})
      -> (tensor<64x28x28x256xbf16> {cuesta.strides = [200704, 7168, 256, 1]}) {
    %0 = "cuesta.mul"(%w, %w) : (tensor<512x256xf32>, tensor<512x256xf32>) -> tensor<512x256xf32> loc("weight")
    %1 = "cuesta.convert"(%0) : (tensor<512x256xf32>) -> tensor<512x256xbf16> loc("weight")
    %2 = "cuesta.mm"(%x, %1) {product = "128x128x64/8/3"} : (tensor<64x28x28x512xbf16>, tensor<512x256xbf16>) -> tensor<64x28x28x256xf32> loc("mm")
    %3 = "cuesta.relu"(%2) : (tensor<64x28x28x256xf32>) -> tensor<64x28x28x256xf32> loc("relu")
    %4 = "cuesta.convert"(%3) : (tensor<64x28x28x256xf32>) -> tensor<64x28x28x256xbf16> loc("relu")
    return %4 : tensor<64x28x28x256xbf16>
  }
}
