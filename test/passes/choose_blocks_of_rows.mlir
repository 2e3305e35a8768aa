// RUN: cuesta-opt --pass-pipeline='builtin.module(choose-blocks)' %s | filecheck %s

// The rows of a product are images, lines and pixels that are dims of their own, and the tile was chosen for all of
// them. A block has 64 of the 56 pixels of a line, not 256, and half the warps. With 16 images it has no fewer.
// CHECK-LABEL: func.func @pixels
// CHECK-SAME: cuesta.blocks = [1, 1, 64, 64, 32]
// CHECK-SAME: cuesta.warps = 4
// CHECK-LABEL: func.func @images
// CHECK-SAME: cuesta.blocks = [64, 1, 1, 64, 32]
// CHECK-SAME: cuesta.warps = 4
module {
  module @kernels {
    func.func @pixels(%x: tensor<32x56x56x256xbf16>, %w: tensor<256x64xbf16>, %y: tensor<32x56x56x64xf32> {bufferization.writable = true}) -> tensor<32x56x56x64xf32> attributes {cuesta.parallel = [0, 1, 2, 3], cuesta.sizes = [32, 56, 56, 64, 256]} {
      %0 = linalg.generic {indexing_maps = [affine_map<(a, h, m, n, k) -> (a, h, m, k)>, affine_map<(a, h, m, n, k) -> (k, n)>, affine_map<(a, h, m, n, k) -> (a, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"], cuesta.classes = [0, 1, 2, 3, 4], cuesta.product = [2, 3, 4], cuesta.product_tile = "256x64x32/8/4"} ins(%x, %w : tensor<32x56x56x256xbf16>, tensor<256x64xbf16>) outs(%y : tensor<32x56x56x64xf32>) {
      ^bb0(%a: bf16, %b: bf16, %c: f32):
        %s = arith.extf %a : bf16 to f32
        %t = arith.extf %b : bf16 to f32
        %p = arith.mulf %s, %t : f32
        %q = arith.addf %c, %p : f32
        linalg.yield %q : f32
      } -> tensor<32x56x56x64xf32>
      return %0 : tensor<32x56x56x64xf32>
    }
    func.func @images(%x: tensor<16x7x7x256xbf16>, %w: tensor<256x64xbf16>, %y: tensor<16x7x7x64xf32> {bufferization.writable = true}) -> tensor<16x7x7x64xf32> attributes {cuesta.parallel = [0, 1, 2, 3], cuesta.sizes = [16, 7, 7, 64, 256]} {
      %0 = linalg.generic {indexing_maps = [affine_map<(m, h, w, n, k) -> (m, h, w, k)>, affine_map<(m, h, w, n, k) -> (k, n)>, affine_map<(m, h, w, n, k) -> (m, h, w, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"], cuesta.classes = [0, 1, 2, 3, 4], cuesta.product = [0, 3, 4], cuesta.product_tile = "128x64x32/4/4"} ins(%x, %w : tensor<16x7x7x256xbf16>, tensor<256x64xbf16>) outs(%y : tensor<16x7x7x64xf32>) {
      ^bb0(%a: bf16, %b: bf16, %c: f32):
        %s = arith.extf %a : bf16 to f32
        %t = arith.extf %b : bf16 to f32
        %p = arith.mulf %s, %t : f32
        %q = arith.addf %c, %p : f32
        linalg.yield %q : f32
      } -> tensor<16x7x7x64xf32>
      return %0 : tensor<16x7x7x64xf32>
    }
  }
}
