// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu})' %s | filecheck %s

// Pointwise work joins a product, with a second result; a reduction over its columns does not, as no program has all.
// CHECK-LABEL: module
// CHECK: func.func @{{[a-z_0-9]+}}(%{{.*}}: tensor<64x32xbf16>, %{{.*}}: tensor<32x64xbf16>, %{{.*}}: tensor<64x64xf32> {{.*}}, %{{.*}}: tensor<64x64xf32> {{.*}}) -> (tensor<64x64xf32>, tensor<64x64xf32>)
// CHECK: cuesta.product = [0, 2, 1], cuesta.product_tile = "64x64x32/4/3"
// CHECK: math.exp
// CHECK: func.func @{{[a-z_0-9]+}}(%{{.*}}: tensor<64x64xf32>, %{{.*}}: tensor<64xf32> {{.*}})
// CHECK: func.func @graph
// CHECK: reason = "{{.*}} reduction
func.func @graph(%a: tensor<64x32xbf16> {cuesta.strides = [32, 1]}, %b: tensor<32x64xbf16> {cuesta.strides = [64, 1]}) -> (tensor<64x64xf32> {cuesta.strides = [64, 1]}, tensor<64x64xf32> {cuesta.strides = [64, 1]}, tensor<64xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.mm"(%a, %b) {product = "64x64x32/4/3"} : (tensor<64x32xbf16>, tensor<32x64xbf16>) -> tensor<64x64xf32>
  %1 = "cuesta.exp"(%0) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = "cuesta.sum"(%1) {dims = [1], keepdim = 0} : (tensor<64x64xf32>) -> tensor<64xf32>
  return %0, %1, %2 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>
}

// -----
// Many blocks would make the operand again: it is written once.
// CHECK: would recompute its operand
func.func @graph(%a: tensor<512x512xbf16> {cuesta.strides = [512, 1]}, %b: tensor<512x512xbf16> {cuesta.strides = [512, 1]}) -> (tensor<512x512xf32> {cuesta.strides = [512, 1]}) {
  %e = "cuesta.exp"(%a) : (tensor<512x512xbf16>) -> tensor<512x512xbf16>
  %0 = "cuesta.mm"(%e, %b) {product = "64x64x32/4/3"} : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xf32>
  return %0 : tensor<512x512xf32>
}

// -----
// One product's result is the other's operand: two kernels.
// CHECK: reason = "two matrix products
func.func @graph(%a: tensor<64x64xf32> {cuesta.strides = [64, 1]}, %b: tensor<64x64xf32> {cuesta.strides = [64, 1]}) -> (tensor<64x64xf32> {cuesta.strides = [64, 1]}) {
  %0 = "cuesta.mm"(%a, %b) {product = "64x64x32/4/3"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = "cuesta.mm"(%0, %b) {product = "64x64x32/4/3"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}

// -----
// Rows of several dims become one class where all that walks them agrees.
// CHECK: cuesta.parallel = [0, 2], cuesta.sizes = [96, 32, 64]
// CHECK: cuesta.product = [0, 2, 1]
func.func @graph(%a: tensor<2x48x32xbf16> {cuesta.strides = [1536, 32, 1]}, %b: tensor<32x64xbf16> {cuesta.strides = [64, 1]}) -> (tensor<2x48x64xf32> {cuesta.strides = [3072, 64, 1]}) {
  %0 = "cuesta.mm"(%a, %b) {product = "32x64x32/4/3"} : (tensor<2x48x32xbf16>, tensor<32x64xbf16>) -> tensor<2x48x64xf32>
  return %0 : tensor<2x48x64xf32>
}

// -----
// Another kernel writes its operand in rows that begin at multiples of 16 bytes.
// CHECK: "host.launch"({{.*}} : (memref<64x36xf32>, memref<64x36xbf16, strided<[64, 1]>>)
// CHECK: "host.launch"({{.*}}) {{.*}}memref<64x36xbf16, strided<[64, 1]>>
func.func @graph(%x: tensor<64x36xf32> {cuesta.strides = [36, 1]}, %b: tensor<36x4096xbf16> {cuesta.strides = [4096, 1]}) -> (tensor<64x4096xf32> {cuesta.strides = [4096, 1]}) {
  %0 = "cuesta.erf"(%x) : (tensor<64x36xf32>) -> tensor<64x36xf32>
  %1 = "cuesta.convert"(%0) : (tensor<64x36xf32>) -> tensor<64x36xbf16>
  %2 = "cuesta.mm"(%1, %b) {product = "64x64x32/4/3"} : (tensor<64x36xbf16>, tensor<36x4096xbf16>) -> tensor<64x4096xf32>
  return %2 : tensor<64x4096xf32>
}

// -----
// Dims that are turned and merged behind a product are written in that order, though another dim is contiguous then:
// no copy follows, and a dim of 1 is in nobody's way.
// CHECK: func.func @graph
// CHECK: %[[WRITTEN:.*]] = "host.view"(%{{.*}}) {{.*}} -> memref<2x48x4x64xf32>
// CHECK-NOT: ops = ["copy"]
// CHECK: return
func.func @graph(%a: tensor<4x2x64x32xbf16> {cuesta.strides = [4096, 2048, 32, 1]}, %b: tensor<4x2x32x48xbf16> {cuesta.strides = [3072, 1536, 48, 1]}) -> (tensor<96xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.mm"(%a, %b) {product = "64x16x32/4/3"} : (tensor<4x2x64x32xbf16>, tensor<4x2x32x48xbf16>) -> tensor<4x2x64x48xf32>
  %1 = "cuesta.exp"(%0) : (tensor<4x2x64x48xf32>) -> tensor<4x2x64x48xf32>
  %2 = "cuesta.reshape"(%1) : (tensor<4x2x64x48xf32>) -> tensor<4x2x1x64x48xf32>
  %3 = "cuesta.permute"(%2) {dims = [1, 2, 4, 0, 3]} : (tensor<4x2x1x64x48xf32>) -> tensor<2x1x48x4x64xf32>
  %4 = "cuesta.reshape"(%3) : (tensor<2x1x48x4x64xf32>) -> tensor<96x256xf32>
  %5 = "cuesta.sum"(%4) {dims = [1], keepdim = 0} : (tensor<96x256xf32>) -> tensor<96xf32>
  return %5 : tensor<96xf32>
}
