// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// Each of 4 warps multiplies its own 32 of the 128 terms that a step of the loop takes. What follows is loaded before
// the loop, and works on the sums of all warps. First the program's rows of the weight, which lie side by side, are
// asked for: one thread asks for all.
// CHECK-LABEL: "tt.func"
// CHECK: %[[P:.*]] = "tt.addptr"(%{{.*}}, %{{.*}}) : (!tt.ptr<bf16>, i32) -> !tt.ptr<bf16>
// CHECK: "tt.elementwise_inline_asm"(%[[P]]) {asm_string = "{{.*}}setp.lt.u32 p, t, 1;{{.*}}prefetch.L2.global [a], 32768;
// CHECK: %[[RESIDUAL:.*]] = "tt.load"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<16x32xbf16>
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<4x16x32xf32>
// CHECK: %[[SUMS:.*]] = scf.for %{{.*}} iter_args(%[[ACC:.*]] = %[[ZERO]])
// CHECK: %[[A:.*]] = "tt.load"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<4x16x32xbf16>
// CHECK: %[[B:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<4x32x32xbf16>
// CHECK: %[[NEXT:.*]] = "tt.dot"(%[[A]], %[[B]], %[[ACC]])
// CHECK: scf.yield %[[NEXT]]
// CHECK: %[[SUM:.*]] = "tt.reduce"(%[[SUMS]]) ({
// CHECK: }) {axis = 0 : i32} : (tensor<4x16x32xf32>) -> tensor<16x32xf32>
// CHECK: arith.truncf %[[SUM]]
// CHECK: "tt.store"
// CHECK: cuesta.grid = [8, 1, 1], cuesta.stages = 4 : i64, cuesta.warps = 4
// CHECK-NOT: "tt.func"
func.func @graph(%a: tensor<8x512xbf16> {cuesta.strides = [512, 1]}, %w: tensor<256x512xbf16> {cuesta.strides = [512, 1]}, %c: tensor<8x256xbf16> {cuesta.strides = [256, 1]}) -> (tensor<8x256xbf16> {cuesta.strides = [256, 1]}) {
  %b = "cuesta.permute"(%w) {dims = [1, 0]} : (tensor<256x512xbf16>) -> tensor<512x256xbf16>
  %0 = "cuesta.mm"(%a, %b) {product = "16x32x128/4/4 along K"} : (tensor<8x512xbf16>, tensor<512x256xbf16>) -> tensor<8x256xf32>
  %1 = "cuesta.convert"(%0) : (tensor<8x256xf32>) -> tensor<8x256xbf16>
  %2 = "cuesta.add"(%1, %c) : (tensor<8x256xbf16>, tensor<8x256xbf16>) -> tensor<8x256xbf16>
  return %2 : tensor<8x256xbf16>
}

// -----
// Beyond the end of K the terms of both operands are 0, in whichever warp's part they are.
// CHECK-LABEL: "tt.func"
// CHECK: scf.for
// CHECK: "tt.load"(%{{.*}}, %{{.*}}, %{{.*}}) {{.*}} -> tensor<2x16x32xbf16>
// CHECK: "tt.load"(%{{.*}}, %{{.*}}, %{{.*}}) {{.*}} -> tensor<2x32x16xbf16>
// CHECK: "tt.dot"
// CHECK: "tt.reduce"
func.func @graph(%a: tensor<16x200xbf16> {cuesta.strides = [200, 1]}, %w: tensor<64x200xbf16> {cuesta.strides = [200, 1]}) -> (tensor<16x64xf32> {cuesta.strides = [64, 1]}) {
  %b = "cuesta.permute"(%w) {dims = [1, 0]} : (tensor<64x200xbf16>) -> tensor<200x64xbf16>
  %0 = "cuesta.mm"(%a, %b) {product = "16x16x64/2/3 along K"} : (tensor<16x200xbf16>, tensor<200x64xbf16>) -> tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}

// -----
// A mask that would part the 16 bytes of a load comes after the loop, for the rest of K: of a block in which each warp
// has 16 terms. Of rows that do not end where the next begins, each is asked for by a thread.
// CHECK-LABEL: "tt.func"
// CHECK: "tt.elementwise_inline_asm"({{.*}}setp.lt.u32 p, t, 16; mad.wide.u32 a, t, 400, $1;{{.*}}prefetch.L2.global [a], 384;
// CHECK: scf.for
// CHECK: "tt.load"(%{{[0-9]+}}) {{.*}} -> tensor<2x16x32xbf16>
// CHECK: "tt.load"(%{{[0-9]+}}) {{.*}} -> tensor<2x32x16xbf16>
// CHECK: scf.yield
// CHECK: "tt.load"(%{{.*}}, %{{.*}}, %{{.*}}) {{.*}} -> tensor<2x16x16xbf16>
// CHECK: "tt.load"(%{{.*}}, %{{.*}}, %{{.*}}) {{.*}} -> tensor<2x16x16xbf16>
// CHECK: "tt.dot"
// CHECK: "tt.reduce"
func.func @graph(%a: tensor<16x196xbf16> {cuesta.strides = [200, 1]}, %b: tensor<196x64xbf16> {cuesta.strides = [1, 200]}) -> (tensor<16x64xf32> {cuesta.strides = [64, 1]}) {
  %0 = "cuesta.mm"(%a, %b) {product = "16x16x64/2/3 along K"} : (tensor<16x196xbf16>, tensor<196x64xbf16>) -> tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}

// -----
// What makes an operand is made on the warps' parts. One number for each row is computed outside the loop.
// CHECK-LABEL: "tt.func"
// CHECK: %[[ROW:.*]] = "tt.precise_sqrt"(%{{.*}}) : (tensor<16x1xf32>)
// CHECK: scf.for
// CHECK: "tt.expand_dims"(%[[ROW]]) {axis = 0 : i32} : (tensor<16x1xf32>) -> tensor<1x16x1xf32>
// CHECK: arith.mulf {{.*}} : tensor<2x16x16xf32>
// CHECK: "tt.dot"
func.func @graph(%x: tensor<16x64xf32> {cuesta.strides = [64, 1]}, %r: tensor<16xf32> {cuesta.strides = [1]}, %b: tensor<64x16xf32> {cuesta.strides = [1, 64]}) -> (tensor<16x16xf32> {cuesta.strides = [16, 1]}) {
  %q = "cuesta.sqrt"(%r) : (tensor<16xf32>) -> tensor<16xf32>
  %c = "cuesta.reshape"(%q) : (tensor<16xf32>) -> tensor<16x1xf32>
  %a = "cuesta.mul"(%x, %c) : (tensor<16x64xf32>, tensor<16x1xf32>) -> tensor<16x64xf32>
  %0 = "cuesta.mm"(%a, %b) {product = "16x16x32/2/3 along K"} : (tensor<16x64xf32>, tensor<64x16xf32>) -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}

// -----
// A weight of bytes is asked for as it is stored, and widened on the warps' parts.
// CHECK-LABEL: "tt.func"
// CHECK: "tt.elementwise_inline_asm"({{.*}}setp.lt.u32 p, t, 1;{{.*}}prefetch.L2.global [a], 4096;
// CHECK: scf.for
// CHECK: "tt.load"(%{{.*}}) {{.*}} -> tensor<2x32x16xi8>
// CHECK: "tt.dot"
func.func @graph(%x: tensor<8x256xbf16> {cuesta.strides = [256, 1]}, %w: tensor<256x64xi8> {cuesta.strides = [1, 256]}) -> (tensor<8x64xf32> {cuesta.strides = [64, 1]}) {
  %b = "cuesta.convert"(%w) : (tensor<256x64xi8>) -> tensor<256x64xbf16>
  %0 = "cuesta.mm"(%x, %b) {product = "16x16x64/2/3 along K"} : (tensor<8x256xbf16>, tensor<256x64xbf16>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}
