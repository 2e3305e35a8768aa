// RUN: cuesta-opt --pass-pipeline='builtin.module(widen-float8)' --split-input-file %s | filecheck %s

// Floats of 8 bits: two of them are converted at once.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:89"}
// CHECK: %[[A:.*]] = "tt.elementwise_inline_asm"(%{{.*}}) {asm_string = "{{.*}}cvt.rn.f16x2.e4m3x2{{.*}}
// CHECK: %[[B:.*]] = "tt.elementwise_inline_asm"(%{{.*}}) {asm_string = "{{.*}}cvt.rn.f16x2.e5m2x2{{.*}}
// CHECK: arith.mulf %[[A]], %[[B]]
// Capability 8.0 has no such instruction.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:80"}
// CHECK-NOT: inline_asm
module attributes {cuesta.target = "cuda:89"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<256xi8>, %z: tensor<256xi8>):
      %seven = arith.constant dense<7> : tensor<256xi16>
      %eight = arith.constant dense<8> : tensor<256xi16>
      %bits = arith.constant dense<-16385> : tensor<256xi16>
      %large = arith.constant dense<256.0> : tensor<256xf32>
      %magnitude = arith.constant dense<127> : tensor<256xi8>
      %nan = arith.constant dense<0x7FC00000> : tensor<256xf32>
      %0 = arith.extsi %x : tensor<256xi8> to tensor<256xi16>
      %1 = arith.shli %0, %seven : tensor<256xi16>
      %2 = arith.andi %1, %bits : tensor<256xi16>
      %3 = "tt.bitcast"(%2) : (tensor<256xi16>) -> tensor<256xf16>
      %4 = arith.extf %3 : tensor<256xf16> to tensor<256xf32>
      %5 = arith.mulf %4, %large : tensor<256xf32>
      %6 = arith.andi %x, %magnitude : tensor<256xi8>
      %7 = arith.cmpi eq, %6, %magnitude : tensor<256xi8>
      %8 = arith.select %7, %nan, %5 : tensor<256xi1>, tensor<256xf32>
      %9 = arith.extui %z : tensor<256xi8> to tensor<256xi16>
      %10 = arith.shli %9, %eight : tensor<256xi16>
      %11 = "tt.bitcast"(%10) : (tensor<256xi16>) -> tensor<256xf16>
      %12 = arith.extf %11 : tensor<256xf16> to tensor<256xf32>
      %13 = arith.mulf %8, %12 : tensor<256xf32>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (tensor<256xi8>, tensor<256xi8>) -> (), noinline = false, sym_name = "mm", sym_visibility = "public"} : () -> ()
  }
}

// -----

module attributes {cuesta.target = "cuda:80"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%z: tensor<256xi8>):
      %eight = arith.constant dense<8> : tensor<256xi16>
      %9 = arith.extui %z : tensor<256xi8> to tensor<256xi16>
      %10 = arith.shli %9, %eight : tensor<256xi16>
      %11 = "tt.bitcast"(%10) : (tensor<256xi16>) -> tensor<256xf16>
      %12 = arith.extf %11 : tensor<256xf16> to tensor<256xf32>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (tensor<256xi8>) -> (), noinline = false, sym_name = "mm", sym_visibility = "public"} : () -> ()
  }
}
