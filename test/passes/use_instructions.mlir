// RUN: cuesta-opt --pass-pipeline='builtin.module(use-instructions)' --split-input-file %s | filecheck %s

// What is rounded to bf16 between two ops is so in pairs, once for all readers.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: %[[R:.*]] = "tt.elementwise_inline_asm"(%[[X:.*]]) {asm_string = "{ .reg .b32 t; cvt.rn.bf16x2.f32 t, $3, $2; shl.b32 $0, t, 16; and.b32 $1, t, 0xFFFF0000; }", constraints = "=r,=r,r,r", packed_element = 2 : i32, pure = true} : (tensor<256xf32>) -> tensor<256xf32>
// CHECK: arith.addf %[[R]], %[[R]]
// What is stored as well is rounded so first, and what is only chosen from stays narrow.
// CHECK: %[[S:.*]] = "tt.elementwise_inline_asm"
// CHECK: %[[N:.*]] = arith.truncf %[[S]]
// CHECK: arith.addf %[[S]], %[[S]]
// CHECK: "tt.store"(%{{.*}}, %[[N]])
// CHECK: arith.truncf
// CHECK: arith.extf
// CHECK: arith.select
// One product of numbers of bf16 LLVM computes in pairs.
// CHECK: arith.mulf
// CHECK: arith.truncf
// CHECK: arith.extf
// 1 / (1 + exp(-x)), and a quotient by it.
// CHECK: %[[L:.*]] = "tt.elementwise_inline_asm"(%[[Y:.*]]) {asm_string = "{ .reg .f32 t; mul.rn.f32 t, $1, 0fBFB8AA3B; ex2.approx.ftz.f32 t, t; add.rn.f32 t, t, 0f3F800000; rcp.approx.ftz.f32 $0, t; }", constraints = "=r,r", packed_element = 1 : i32, pure = true} : (tensor<256xf32>) -> tensor<256xf32>
// CHECK: arith.addf %[[L]], %[[L]]
// CHECK: %[[M:.*]] = "tt.elementwise_inline_asm"(%[[Y]])
// CHECK: arith.mulf %[[Y]], %[[M]]
// A quotient that is rounded correctly is one still.
// CHECK: "tt.precise_divf"
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<256xf32>, %p: tensor<256x!tt.ptr<bf16>>, %mask: tensor<256xi1>, %b: tensor<256xbf16>):
      %n = arith.truncf %x : tensor<256xf32> to tensor<256xbf16>
      %w = arith.extf %n : tensor<256xbf16> to tensor<256xf32>
      %v = arith.extf %n : tensor<256xbf16> to tensor<256xf32>
      %y = arith.addf %w, %v : tensor<256xf32>
      %ns = arith.truncf %y : tensor<256xf32> to tensor<256xbf16>
      %ws = arith.extf %ns : tensor<256xbf16> to tensor<256xf32>
      %ys = arith.addf %ws, %ws : tensor<256xf32>
      "tt.store"(%p, %ns) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<256x!tt.ptr<bf16>>, tensor<256xbf16>) -> ()
      %nc = arith.truncf %ys : tensor<256xf32> to tensor<256xbf16>
      %wc = arith.extf %nc : tensor<256xbf16> to tensor<256xf32>
      %c = arith.select %mask, %wc, %ys : tensor<256xi1>, tensor<256xf32>
      %cc = arith.truncf %c : tensor<256xf32> to tensor<256xbf16>
      %a = arith.extf %b : tensor<256xbf16> to tensor<256xf32>
      %ab = arith.mulf %a, %a : tensor<256xf32>
      %np = arith.truncf %ab : tensor<256xf32> to tensor<256xbf16>
      %wp = arith.extf %np : tensor<256xbf16> to tensor<256xf32>
      %yp = arith.addf %wp, %y : tensor<256xf32>
      %o = arith.constant dense<1.0> : tensor<1xf32>
      %one = "tt.broadcast"(%o) : (tensor<1xf32>) -> tensor<256xf32>
      %zero = arith.constant dense<-0.0> : tensor<256xf32>
      %m = arith.subf %zero, %y : tensor<256xf32>
      %e = math.exp %m : tensor<256xf32>
      %t = arith.addf %one, %e : tensor<256xf32>
      %s = arith.divf %one, %t : tensor<256xf32>
      %ss = arith.addf %s, %s : tensor<256xf32>
      %q = arith.divf %y, %t : tensor<256xf32>
      %r = "tt.precise_divf"(%one, %t) : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<256xf32>, tensor<256x!tt.ptr<bf16>>, tensor<256xi1>, tensor<256xbf16>) -> (), noinline = false, sym_name = "silu", sym_visibility = "public"} : () -> ()
  }
}

// -----

// Other GPUs convert there and back.
// CHECK-LABEL: module attributes {cuesta.target = "hip:gfx942"}
// CHECK: arith.truncf
// CHECK: arith.extf
module attributes {cuesta.target = "hip:gfx942"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<256xf32>):
      %n = arith.truncf %x : tensor<256xf32> to tensor<256xbf16>
      %w = arith.extf %n : tensor<256xbf16> to tensor<256xf32>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<256xf32>) -> (), noinline = false, sym_name = "round", sym_visibility = "public"} : () -> ()
  }
}

// -----

// A quotient by a constant that is rounded to 16 bits after sums and products is a product; others are rounded correctly.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: %[[R:.*]] = arith.constant dense<0.333333343> : tensor<256xf32>
// CHECK: %[[Q:.*]] = arith.mulf %{{.*}}, %[[R]]
// CHECK: arith.addf %[[Q]]
// CHECK-COUNT-3: "tt.precise_divf"
// CHECK-NOT: "tt.precise_divf"
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<256xf32>, %y: tensor<256xf32>):
      %c = arith.constant dense<3.0> : tensor<1xf32>
      %three = "tt.broadcast"(%c) : (tensor<1xf32>) -> tensor<256xf32>
      %q = "tt.precise_divf"(%x, %three) : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
      %s = arith.addf %q, %y : tensor<256xf32>
      %n = arith.truncf %s : tensor<256xf32> to tensor<256xbf16>
      %kept = "tt.precise_divf"(%y, %three) : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
      %down = math.floor %kept : tensor<256xf32>
      %stored = "tt.precise_divf"(%x, %three) : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
      %both = arith.addf %stored, %down : tensor<256xf32>
      %less = arith.cmpf olt, %both, %x : tensor<256xf32>
      %other = "tt.precise_divf"(%x, %y) : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
      %rounded = arith.truncf %other : tensor<256xf32> to tensor<256xbf16>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<256xf32>, tensor<256xf32>) -> (), noinline = false, sym_name = "quotients", sym_visibility = "public"} : () -> ()
  }
}

// -----

// What is rounded, bounded by a number that bf16 holds, and rounded again, is rounded once, whether it is stored or not.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: ^bb0(%[[X:.*]]: tensor<256xf32>, %[[P:.*]]: tensor<256x!tt.ptr<bf16>>)
// CHECK: %[[R:.*]] = "tt.elementwise_inline_asm"(%[[X]])
// CHECK: %[[M:.*]] = arith.maximumf %[[R]]
// CHECK: %[[T:.*]] = arith.truncf %[[M]]
// CHECK: "tt.store"(%[[P]], %[[T]])
// CHECK: arith.addf %[[M]], %[[X]]
// What is only stored is rounded by LLVM.
// CHECK-NOT: "tt.elementwise_inline_asm"
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<256xf32>, %p: tensor<256x!tt.ptr<bf16>>):
      %zero = arith.constant dense<0.0> : tensor<256xf32>
      %n = arith.truncf %x : tensor<256xf32> to tensor<256xbf16>
      %w = arith.extf %n : tensor<256xbf16> to tensor<256xf32>
      %m = arith.maximumf %w, %zero : tensor<256xf32>
      %r = arith.truncf %m : tensor<256xf32> to tensor<256xbf16>
      "tt.store"(%p, %r) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<256x!tt.ptr<bf16>>, tensor<256xbf16>) -> ()
      %v = arith.extf %r : tensor<256xbf16> to tensor<256xf32>
      %s = arith.addf %v, %x : tensor<256xf32>
      %last = arith.truncf %s : tensor<256xf32> to tensor<256xbf16>
      "tt.store"(%p, %last) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<256x!tt.ptr<bf16>>, tensor<256xbf16>) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<256xf32>, tensor<256x!tt.ptr<bf16>>) -> (), noinline = false, sym_name = "relu", sym_visibility = "public"} : () -> ()
  }
}

// -----

// What a loop hands on is computed with, whatever follows: an op without results, such as the loop's end, is no sum.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: scf.for
// CHECK: "tt.elementwise_inline_asm"
// CHECK: scf.yield
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<256xf32>):
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c8 = arith.constant 8 : i32
      %most = scf.for %i = %c0 to %c8 step %c1 iter_args(%m = %x) -> (tensor<256xf32>) : i32 {
        %e = math.sqrt %m : tensor<256xf32>
        %n = arith.truncf %e : tensor<256xf32> to tensor<256xbf16>
        %w = arith.extf %n : tensor<256xbf16> to tensor<256xf32>
        scf.yield %w : tensor<256xf32>
      }
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<256xf32>) -> (), noinline = false, sym_name = "handed_on", sym_visibility = "public"} : () -> ()
  }
}

// -----

// What is loaded for many sums of products alone is widened in pairs; what is read in another way LLVM may compute in
// bf16, and what few sums read is left alone.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: %[[X:.*]] = "tt.load"
// CHECK: %[[W:.*]] = "tt.elementwise_inline_asm"(%[[X]]) {asm_string = "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xFFFF0000;", constraints = "=r,=r,r", packed_element = 2 : i32, pure = true} : (tensor<256xbf16>) -> tensor<256xf32>
// CHECK-COUNT-7: math.fma %[[W]]
// CHECK: %[[Y:.*]] = "tt.load"
// CHECK: %[[V:.*]] = arith.extf %[[Y]]
// CHECK: arith.addf %[[V]]
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%p: tensor<256x!tt.ptr<bf16>>, %w: tensor<256xf32>):
      %x = "tt.load"(%p) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<256x!tt.ptr<bf16>>) -> tensor<256xbf16>
      %wide = arith.extf %x : tensor<256xbf16> to tensor<256xf32>
      %s0 = math.fma %wide, %w, %w : tensor<256xf32>
      %s1 = math.fma %wide, %w, %s0 : tensor<256xf32>
      %s2 = math.fma %wide, %w, %s1 : tensor<256xf32>
      %s3 = math.fma %wide, %w, %s2 : tensor<256xf32>
      %s4 = math.fma %wide, %w, %s3 : tensor<256xf32>
      %s5 = math.fma %wide, %w, %s4 : tensor<256xf32>
      %two = math.fma %wide, %w, %s5 : tensor<256xf32>
      %y = "tt.load"(%p) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<256x!tt.ptr<bf16>>) -> tensor<256xbf16>
      %more = arith.extf %y : tensor<256xbf16> to tensor<256xf32>
      %three = math.fma %more, %w, %two : tensor<256xf32>
      %total = arith.addf %more, %three : tensor<256xf32>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<256x!tt.ptr<bf16>>, tensor<256xf32>) -> (), noinline = false, sym_name = "widened", sym_visibility = "public"} : () -> ()
  }
}

// -----

// A divisor that repeats along the block has one reciprocal for all, which is computed where the divisor is. A power of
// two, which a denormal is multiplied by first, keeps it finite.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: "tt.func"
// CHECK: ^bb0(%[[X:.*]]: tensor<4x64xf32>, %[[D:.*]]: tensor<1x64xf32>, %{{.*}}: tensor<4x64x!tt.ptr<bf16>>):
// CHECK: %[[S:.*]] = arith.select
// CHECK: %[[P:.*]] = arith.mulf %[[D]], %[[S]] : tensor<1x64xf32>
// CHECK: %[[R:.*]] = "tt.precise_divf"(%{{.*}}, %[[P]]) : (tensor<1x64xf32>, tensor<1x64xf32>)
// CHECK: scf.for
// CHECK: %[[SS:.*]] = "tt.broadcast"(%[[S]])
// CHECK: %[[RS:.*]] = "tt.broadcast"(%[[R]])
// CHECK: %[[M:.*]] = arith.mulf %[[X]], %[[SS]]
// CHECK: arith.mulf %[[M]], %[[RS]]
// CHECK-NOT: tt.precise_divf
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<4x64xf32>, %d: tensor<1x64xf32>, %p: tensor<4x64x!tt.ptr<bf16>>):
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c8 = arith.constant 8 : i32
      scf.for %i = %c0 to %c8 step %c1 : i32 {
        %all = "tt.broadcast"(%d) : (tensor<1x64xf32>) -> tensor<4x64xf32>
        %q = "tt.precise_divf"(%x, %all) : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
        %n = arith.truncf %q : tensor<4x64xf32> to tensor<4x64xbf16>
        "tt.store"(%p, %n) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<4x64x!tt.ptr<bf16>>, tensor<4x64xbf16>) -> ()
      }
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<4x64xf32>, tensor<1x64xf32>, tensor<4x64x!tt.ptr<bf16>>) -> (), noinline = false, sym_name = "repeated", sym_visibility = "public"} : () -> ()
  }
}

// -----

// A quotient that is stored as it is gets what its remainder adds.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: ^bb0(%[[X:.*]]: tensor<4x64xf32>, %[[D:.*]]: tensor<1x64xf32>, %{{.*}}: tensor<4x64x!tt.ptr<f32>>):
// CHECK: %[[P:.*]] = arith.mulf %[[D]], %{{.*}} : tensor<1x64xf32>
// CHECK: %[[R:.*]] = "tt.precise_divf"(%{{.*}}, %[[P]]) : (tensor<1x64xf32>, tensor<1x64xf32>)
// CHECK: %[[RS:.*]] = "tt.broadcast"(%[[R]])
// CHECK: %[[M:.*]] = arith.mulf %[[X]], %{{.*}}
// CHECK: %[[Q:.*]] = arith.mulf %[[M]], %[[RS]]
// CHECK: %[[N:.*]] = arith.subf %{{.*}}, %[[Q]]
// CHECK: %[[PS:.*]] = "tt.broadcast"(%[[P]])
// CHECK: %[[REST:.*]] = math.fma %[[N]], %[[PS]], %[[M]]
// CHECK: %[[LESS:.*]] = arith.cmpf olt
// CHECK: %[[F:.*]] = math.fma %[[REST]], %[[RS]], %[[Q]]
// CHECK: arith.select %[[LESS]], %[[F]], %[[Q]]
// CHECK-NOT: tt.precise_divf
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<4x64xf32>, %d: tensor<1x64xf32>, %p: tensor<4x64x!tt.ptr<f32>>):
      %all = "tt.broadcast"(%d) : (tensor<1x64xf32>) -> tensor<4x64xf32>
      %q = "tt.precise_divf"(%x, %all) : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
      "tt.store"(%p, %q) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<4x64x!tt.ptr<f32>>, tensor<4x64xf32>) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<4x64xf32>, tensor<1x64xf32>, tensor<4x64x!tt.ptr<f32>>) -> (), noinline = false, sym_name = "corrected", sym_visibility = "public"} : () -> ()
  }
}

// -----

// A power of e and the square of a square's reciprocal root, as in gelu's gradient, are rounded to 16 bits: denormals
// make no difference. The root of what may be negative is NaN, and its reciprocal is not. The second power is stored as
// it is.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: %[[Q:.*]] = math.fma
// CHECK: %[[R:.*]] = "tt.elementwise_inline_asm"(%[[Q]]) {asm_string = "rcp.approx.ftz.f32 $0, $1;"
// CHECK: %[[S:.*]] = math.rsqrt %[[X:.*]] :
// CHECK: %[[V:.*]] = arith.mulf %[[S]], %[[S]]
// CHECK: %[[C:.*]] = arith.constant dense<-0.72134751>
// CHECK: %[[Y:.*]] = arith.mulf %[[X]], %[[C]]
// CHECK: %[[P:.*]] = "tt.elementwise_inline_asm"(%[[Y]]) {asm_string = "ex2.approx.ftz.f32 $0, $1;"
// CHECK: %[[T:.*]] = arith.addf %[[R]], %[[P]]
// CHECK: arith.addf %[[T]], %[[V]]
// CHECK: %[[E:.*]] = math.exp
// CHECK: "tt.store"({{.*}}, %[[E]])
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<256xf32>, %p: tensor<256x!tt.ptr<bf16>>, %q: tensor<256x!tt.ptr<f32>>):
      %d = arith.mulf %x, %x : tensor<256xf32>
      %one = arith.constant dense<1.0> : tensor<256xf32>
      %two = arith.constant dense<2.0> : tensor<256xf32>
      %g = math.fma %two, %d, %one : tensor<256xf32>
      %r = math.rsqrt %g : tensor<256xf32>
      %s = arith.mulf %r, %r : tensor<256xf32>
      %u = math.rsqrt %x : tensor<256xf32>
      %v = arith.mulf %u, %u : tensor<256xf32>
      %h = arith.constant dense<-0.5> : tensor<256xf32>
      %y = arith.mulf %x, %h : tensor<256xf32>
      %e = math.exp %y : tensor<256xf32>
      %t = arith.addf %s, %e : tensor<256xf32>
      %w = arith.addf %t, %v : tensor<256xf32>
      %n = arith.truncf %w : tensor<256xf32> to tensor<256xbf16>
      "tt.store"(%p, %n) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<256x!tt.ptr<bf16>>, tensor<256xbf16>) -> ()
      %f = math.exp %x : tensor<256xf32>
      "tt.store"(%q, %f) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<256x!tt.ptr<f32>>, tensor<256xf32>) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4 : i64, function_type = (tensor<256xf32>, tensor<256x!tt.ptr<bf16>>, tensor<256x!tt.ptr<f32>>) -> (), noinline = false, sym_name = "gelu", sym_visibility = "public"} : () -> ()
  }
}
