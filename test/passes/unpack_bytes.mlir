// RUN: cuesta-opt --pass-pipeline='builtin.module(unpack-bytes)' --split-input-file %s | filecheck %s

// A signed byte, as f32: its bits in those of 2^23, which is subtracted. The vector, which the rows share, loses and gets
// back the dim along which it is repeated.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: %[[X:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<1x256xf32>
// CHECK: %[[V:.*]] = "tt.elementwise_inline_asm"(%{{.*}}) {asm_string = "{ .reg .b32 t; xor.b32 t, $4, 0x80808080; prmt.b32 $0, t, 0x4B000000, 0x7650; prmt.b32 $1, t, 0x4B000000, 0x7651; prmt.b32 $2, t, 0x4B000000, 0x7652; prmt.b32 $3, t, 0x4B000000, 0x7653; }", constraints = "=r,=r,=r,=r,r", packed_element = 4 : i32, pure = true} : (tensor<4x256xi8>) -> tensor<4x256xf32>
// CHECK: %[[F:.*]] = arith.subf %[[V]], %{{.*}} : tensor<4x256xf32>
// CHECK: %[[R:.*]] = "tt.reshape"(%[[X]]) : (tensor<1x256xf32>) -> tensor<256xf32>
// CHECK: %[[E:.*]] = "tt.expand_dims"(%[[R]]) {axis = 0 : i32}
// CHECK: %[[B:.*]] = "tt.broadcast"(%[[E]])
// CHECK: arith.mulf %[[B]], %[[F]]
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<1x256x!tt.ptr<f32>>, %w: tensor<4x256x!tt.ptr<i8>>):
      %0 = "tt.load"(%x) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<1x256x!tt.ptr<f32>>) -> tensor<1x256xf32>
      %1 = "tt.load"(%w) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x256x!tt.ptr<i8>>) -> tensor<4x256xi8>
      %2 = arith.extui %1 : tensor<4x256xi8> to tensor<4x256xi32>
      %bits = arith.constant dense<1258291328> : tensor<4x256xi32>
      %3 = arith.xori %2, %bits : tensor<4x256xi32>
      %4 = "tt.bitcast"(%3) : (tensor<4x256xi32>) -> tensor<4x256xf32>
      %own = arith.constant dense<8388736.0> : tensor<4x256xf32>
      %5 = arith.subf %4, %own : tensor<4x256xf32>
      %6 = "tt.broadcast"(%0) : (tensor<1x256xf32>) -> tensor<4x256xf32>
      %7 = arith.mulf %6, %5 : tensor<4x256xf32>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (tensor<1x256x!tt.ptr<f32>>, tensor<4x256x!tt.ptr<i8>>) -> (), noinline = false, sym_name = "mm", sym_visibility = "public"} : () -> ()
  }
}

// -----

// The halves of bytes, 128 higher than they are: one instruction each, with the mask for four of them.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:80"}
// CHECK: "tt.elementwise_inline_asm"(%[[W:.*]]) {asm_string = "{ .reg .b32 t; and.b32 t, $4, 0x0F0F0F0F; prmt.b32 $0, t, 0x43000000, 0x7054;
// CHECK: "tt.elementwise_inline_asm"(%[[W]]) {asm_string = "{ .reg .b32 t; shr.b32 t, $4, 4; and.b32 t, t, 0x0F0F0F0F; prmt.b32 $0, t, 0x43000000, 0x7054;
// CHECK-NOT: arith.addf
module attributes {cuesta.target = "cuda:80"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%w: tensor<256x!tt.ptr<i8>>):
      %0 = "tt.load"(%w) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<256x!tt.ptr<i8>>) -> tensor<256xi8>
      %fifteen = arith.constant dense<15> : tensor<1xi8>
      %fifteens = "tt.broadcast"(%fifteen) : (tensor<1xi8>) -> tensor<256xi8>
      %1 = arith.andi %0, %fifteens : tensor<256xi8>
      %four = arith.constant dense<4> : tensor<256xi8>
      %2 = arith.shrui %0, %four : tensor<256xi8>
      %bits = arith.constant dense<1258291200> : tensor<256xi32>
      %own = arith.constant dense<8388608.0> : tensor<256xf32>
      %more = arith.constant dense<128.0> : tensor<256xf32>
      %3 = arith.extui %1 : tensor<256xi8> to tensor<256xi32>
      %4 = arith.xori %3, %bits : tensor<256xi32>
      %5 = "tt.bitcast"(%4) : (tensor<256xi32>) -> tensor<256xf32>
      %6 = arith.subf %5, %own : tensor<256xf32>
      %7 = arith.addf %6, %more : tensor<256xf32>
      %8 = arith.extui %2 : tensor<256xi8> to tensor<256xi32>
      %9 = arith.xori %8, %bits : tensor<256xi32>
      %10 = "tt.bitcast"(%9) : (tensor<256xi32>) -> tensor<256xf32>
      %11 = arith.subf %10, %own : tensor<256xf32>
      %12 = arith.addf %11, %more : tensor<256xf32>
      %13 = arith.mulf %7, %12 : tensor<256xf32>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (tensor<256x!tt.ptr<i8>>) -> (), noinline = false, sym_name = "mm", sym_visibility = "public"} : () -> ()
  }
}

// -----

// Other targets have no such instruction.
// CHECK-LABEL: module attributes {cuesta.target = "hip:gfx942"}
// CHECK-NOT: inline_asm
module attributes {cuesta.target = "hip:gfx942"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%w: tensor<256x!tt.ptr<i8>>):
      %0 = "tt.load"(%w) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<256x!tt.ptr<i8>>) -> tensor<256xi8>
      %1 = arith.extui %0 : tensor<256xi8> to tensor<256xi32>
      %bits = arith.constant dense<1258291200> : tensor<256xi32>
      %2 = arith.xori %1, %bits : tensor<256xi32>
      %3 = "tt.bitcast"(%2) : (tensor<256xi32>) -> tensor<256xf32>
      %own = arith.constant dense<8388608.0> : tensor<256xf32>
      %4 = arith.subf %3, %own : tensor<256xf32>
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (tensor<256x!tt.ptr<i8>>) -> (), noinline = false, sym_name = "mm", sym_visibility = "public"} : () -> ()
  }
}
