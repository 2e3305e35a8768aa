// RUN: cuesta-opt --pass-pipeline='builtin.module(round-products)' --split-input-file %s | filecheck %s

// The mean in front of an epsilon is rounded by an instruction. The products that are summed stay as they are.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: %[[M:.*]] = "tt.elementwise_inline_asm"(%{{.*}}, %{{.*}}) {asm_string = "mul.rn.f32 $0, $1, $2;", constraints = "=r,r,r", packed_element = 1 : i32, pure = true} : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
// CHECK: arith.addf %[[M]], %{{.*}} : tensor<1xf32>
// CHECK: arith.mulf %{{.*}}, %{{.*}} : tensor<1024xf32>
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<1024xf32>, %w: tensor<1024xf32>, %sum: tensor<1xf32>, %y: tensor<1x!tt.ptr<f32>>):
      %n = arith.constant dense<9.765625e-4> : tensor<1xf32>
      %eps = arith.constant dense<1.0e-5> : tensor<1xf32>
      %0 = arith.mulf %sum, %n : tensor<1xf32>
      %1 = arith.addf %0, %eps : tensor<1xf32>
      %2 = arith.mulf %x, %w : tensor<1024xf32>
      %3 = "tt.reshape"(%2) : (tensor<1024xf32>) -> tensor<1x1024xf32>
      %4 = "tt.reduce"(%3) ({
      ^bb0(%u: f32, %v: f32):
        %6 = arith.addf %u, %v : f32
        "tt.reduce.return"(%6) : (f32) -> ()
      }) {axis = 1 : i32} : (tensor<1x1024xf32>) -> tensor<1xf32>
      %5 = arith.divf %4, %1 : tensor<1xf32>
      "tt.store"(%y, %5) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<1x!tt.ptr<f32>>, tensor<1xf32>) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (tensor<1024xf32>, tensor<1024xf32>, tensor<1xf32>, tensor<1x!tt.ptr<f32>>) -> (), noinline = false, sym_name = "mm", sym_visibility = "public"} : () -> ()
  }
}

// -----

// As many products are added to something as are summed: the kernel stays.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:80"}
// CHECK-NOT: inline_asm
module attributes {cuesta.target = "cuda:80"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: tensor<1x1024xf32>, %w: tensor<1x1024xf32>, %y: tensor<1x!tt.ptr<f32>>):
      %0 = arith.mulf %x, %w : tensor<1x1024xf32>
      %1 = arith.addf %0, %w : tensor<1x1024xf32>
      %2 = arith.mulf %1, %w : tensor<1x1024xf32>
      %3 = "tt.reduce"(%2) ({
      ^bb0(%u: f32, %v: f32):
        %4 = arith.addf %u, %v : f32
        "tt.reduce.return"(%4) : (f32) -> ()
      }) {axis = 1 : i32} : (tensor<1x1024xf32>) -> tensor<1xf32>
      "tt.store"(%y, %3) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<1x!tt.ptr<f32>>, tensor<1xf32>) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (tensor<1x1024xf32>, tensor<1x1024xf32>, tensor<1x!tt.ptr<f32>>) -> (), noinline = false, sym_name = "sum", sym_visibility = "public"} : () -> ()
  }
}
