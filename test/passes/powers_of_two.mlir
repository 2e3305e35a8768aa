// RUN: cuesta-opt --pass-pipeline='builtin.module(powers-of-two)' --split-input-file %s | filecheck %s

// The scale of the scores moves below the mask and the rows' maximum, and becomes part of the power.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: %[[S:.*]] = "tt.dot"
// CHECK: %[[C:.*]] = arith.select %{{.*}}, %[[S]], %{{.*}} : tensor<64x64xi1>, tensor<64x64xf32>
// CHECK: %[[M:.*]] = "tt.reduce"(%[[C]])
// CHECK: %[[P:.*]] = arith.mulf %[[M]], %{{.*}} : tensor<64xf32>
// CHECK: %[[E:.*]] = "tt.expand_dims"(%[[P]])
// CHECK: %[[N:.*]] = arith.mulf %[[E]], %[[L:.*]] : tensor<64x1xf32>
// CHECK: %[[B:.*]] = "tt.broadcast"(%[[N]])
// CHECK: %[[F:.*]] = math.fma %[[C]], %{{.*}}, %[[B]]
// CHECK: %[[W:.*]] = "tt.elementwise_inline_asm"(%[[F]]) {asm_string = "ex2.approx.ftz.f32 $0, $1;"
// CHECK: arith.addf %[[W]], %[[W]]
// What is no difference, or of one number for each element, stays.
// CHECK-COUNT-2: math.exp
// CHECK-NOT: math.exp
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%a: tensor<64x64xbf16>, %b: tensor<64x64xbf16>, %o: tensor<64x64xf32>, %mask: tensor<64x64xi1>):
      %scale = arith.constant dense<1.25e-01> : tensor<64x64xf32>
      %hidden = arith.constant dense<0xFF800000> : tensor<64x64xf32>
      %s = "tt.dot"(%a, %b, %o) {inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32} : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %t = arith.mulf %s, %scale : tensor<64x64xf32>
      %c = arith.select %mask, %t, %hidden : tensor<64x64xi1>, tensor<64x64xf32>
      %m = "tt.reduce"(%c) ({
      ^bb0(%x: f32, %y: f32):
        %z = arith.maxnumf %x, %y : f32
        "tt.reduce.return"(%z) : (f32) -> ()
      }) {axis = 1 : i32} : (tensor<64x64xf32>) -> tensor<64xf32>
      %e = "tt.expand_dims"(%m) {axis = 1 : i32} : (tensor<64xf32>) -> tensor<64x1xf32>
      %w = "tt.broadcast"(%e) : (tensor<64x1xf32>) -> tensor<64x64xf32>
      %d = arith.subf %c, %w : tensor<64x64xf32>
      %p = math.exp %d : tensor<64x64xf32>
      %q = arith.addf %p, %p : tensor<64x64xf32>
      %n = arith.subf %c, %t : tensor<64x64xf32>
      %u = math.exp %n : tensor<64x64xf32>
      %v = math.exp %e : tensor<64x1xf32>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>, tensor<64x64xi1>) -> (), noinline = false, sym_name = "attention", sym_visibility = "public"} : () -> ()
  }
}

// -----

// Other GPUs have a power of two in Triton; a kernel of f32 factors keeps exp.
// CHECK-LABEL: module attributes {cuesta.target = "hip:gfx942"}
// CHECK: math.exp2
// CHECK: math.exp %
module attributes {cuesta.target = "hip:gfx942"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%a: tensor<64x64xbf16>, %b: tensor<64x64xbf16>, %o: tensor<64x64xf32>, %r: tensor<64x1xf32>):
      %s = "tt.dot"(%a, %b, %o) {inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32} : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %w = "tt.broadcast"(%r) : (tensor<64x1xf32>) -> tensor<64x64xf32>
      %d = arith.subf %s, %w : tensor<64x64xf32>
      %p = math.exp %d : tensor<64x64xf32>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>, tensor<64x1xf32>) -> (), noinline = false, sym_name = "narrow", sym_visibility = "public"} : () -> ()
    "tt.func"() ({
    ^bb0(%a: tensor<64x64xf32>, %o: tensor<64x64xf32>, %r: tensor<64x1xf32>):
      %s = "tt.dot"(%a, %a, %o) {inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %w = "tt.broadcast"(%r) : (tensor<64x1xf32>) -> tensor<64x64xf32>
      %d = arith.subf %s, %w : tensor<64x64xf32>
      %p = math.exp %d : tensor<64x64xf32>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x1xf32>) -> (), noinline = false, sym_name = "wide", sym_visibility = "public"} : () -> ()
  }
}

// -----

// In a kernel without products: powers of what lies below a maximum that is larger, where they are only added up.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: %[[M:.*]] = arith.maximumf
// CHECK: %[[NEW:.*]] = arith.maximumf %[[M]]
// CHECK: %[[D:.*]] = arith.subf %{{.*}}, %[[NEW]]
// CHECK: %[[E:.*]] = arith.mulf %[[D]], %{{.*}} : tensor<256xf32>
// CHECK: "tt.elementwise_inline_asm"(%[[E]]) {asm_string = "ex2.approx.ftz.f32 $0, $1;"
// CHECK: "tt.elementwise_inline_asm"
// CHECK-NOT: "tt.elementwise_inline_asm"
// One that is used otherwise stays, and one whose number is none of those that the maximum is of.
// CHECK-COUNT-2: math.exp
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%high: tensor<256xf32>, %sum: tensor<256xf32>, %x: tensor<256xf32>, %z: tensor<256xf32>):
      %m = arith.maximumf %high, %z : tensor<256xf32>
      %new = arith.maximumf %m, %x : tensor<256xf32>
      %d = arith.subf %high, %new : tensor<256xf32>
      %e = math.exp %d : tensor<256xf32>
      %f = arith.mulf %sum, %e : tensor<256xf32>
      %g = arith.subf %x, %new : tensor<256xf32>
      %h = math.exp %g : tensor<256xf32>
      %i = arith.addf %f, %h : tensor<256xf32>
      %j = arith.subf %z, %new : tensor<256xf32>
      %k = math.exp %j : tensor<256xf32>
      %l = arith.divf %k, %i : tensor<256xf32>
      %n = arith.subf %sum, %new : tensor<256xf32>
      %o = math.exp %n : tensor<256xf32>
      %p = arith.addf %o, %l : tensor<256xf32>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>) -> (), noinline = false, sym_name = "running", sym_visibility = "public"} : () -> ()
  }
}
