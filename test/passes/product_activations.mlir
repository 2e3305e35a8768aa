// RUN: cuesta-opt --pass-pipeline='builtin.module(product-activations)' %s | filecheck %s

// The library computes relu of a product with a bias, through views too. It does not of a product that others read, whose
// bias is scaled or is no row, or which has none.
// CHECK-LABEL: func.func @linear
// CHECK: %[[A:.*]] = "aten.call"({{.*}}) {{{.*}}overload = "aten._addmm_activation.default"{{.*}}}
// CHECK: %[[Z:.*]] = "cuesta.reshape"(%[[A]]) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
// CHECK: %[[READ:.*]] = "aten.call"({{.*}}) {{{.*}}overload = "aten.addmm.default"{{.*}}}
// CHECK: %[[B:.*]] = "cuesta.relu"(%[[READ]])
// CHECK: "aten.call"({{.*}}) {{{.*}}overload = "aten.addmm.default"{{.*}}}
// CHECK: %[[C:.*]] = "cuesta.relu"
// CHECK: "aten.call"({{.*}}) {{{.*}}overload = "aten.addmm.default"{{.*}}}
// CHECK: %[[D:.*]] = "cuesta.relu"
// CHECK: "aten.call"({{.*}}) {{{.*}}overload = "aten.mm.default"{{.*}}}
// CHECK: %[[E:.*]] = "cuesta.relu"
// CHECK: return %[[Z]], %[[READ]], %[[B]], %[[C]], %[[D]], %[[E]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @linear(%x: tensor<512x64xbf16>, %w: tensor<64x24xbf16>, %b: tensor<24xbf16>, %m: tensor<512x24xbf16>) -> (tensor<2x256x24xbf16>, tensor<512x24xbf16>, tensor<512x24xbf16>, tensor<512x24xbf16>, tensor<512x24xbf16>, tensor<512x24xbf16>) {
  %0 = "aten.call"(%b, %x, %w) {overload = "aten.addmm.default", args = "[\"%0\", \"%1\", \"%2\", {\"kwargs\": {\"beta\": 1.0, \"alpha\": 1.0}}]", reason = "", result_strides = [[24, 1]]} : (tensor<24xbf16>, tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
  %2 = "cuesta.relu"(%1) : (tensor<2x256x24xbf16>) -> tensor<2x256x24xbf16>
  %3 = "aten.call"(%b, %x, %w) {overload = "aten.addmm.default", args = "[\"%0\", \"%1\", \"%2\", {\"kwargs\": {\"beta\": 1.0, \"alpha\": 1.0}}]", reason = "", result_strides = [[24, 1]]} : (tensor<24xbf16>, tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %4 = "cuesta.relu"(%3) : (tensor<512x24xbf16>) -> tensor<512x24xbf16>
  %5 = "aten.call"(%b, %x, %w) {overload = "aten.addmm.default", args = "[\"%0\", \"%1\", \"%2\", {\"kwargs\": {\"beta\": 0.5, \"alpha\": 1.0}}]", reason = "", result_strides = [[24, 1]]} : (tensor<24xbf16>, tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %6 = "cuesta.relu"(%5) : (tensor<512x24xbf16>) -> tensor<512x24xbf16>
  %7 = "aten.call"(%m, %x, %w) {overload = "aten.addmm.default", args = "[\"%0\", \"%1\", \"%2\", {\"kwargs\": {\"beta\": 1.0, \"alpha\": 1.0}}]", reason = "", result_strides = [[24, 1]]} : (tensor<512x24xbf16>, tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %8 = "cuesta.relu"(%7) : (tensor<512x24xbf16>) -> tensor<512x24xbf16>
  %9 = "aten.call"(%x, %w) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "", result_strides = [[24, 1]]} : (tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %10 = "cuesta.relu"(%9) : (tensor<512x24xbf16>) -> tensor<512x24xbf16>
  return %2, %3, %4, %6, %8, %10 : tensor<2x256x24xbf16>, tensor<512x24xbf16>, tensor<512x24xbf16>, tensor<512x24xbf16>, tensor<512x24xbf16>, tensor<512x24xbf16>
}
}
