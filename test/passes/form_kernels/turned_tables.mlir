// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// Angles come with 512 numbers of each of 64 columns, but who reads their cosines walks the columns: they are written
// so.
// CHECK: func.func @cos(%{{.*}}: tensor<64x512xf32>, %{{.*}}: tensor<512x64xf32>
// CHECK: func.func @mul(%{{.*}}: tensor<8x512x9x64xf32>, %{{.*}}: tensor<512x64xf32>
func.func @graph(%x: tensor<8x512x9x64xf32> {cuesta.strides = [294912, 576, 64, 1]}, %a: tensor<64x512xf32> {cuesta.strides = [512, 1]}) -> (tensor<8x512x9x64xf32> {cuesta.strides = [294912, 576, 64, 1]}) {
  %0 = "cuesta.permute"(%a) {dims = [1, 0]} : (tensor<64x512xf32>) -> tensor<512x64xf32>
  %1 = "cuesta.cos"(%0) : (tensor<512x64xf32>) -> tensor<512x64xf32> loc("cos"("m.py":1:1))
  %2 = "cuesta.reshape"(%1) : (tensor<512x64xf32>) -> tensor<512x1x64xf32>
  %3 = "cuesta.mul"(%x, %2) : (tensor<8x512x9x64xf32>, tensor<512x1x64xf32>) -> tensor<8x512x9x64xf32> loc("mul"("m.py":1:1))
  return %3 : tensor<8x512x9x64xf32>
}

// CHECK: // -----
// -----

// Half of what a kernel reads is no small table: it keeps its order.
// CHECK: func.func @mul(%{{.*}}: tensor<2x512x64xf32>, %{{.*}}: tensor<64x512xf32>
func.func @graph(%x: tensor<2x512x64xf32> {cuesta.strides = [32768, 64, 1]}, %a: tensor<64x512xf32> {cuesta.strides = [512, 1]}) -> (tensor<2x512x64xf32> {cuesta.strides = [32768, 64, 1]}) {
  %0 = "cuesta.permute"(%a) {dims = [1, 0]} : (tensor<64x512xf32>) -> tensor<512x64xf32>
  %1 = "cuesta.cos"(%0) : (tensor<512x64xf32>) -> tensor<512x64xf32> loc("cos"("m.py":1:1))
  %2 = "cuesta.mul"(%x, %1) : (tensor<2x512x64xf32>, tensor<512x64xf32>) -> tensor<2x512x64xf32> loc("mul"("m.py":1:1))
  return %2 : tensor<2x512x64xf32>
}
