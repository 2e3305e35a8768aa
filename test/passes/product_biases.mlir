// RUN: cuesta-opt --pass-pipeline='builtin.module(product-biases)' %s | filecheck %s

// A row that is added to a product becomes its bias, through views too. One that is added to columns stays, as does what
// is added to a product that others read, that is a kernel of ours, or that a library adds in f32.
// CHECK-LABEL: func.func @linear
// CHECK-SAME: (%[[X:.*]]: tensor<512x64xbf16>, %[[W:.*]]: tensor<64x24xbf16>, %[[B:.*]]: tensor<24xbf16>,
// CHECK: %[[Y:.*]] = "cuesta.addmm"(%[[B]], %[[X]], %[[W]]) {alpha = 1.000000e+00 : f64, beta = 1.000000e+00 : f64}
// CHECK: %[[Z:.*]] = "cuesta.reshape"(%[[Y]]) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
// CHECK: %[[OWN:.*]] = "cuesta.mm"({{.*}}) {product = "64x32x64/4/2"}
// CHECK: %[[A:.*]] = "cuesta.add"(%[[OWN]], %[[B]])
// CHECK: %[[READ:.*]] = "cuesta.mm"
// CHECK: %[[C:.*]] = "cuesta.add"(%[[B]], %[[READ]])
// CHECK: %[[D:.*]] = "cuesta.add"({{.*}}) : (tensor<24x512xbf16>, tensor<24x1xbf16>)
// CHECK: %[[E:.*]] = "cuesta.add"({{.*}}) : (tensor<512x24xf32>, tensor<24xf32>)
// CHECK: return %[[Z]], %[[A]], %[[C]], %[[READ]], %[[D]], %[[E]]
module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} {
func.func @linear(%x: tensor<512x64xbf16>, %w: tensor<64x24xbf16>, %b: tensor<24xbf16>, %c: tensor<24x1xbf16>, %u: tensor<512x64xf32>, %v: tensor<64x24xf32>, %d: tensor<24xf32>, %t: tensor<24x64xbf16>, %s: tensor<64x512xbf16>) -> (tensor<2x256x24xbf16>, tensor<512x24xbf16>, tensor<512x24xbf16>, tensor<512x24xbf16>, tensor<24x512xbf16>, tensor<512x24xf32>) {
  %0 = "cuesta.mm"(%x, %w) : (tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
  %2 = "cuesta.add"(%1, %b) : (tensor<2x256x24xbf16>, tensor<24xbf16>) -> tensor<2x256x24xbf16>
  %3 = "cuesta.mm"(%x, %w) {product = "64x32x64/4/2"} : (tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %4 = "cuesta.add"(%3, %b) : (tensor<512x24xbf16>, tensor<24xbf16>) -> tensor<512x24xbf16>
  %5 = "cuesta.mm"(%x, %w) : (tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %6 = "cuesta.add"(%b, %5) : (tensor<24xbf16>, tensor<512x24xbf16>) -> tensor<512x24xbf16>
  %7 = "cuesta.mm"(%t, %s) : (tensor<24x64xbf16>, tensor<64x512xbf16>) -> tensor<24x512xbf16>
  %8 = "cuesta.add"(%7, %c) : (tensor<24x512xbf16>, tensor<24x1xbf16>) -> tensor<24x512xbf16>
  %9 = "cuesta.mm"(%u, %v) : (tensor<512x64xf32>, tensor<64x24xf32>) -> tensor<512x24xf32>
  %10 = "cuesta.add"(%9, %d) : (tensor<512x24xf32>, tensor<24xf32>) -> tensor<512x24xf32>
  return %2, %4, %6, %5, %8, %10 : tensor<2x256x24xbf16>, tensor<512x24xbf16>, tensor<512x24xbf16>, tensor<512x24xbf16>, tensor<24x512xbf16>, tensor<512x24xf32>
}
}
