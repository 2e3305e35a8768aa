// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries{attention=kernel})' --split-input-file %s | filecheck %s

// The gradients of keys and values: each product has a factor of its own, computed transposed from the products that it
// needs, of the narrow factors. The ops of each have its number.
// CHECK-LABEL: func.func @gradients
// CHECK-SAME: (%[[Q:.*]]: tensor<8x256x64xbf16>, %[[K:.*]]: tensor<8x256x64xbf16>, %[[V:.*]]: tensor<8x256x64xbf16>, %[[G:.*]]: tensor<8x256x64xbf16>, %[[L:.*]]: tensor<8x256x1xf32>)
// CHECK: %[[S:.*]] = "cuesta.mm"({{.*}}) {cuesta.part = 0 : i64, product = "64x64x64/4/3"} : (tensor<8x256x64xbf16>, tensor<8x64x256xbf16>) -> tensor<8x256x256xf32>
// CHECK: %[[P:.*]] = "cuesta.mm"({{.*}}) {cuesta.part = 0 : i64, product = "64x64x64/4/3"}
// CHECK: %[[LT:.*]] = "cuesta.permute"(%[[L]]) {dims = [0, 2, 1]} : (tensor<8x256x1xf32>) -> tensor<8x1x256xf32>
// CHECK: %[[D:.*]] = "cuesta.sub"(%[[S]], %[[LT]]) {cuesta.part = 0 : i64}
// CHECK: %[[E:.*]] = "cuesta.exp"(%[[D]]) {cuesta.part = 0 : i64}
// CHECK: %[[F:.*]] = "cuesta.mul"(%[[E]], %[[P]]) {cuesta.part = 0 : i64}
// CHECK: %[[N:.*]] = "cuesta.convert"(%[[F]]) {cuesta.part = 0 : i64}
// CHECK: "cuesta.mm"(%[[N]], %[[Q]]) {computed, product = "64x64x64/4/3"} : (tensor<8x256x256xbf16>, tensor<8x256x64xbf16>) -> tensor<8x256x64xf32>
// CHECK: "cuesta.mm"({{.*}}) {cuesta.part = 1 : i64, product = "64x64x64/4/3"}
// CHECK: %[[W:.*]] = "cuesta.convert"(%{{.*}}) {cuesta.part = 1 : i64} : {{.*}} -> tensor<8x256x256xbf16>
// CHECK: "cuesta.mm"(%[[W]], %[[G]]) {computed,
// CHECK-NOT: aten.call
module attributes {cuesta.target = "cuda:90"} {
func.func @gradients(%q: tensor<8x256x64xbf16>, %k: tensor<8x256x64xbf16>, %v: tensor<8x256x64xbf16>, %g: tensor<8x256x64xbf16>, %l: tensor<8x256x1xf32>) -> (tensor<8x256x64xbf16>, tensor<8x256x64xbf16>) {
  %qw = "cuesta.convert"(%q) : (tensor<8x256x64xbf16>) -> tensor<8x256x64xf32>
  %kt = "cuesta.permute"(%k) {dims = [0, 2, 1]} : (tensor<8x256x64xbf16>) -> tensor<8x64x256xbf16>
  %kw = "cuesta.convert"(%kt) : (tensor<8x64x256xbf16>) -> tensor<8x64x256xf32>
  %s = "cuesta.mm"(%qw, %kw) : (tensor<8x256x64xf32>, tensor<8x64x256xf32>) -> tensor<8x256x256xf32>
  %d = "cuesta.sub"(%s, %l) : (tensor<8x256x256xf32>, tensor<8x256x1xf32>) -> tensor<8x256x256xf32>
  %p = "cuesta.exp"(%d) : (tensor<8x256x256xf32>) -> tensor<8x256x256xf32>
  %gw = "cuesta.convert"(%g) : (tensor<8x256x64xbf16>) -> tensor<8x256x64xf32>
  %vt = "cuesta.permute"(%v) {dims = [0, 2, 1]} : (tensor<8x256x64xbf16>) -> tensor<8x64x256xbf16>
  %vw = "cuesta.convert"(%vt) : (tensor<8x64x256xbf16>) -> tensor<8x64x256xf32>
  %dp = "cuesta.mm"(%gw, %vw) : (tensor<8x256x64xf32>, tensor<8x64x256xf32>) -> tensor<8x256x256xf32>
  %ds = "cuesta.mul"(%p, %dp) : (tensor<8x256x256xf32>, tensor<8x256x256xf32>) -> tensor<8x256x256xf32>
  %dsn = "cuesta.convert"(%ds) : (tensor<8x256x256xf32>) -> tensor<8x256x256xbf16>
  %dst = "cuesta.permute"(%dsn) {dims = [0, 2, 1]} : (tensor<8x256x256xbf16>) -> tensor<8x256x256xbf16>
  %dk = "cuesta.mm"(%dst, %q) : (tensor<8x256x256xbf16>, tensor<8x256x64xbf16>) -> tensor<8x256x64xbf16>
  %pn = "cuesta.convert"(%p) : (tensor<8x256x256xf32>) -> tensor<8x256x256xbf16>
  %pt = "cuesta.permute"(%pn) {dims = [0, 2, 1]} : (tensor<8x256x256xbf16>) -> tensor<8x256x256xbf16>
  %dv = "cuesta.mm"(%pt, %g) : (tensor<8x256x256xbf16>, tensor<8x256x64xbf16>) -> tensor<8x256x64xbf16>
  return %dk, %dv : tensor<8x256x64xbf16>, tensor<8x256x64xbf16>
}
}

// -----

// Without a batch the left factor is a layer's input, and a row of 256 is too wide: both stay products of their own.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-4: aten.call
module attributes {cuesta.target = "cuda:90"} {
func.func @others(%x: tensor<512x64xbf16>, %w: tensor<64x512xbf16>, %u: tensor<512x64xbf16>, %a: tensor<8x64x64xbf16>, %b: tensor<8x64x64xbf16>, %c: tensor<8x64x256xbf16>) -> (tensor<512x64xbf16>, tensor<8x64x256xbf16>) {
  %0 = "cuesta.mm"(%x, %w) : (tensor<512x64xbf16>, tensor<64x512xbf16>) -> tensor<512x512xbf16>
  %1 = "cuesta.relu"(%0) : (tensor<512x512xbf16>) -> tensor<512x512xbf16>
  %2 = "cuesta.mm"(%1, %u) : (tensor<512x512xbf16>, tensor<512x64xbf16>) -> tensor<512x64xbf16>
  %3 = "cuesta.mm"(%a, %b) : (tensor<8x64x64xbf16>, tensor<8x64x64xbf16>) -> tensor<8x64x64xbf16>
  %4 = "cuesta.relu"(%3) : (tensor<8x64x64xbf16>) -> tensor<8x64x64xbf16>
  %5 = "cuesta.mm"(%4, %c) : (tensor<8x64x64xbf16>, tensor<8x64x256xbf16>) -> tensor<8x64x256xbf16>
  return %2, %5 : tensor<512x64xbf16>, tensor<8x64x256xbf16>
}
}

// -----

// A product that is repeated for another dim has fewer elements than the factor: it stays.
// CHECK-LABEL: func.func @repeated
// CHECK-COUNT-2: aten.call
module attributes {cuesta.target = "cuda:90"} {
func.func @repeated(%a: tensor<8x64x64xbf16>, %b: tensor<8x64x64xbf16>, %c: tensor<2x8x64x64xbf16>, %d: tensor<16x64x64xbf16>) -> tensor<16x64x64xbf16> {
  %0 = "cuesta.mm"(%a, %b) : (tensor<8x64x64xbf16>, tensor<8x64x64xbf16>) -> tensor<8x64x64xbf16>
  %1 = "cuesta.add"(%0, %c) : (tensor<8x64x64xbf16>, tensor<2x8x64x64xbf16>) -> tensor<2x8x64x64xbf16>
  %2 = "cuesta.reshape"(%1) : (tensor<2x8x64x64xbf16>) -> tensor<16x64x64xbf16>
  %3 = "cuesta.mm"(%2, %d) : (tensor<16x64x64xbf16>, tensor<16x64x64xbf16>) -> tensor<16x64x64xbf16>
  return %3 : tensor<16x64x64xbf16>
}
}

// -----

// A mask of powers is the same for each matrix of a batch, and for both products: the powers are computed once, and each
// product reads them. It chooses between them and 0 itself, which tells where its factor is 0.
// CHECK-LABEL: func.func @powers
// CHECK: %[[POWERS:.*]] = "cuesta.pow"(
// CHECK-NOT: cuesta.pow
// CHECK: "cuesta.where"(%{{.*}}, %[[POWERS]], %{{.*}}) {cuesta.part = 0 : i64}
// CHECK: {computed,
// CHECK: "cuesta.where"(%{{.*}}, %[[POWERS]], %{{.*}}) {cuesta.part = 1 : i64}
// CHECK: {computed,
// CHECK-NOT: aten.call
module attributes {cuesta.target = "cuda:90"} {
func.func @powers(%q: tensor<32x256x64xbf16>, %k: tensor<32x64x256xbf16>, %v: tensor<32x256x64xbf16>, %base: tensor<8x1x1xf32>) -> tensor<32x256x64xbf16> {
  %i = "cuesta.iota"() {start = 0.0 : f64, step = 1.0 : f64} : () -> tensor<256xf32>
  %rows = "cuesta.reshape"(%i) : (tensor<256xf32>) -> tensor<256x1xf32>
  %d = "cuesta.sub"(%rows, %i) : (tensor<256x1xf32>, tensor<256xf32>) -> tensor<256x256xf32>
  %zero = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<f32>
  %seen = "cuesta.ge"(%d, %zero) : (tensor<256x256xf32>, tensor<f32>) -> tensor<256x256xi1>
  %p = "cuesta.pow"(%base, %d) : (tensor<8x1x1xf32>, tensor<256x256xf32>) -> tensor<8x256x256xf32>
  %mask = "cuesta.where"(%seen, %p, %zero) : (tensor<256x256xi1>, tensor<8x256x256xf32>, tensor<f32>) -> tensor<8x256x256xf32>
  %s = "cuesta.mm"(%q, %k) : (tensor<32x256x64xbf16>, tensor<32x64x256xbf16>) -> tensor<32x256x256xbf16>
  %s4 = "cuesta.reshape"(%s) : (tensor<32x256x256xbf16>) -> tensor<4x8x256x256xbf16>
  %w = "cuesta.convert"(%s4) : (tensor<4x8x256x256xbf16>) -> tensor<4x8x256x256xf32>
  %f = "cuesta.mul"(%w, %mask) : (tensor<4x8x256x256xf32>, tensor<8x256x256xf32>) -> tensor<4x8x256x256xf32>
  %n = "cuesta.convert"(%f) : (tensor<4x8x256x256xf32>) -> tensor<4x8x256x256xbf16>
  %a = "cuesta.reshape"(%n) : (tensor<4x8x256x256xbf16>) -> tensor<32x256x256xbf16>
  %x = "cuesta.mm"(%a, %v) : (tensor<32x256x256xbf16>, tensor<32x256x64xbf16>) -> tensor<32x256x64xbf16>
  %t = "cuesta.mm"(%x, %k) : (tensor<32x256x64xbf16>, tensor<32x64x256xbf16>) -> tensor<32x256x256xbf16>
  %t4 = "cuesta.reshape"(%t) : (tensor<32x256x256xbf16>) -> tensor<4x8x256x256xbf16>
  %u = "cuesta.convert"(%t4) : (tensor<4x8x256x256xbf16>) -> tensor<4x8x256x256xf32>
  %g = "cuesta.mul"(%u, %mask) : (tensor<4x8x256x256xf32>, tensor<8x256x256xf32>) -> tensor<4x8x256x256xf32>
  %m = "cuesta.convert"(%g) : (tensor<4x8x256x256xf32>) -> tensor<4x8x256x256xbf16>
  %b = "cuesta.reshape"(%m) : (tensor<4x8x256x256xbf16>) -> tensor<32x256x256xbf16>
  %y = "cuesta.mm"(%b, %v) : (tensor<32x256x256xbf16>, tensor<32x256x64xbf16>) -> tensor<32x256x64xbf16>
  return %y : tensor<32x256x64xbf16>
}
}
