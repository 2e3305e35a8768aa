// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries{attention=kernel})' --split-input-file %s | filecheck %s

// A product by a softmax is one op, with the batch dims of its scores; their product becomes a kernel beside it, of the
// narrow factors. What is between them stays as it is.
// CHECK-LABEL: func.func @attention
// CHECK-SAME: (%[[Q:.*]]: tensor<2x4x256x64xbf16>, %[[K:.*]]: tensor<2x4x64x256xbf16>, %[[V:.*]]: tensor<2x4x256x64xbf16>
// CHECK: %[[S:.*]] = "cuesta.mm"(%[[Q]], %[[K]]) {product = "64x64x64/4/3"} : {{.*}} -> tensor<2x4x256x256xf32>
// CHECK: %[[T:.*]] = "cuesta.tanh"
// CHECK-NOT: "cuesta.softmax"
// CHECK: %[[R:.*]]:2 = "cuesta.softmax_mm"(%[[T]], %[[V]]) {product = "64x64x64/4/3", safe = 1 : i64} : {{.*}} -> (tensor<2x4x256x64xf32>, tensor<2x4x256xf32>)
// CHECK: "cuesta.convert"(%[[R]]#0) : (tensor<2x4x256x64xf32>) -> tensor<2x4x256x64xbf16>
// CHECK-NOT: cuesta.logsumexp
// CHECK: return %{{.*}}, %[[R]]#1
module attributes {cuesta.target = "cuda:90"} {
func.func @attention(%q: tensor<2x4x256x64xbf16>, %k: tensor<2x4x64x256xbf16>, %v: tensor<2x4x256x64xbf16>) -> (tensor<8x256x64xbf16>, tensor<2x4x256xf32>) {
  %0 = "cuesta.reshape"(%q) : (tensor<2x4x256x64xbf16>) -> tensor<8x256x64xbf16>
  %1 = "cuesta.convert"(%0) : (tensor<8x256x64xbf16>) -> tensor<8x256x64xf32>
  %2 = "cuesta.reshape"(%k) : (tensor<2x4x64x256xbf16>) -> tensor<8x64x256xbf16>
  %3 = "cuesta.convert"(%2) : (tensor<8x64x256xbf16>) -> tensor<8x64x256xf32>
  %4 = "cuesta.mm"(%1, %3) : (tensor<8x256x64xf32>, tensor<8x64x256xf32>) -> tensor<8x256x256xf32>
  %5 = "cuesta.reshape"(%4) : (tensor<8x256x256xf32>) -> tensor<2x4x256x256xf32>
  %6 = "cuesta.tanh"(%5) : (tensor<2x4x256x256xf32>) -> tensor<2x4x256x256xf32>
  %7 = "cuesta.softmax"(%6) {dim = 3 : i64, safe = 1 : i64} : (tensor<2x4x256x256xf32>) -> tensor<2x4x256x256xf32>
  %8 = "cuesta.convert"(%7) : (tensor<2x4x256x256xf32>) -> tensor<2x4x256x256xbf16>
  %9 = "cuesta.reshape"(%8) : (tensor<2x4x256x256xbf16>) -> tensor<8x256x256xbf16>
  %10 = "cuesta.reshape"(%v) : (tensor<2x4x256x64xbf16>) -> tensor<8x256x64xbf16>
  %11 = "cuesta.mm"(%9, %10) : (tensor<8x256x256xbf16>, tensor<8x256x64xbf16>) -> tensor<8x256x64xbf16>
  %12 = "cuesta.logsumexp"(%6) {dims = [3]} : (tensor<2x4x256x256xf32>) -> tensor<2x4x256xf32>
  return %11, %12 : tensor<8x256x64xbf16>, tensor<2x4x256xf32>
}
}

// -----

// A softmax whose rows of -inf are NaN becomes one as well. One that another op reads too stays, and heads above 128
// elements do.
// CHECK-LABEL: func.func @apart
// CHECK: "cuesta.softmax_mm"({{.*}}safe = 0
// CHECK-COUNT-2: "cuesta.softmax"
module attributes {cuesta.target = "cuda:90"} {
func.func @apart(%q: tensor<8x64x64xf32>, %k: tensor<8x64x64xf32>, %wide: tensor<8x64x256xf32>) -> (tensor<8x64x64xf32>, tensor<8x64x64xf32>, tensor<8x64x64xf32>, tensor<8x64x256xf32>) {
  %0 = "cuesta.mm"(%q, %k) : (tensor<8x64x64xf32>, tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
  %1 = "cuesta.softmax"(%0) {dim = 2 : i64, safe = 0 : i64} : (tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
  %2 = "cuesta.mm"(%1, %q) : (tensor<8x64x64xf32>, tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
  %3 = "cuesta.mm"(%k, %q) : (tensor<8x64x64xf32>, tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
  %4 = "cuesta.softmax"(%3) {dim = 2 : i64, safe = 1 : i64} : (tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
  %5 = "cuesta.mm"(%4, %q) : (tensor<8x64x64xf32>, tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
  %6 = "cuesta.mm"(%k, %k) : (tensor<8x64x64xf32>, tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
  %7 = "cuesta.softmax"(%6) {dim = 2 : i64, safe = 1 : i64} : (tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
  %8 = "cuesta.mm"(%7, %wide) : (tensor<8x64x64xf32>, tensor<8x64x256xf32>) -> tensor<8x64x256xf32>
  return %2, %5, %4, %8 : tensor<8x64x64xf32>, tensor<8x64x64xf32>, tensor<8x64x64xf32>, tensor<8x64x256xf32>
}
}

// -----

// Heads that the model merged for the products are dims of their own again: the mask, which has none, is read as it is,
// and so are keys whose heads are strided.
// CHECK-LABEL: func.func @merged
// CHECK-DAG: %[[Q:.*]] = "cuesta.permute"(%arg0) {dims = [0, 2, 1, 3]}
// CHECK-DAG: %[[K:.*]] = "cuesta.permute"(%{{.*}}) {dims = [0, 1, 3, 2]} : (tensor<2x4x256x64xbf16>) -> tensor<2x4x64x256xbf16>
// CHECK: %[[S:.*]] = "cuesta.mm"(%[[Q]], %[[K]]) {product = "64x64x64/4/3"} : {{.*}} -> tensor<2x4x256x256xf32>
// CHECK: %[[T:.*]] = "cuesta.add"(%{{.*}}, %arg3) : (tensor<2x4x256x256xbf16>, tensor<2x1x256x256xbf16>) -> tensor<2x4x256x256xbf16>
// CHECK: "cuesta.softmax_mm"(%[[T]], %{{.*}}) {product = "64x64x64/4/3", safe = 1 : i64}
module attributes {cuesta.target = "cuda:90"} {
func.func @merged(%q: tensor<2x256x4x64xbf16>, %k: tensor<2x256x4x64xbf16>, %v: tensor<2x256x4x64xbf16>, %mask: tensor<2x1x256x256xbf16>) -> tensor<8x256x64xbf16> {
  %0 = "cuesta.permute"(%q) {dims = [0, 2, 1, 3]} : (tensor<2x256x4x64xbf16>) -> tensor<2x4x256x64xbf16>
  %1 = "cuesta.permute"(%k) {dims = [0, 2, 1, 3]} : (tensor<2x256x4x64xbf16>) -> tensor<2x4x256x64xbf16>
  %2 = "cuesta.permute"(%v) {dims = [0, 2, 1, 3]} : (tensor<2x256x4x64xbf16>) -> tensor<2x4x256x64xbf16>
  %3 = "cuesta.reshape"(%0) : (tensor<2x4x256x64xbf16>) -> tensor<8x256x64xbf16>
  %4 = "cuesta.reshape"(%1) : (tensor<2x4x256x64xbf16>) -> tensor<8x256x64xbf16>
  %5 = "cuesta.reshape"(%2) : (tensor<2x4x256x64xbf16>) -> tensor<8x256x64xbf16>
  %6 = "cuesta.permute"(%4) {dims = [0, 2, 1]} : (tensor<8x256x64xbf16>) -> tensor<8x64x256xbf16>
  %7 = "cuesta.mm"(%3, %6) : (tensor<8x256x64xbf16>, tensor<8x64x256xbf16>) -> tensor<8x256x256xbf16>
  %8 = "cuesta.reshape"(%7) : (tensor<8x256x256xbf16>) -> tensor<2x4x256x256xbf16>
  %9 = "cuesta.add"(%8, %mask) : (tensor<2x4x256x256xbf16>, tensor<2x1x256x256xbf16>) -> tensor<2x4x256x256xbf16>
  %10 = "cuesta.reshape"(%9) : (tensor<2x4x256x256xbf16>) -> tensor<8x256x256xbf16>
  %11 = "cuesta.softmax"(%10) {dim = 2 : i64, safe = 1 : i64} : (tensor<8x256x256xbf16>) -> tensor<8x256x256xbf16>
  %12 = "cuesta.mm"(%11, %5) : (tensor<8x256x256xbf16>, tensor<8x256x64xbf16>) -> tensor<8x256x64xbf16>
  return %12 : tensor<8x256x64xbf16>
}
}
