// RUN: cuesta-opt --pass-pipeline='builtin.module(align-rows{work=4096})' --split-input-file %s | filecheck %s

// A row of 18 bytes ends where the next one begins: 128 bytes for each instead. The bias is added behind.
// CHECK-LABEL: func.func @result
// CHECK: %[[P:.*]] = "aten.call"(%arg1, %arg2) {{.*}}overload = "aten.mm.default"{{.*}}result_strides = {{\[}}[64, 1]]
// CHECK-NEXT: %[[S:.*]] = "cuesta.add"(%[[P]], %arg0)
// CHECK-NEXT: "cuesta.neg"(%[[S]])
module attributes {cuesta.target = "cuda:90"} {
func.func @result(%bias: tensor<9xbf16>, %x: tensor<32x16xbf16>, %w: tensor<16x9xbf16>) -> tensor<32x9xbf16> {
  %0 = "aten.call"(%bias, %x, %w) {args = "[\22%0\22, \22%1\22, \22%2\22, {\22kwargs\22: {\22beta\22: 1.0, \22alpha\22: 1.0}}]", overload = "aten.addmm.default", reason = "", result_strides = [[9, 1]]} : (tensor<9xbf16>, tensor<32x16xbf16>, tensor<16x9xbf16>) -> tensor<32x9xbf16>
  %1 = "cuesta.neg"(%0) : (tensor<32x9xbf16>) -> tensor<32x9xbf16>
  return %1 : tensor<32x9xbf16>
}
}

// -----

// A factor of ours, also where the product takes it transposed. Its maker decides; the given one is what it is.
// CHECK-LABEL: func.func @factors
// CHECK: "aten.call"(%{{.*}}, %{{.*}}) {{.*}}operand_strides = {{\[}}[64, 1], unit]
// CHECK: "aten.call"(%{{.*}}, %{{.*}}) {{.*}}operand_strides = {{\[}}[1, 64], unit]
module attributes {cuesta.target = "cuda:90"} {
func.func @factors(%x: tensor<32x9xbf16>, %w: tensor<9x16xbf16>, %y: tensor<32x16xbf16>) -> (tensor<32x16xbf16>, tensor<9x16xbf16>) {
  %0 = "cuesta.neg"(%x) : (tensor<32x9xbf16>) -> tensor<32x9xbf16>
  %1 = "aten.call"(%0, %w) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[16, 1]]} : (tensor<32x9xbf16>, tensor<9x16xbf16>) -> tensor<32x16xbf16>
  %2 = "cuesta.permute"(%0) {dims = [1, 0]} : (tensor<32x9xbf16>) -> tensor<9x32xbf16>
  %3 = "aten.call"(%2, %y) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[16, 1]]} : (tensor<9x32xbf16>, tensor<32x16xbf16>) -> tensor<9x16xbf16>
  return %1, %3 : tensor<32x16xbf16>, tensor<9x16xbf16>
}
}

// -----

// Left alone: f32, small products, and what the graph returns where the product is not worth a copy.
// CHECK-LABEL: func.func @left_alone
// CHECK-COUNT-3: result_strides = {{\[}}[9, 1]]
module attributes {cuesta.target = "cuda:90"} {
func.func @left_alone(%x: tensor<32x16xf32>, %w: tensor<16x9xf32>, %a: tensor<8x16xbf16>, %b: tensor<16x9xbf16>, %c: tensor<64x16xbf16>) -> (tensor<32x9xf32>, tensor<8x9xbf16>, tensor<8x8x9xbf16>) {
  %0 = "aten.call"(%x, %w) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[9, 1]]} : (tensor<32x16xf32>, tensor<16x9xf32>) -> tensor<32x9xf32>
  %1 = "aten.call"(%a, %b) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[9, 1]]} : (tensor<8x16xbf16>, tensor<16x9xbf16>) -> tensor<8x9xbf16>
  %2 = "aten.call"(%c, %b) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[9, 1]]} : (tensor<64x16xbf16>, tensor<16x9xbf16>) -> tensor<64x9xbf16>
  %3 = "cuesta.reshape"(%2) : (tensor<64x9xbf16>) -> tensor<8x8x9xbf16>
  return %0, %1, %3 : tensor<32x9xf32>, tensor<8x9xbf16>, tensor<8x8x9xbf16>
}
}
