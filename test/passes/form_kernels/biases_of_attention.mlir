// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu})' --split-input-file %s | filecheck %s

// A bias for each head, query and key is written in rows of keys, also through a reshape of its positions, although the
// rows of its table hold heads. Two layers read it, so that it is written once, and not in the first layer's kernel.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"({{.*}}ops = ["index", "mul"]{{.*}} memref<8x16384xbf16>) -> ()
// CHECK: "host.launch"({{.*}}ops = ["{{mm|add}}", "{{mm|add}}", "attention"]{{.*}}memref<8x128x128xbf16>, {{.*}} -> ()
// CHECK: "host.launch"({{.*}}ops = ["{{mm|add}}", "{{mm|add}}", "attention"]{{.*}}memref<8x128x128xbf16>, {{.*}} -> ()
// CHECK-NOT: host.launch
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%q: tensor<4x8x128x64xbf16> {cuesta.strides = [65536, 8192, 64, 1]}, %k: tensor<4x8x64x128xbf16> {cuesta.strides = [65536, 8192, 1, 64]}, %v: tensor<4x8x128x64xbf16> {cuesta.strides = [65536, 8192, 64, 1]},
      %table: tensor<32x8xbf16> {cuesta.strides = [8, 1]}, %i: tensor<16384xi64> {cuesta.strides = [1]})
      -> (tensor<4x8x128x64xbf16> {cuesta.strides = [65536, 8192, 64, 1]}) {
    %0 = "cuesta.index"(%table, %i) {dims = [0], in_range, operandSegmentSizes = array<i32: 1, 1>} : (tensor<32x8xbf16>, tensor<16384xi64>) -> tensor<16384x8xbf16> loc("index")
    %1 = "cuesta.mul"(%0, %0) : (tensor<16384x8xbf16>, tensor<16384x8xbf16>) -> tensor<16384x8xbf16> loc("mul")
    %2 = "cuesta.reshape"(%1) : (tensor<16384x8xbf16>) -> tensor<128x128x8xbf16>
    %3 = "cuesta.permute"(%2) {dims = [2, 0, 1]} : (tensor<128x128x8xbf16>) -> tensor<8x128x128xbf16>
    %4 = "cuesta.convert"(%3) : (tensor<8x128x128xbf16>) -> tensor<8x128x128xf32> loc("add")
    %5 = "cuesta.mm"(%q, %k) {product = "64x64x64/4/3"} : (tensor<4x8x128x64xbf16>, tensor<4x8x64x128xbf16>) -> tensor<4x8x128x128xf32> loc("mm")
    %6 = "cuesta.add"(%5, %4) : (tensor<4x8x128x128xf32>, tensor<8x128x128xf32>) -> tensor<4x8x128x128xf32> loc("add")
    %7:2 = "cuesta.softmax_mm"(%6, %v) {product = "64x64x64/4/3", safe = 1 : i64} : (tensor<4x8x128x128xf32>, tensor<4x8x128x64xbf16>) -> (tensor<4x8x128x64xf32>, tensor<4x8x128xf32>) loc("attention")
    %8 = "cuesta.convert"(%7#0) : (tensor<4x8x128x64xf32>) -> tensor<4x8x128x64xbf16> loc("attention")
    %9 = "cuesta.mm"(%8, %k) {product = "64x64x64/4/3"} : (tensor<4x8x128x64xbf16>, tensor<4x8x64x128xbf16>) -> tensor<4x8x128x128xf32> loc("mm")
    %13 = "cuesta.convert"(%3) : (tensor<8x128x128xbf16>) -> tensor<8x128x128xf32> loc("add")
    %10 = "cuesta.add"(%9, %13) : (tensor<4x8x128x128xf32>, tensor<8x128x128xf32>) -> tensor<4x8x128x128xf32> loc("add")
    %11:2 = "cuesta.softmax_mm"(%10, %v) {product = "64x64x64/4/3", safe = 1 : i64} : (tensor<4x8x128x128xf32>, tensor<4x8x128x64xbf16>) -> (tensor<4x8x128x64xf32>, tensor<4x8x128xf32>) loc("attention")
    %12 = "cuesta.convert"(%11#0) : (tensor<4x8x128x64xf32>) -> tensor<4x8x128x64xbf16> loc("attention")
    return %12 : tensor<4x8x128x64xbf16>
  }
}

// -----

// A bias that a product gives, of pairs of queries and keys, lies in rows of keys too, and not in the product's rows.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"({{.*}}ops = ["pairs"]{{.*}} memref<4x65536xbf16>) -> ()
// CHECK: "host.launch"({{.*}}ops = ["{{mm|add}}", "{{mm|add}}", "attention"]{{.*}}memref<4x256x256xbf16>, {{.*}} -> ()
module attributes {cuesta.target = "cuda:90"} {
  func.func @graph(%q: tensor<64x4x256x16xbf16> {cuesta.strides = [16384, 4096, 16, 1]}, %k: tensor<64x4x16x256xbf16> {cuesta.strides = [16384, 4096, 1, 16]}, %v: tensor<64x4x256x16xbf16> {cuesta.strides = [16384, 4096, 16, 1]},
      %x: tensor<65536x64xbf16> {cuesta.strides = [64, 1]}, %w: tensor<64x4xbf16> {cuesta.strides = [1, 64]})
      -> (tensor<64x4x256x16xbf16> {cuesta.strides = [16384, 4096, 16, 1]}) {
    %0 = "cuesta.mm"(%x, %w) {product = "128x16x64/8/3"} : (tensor<65536x64xbf16>, tensor<64x4xbf16>) -> tensor<65536x4xf32> loc("pairs")
    %1 = "cuesta.convert"(%0) : (tensor<65536x4xf32>) -> tensor<65536x4xbf16> loc("pairs")
    %2 = "cuesta.reshape"(%1) : (tensor<65536x4xbf16>) -> tensor<256x256x4xbf16>
    %3 = "cuesta.permute"(%2) {dims = [2, 0, 1]} : (tensor<256x256x4xbf16>) -> tensor<4x256x256xbf16>
    %4 = "cuesta.convert"(%3) : (tensor<4x256x256xbf16>) -> tensor<4x256x256xf32> loc("add")
    %5 = "cuesta.mm"(%q, %k) {product = "64x64x64/4/3"} : (tensor<64x4x256x16xbf16>, tensor<64x4x16x256xbf16>) -> tensor<64x4x256x256xf32> loc("mm")
    %6 = "cuesta.add"(%5, %4) : (tensor<64x4x256x256xf32>, tensor<4x256x256xf32>) -> tensor<64x4x256x256xf32> loc("add")
    %7:2 = "cuesta.softmax_mm"(%6, %v) {product = "64x16x64/4/3", safe = 1 : i64} : (tensor<64x4x256x256xf32>, tensor<64x4x256x16xbf16>) -> (tensor<64x4x256x16xf32>, tensor<64x4x256xf32>) loc("attention")
    %8 = "cuesta.convert"(%7#0) : (tensor<64x4x256x16xf32>) -> tensor<64x4x256x16xbf16> loc("attention")
    return %8 : tensor<64x4x256x16xbf16>
  }
}
