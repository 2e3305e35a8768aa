// RUN: cuesta-opt --pass-pipeline='builtin.module(choose-blocks)' %s | filecheck %s

#id4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#channels4 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
#last4 = affine_map<(d0, d1, d2, d3) -> (d0, d3)>
#id5 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#along = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
#down = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>

module {
  module @kernels {
    // Channels that are counted by groups of three: a program takes those of eight groups, which lie side by side, and walks
    // down them as if they were 32 columns.
    // CHECK-LABEL: func.func @groups
    // CHECK-SAME: cuesta.blocks = [1, 32, 8, 4]
    // CHECK-SAME: cuesta.loops = [1]
    // CHECK-SAME: cuesta.warps = 4
    func.func @groups(%x: tensor<256x392x32x3xf32>, %y: tensor<256x32x3xf32>) -> tensor<256x32x3xf32> attributes {cuesta.parallel = [0, 2, 3], cuesta.sizes = [256, 392, 32, 3]} {
      %0 = linalg.generic {indexing_maps = [#id4, #channels4], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%x : tensor<256x392x32x3xf32>) outs(%y : tensor<256x32x3xf32>) attrs = {cuesta.classes = [0, 1, 2, 3]} {
      ^bb0(%i: f32, %o: f32):
        %r = arith.addf %i, %o : f32
        linalg.yield %r : f32
      } -> tensor<256x32x3xf32>
      return %0 : tensor<256x32x3xf32>
    }

    // Images that are a part of larger ones: a turn takes two rows of pixels.
    // CHECK-LABEL: func.func @part_of_images
    // CHECK-SAME: cuesta.blocks = [1, 2, 16, 32]
    // CHECK-SAME: cuesta.loops = [1]
    func.func @part_of_images(%x: tensor<32x14x14x960xf32> {bufferization.buffer_layout = strided<[216000, 14400, 960, 1]>}, %y: tensor<32x960xf32>) -> tensor<32x960xf32> attributes {cuesta.parallel = [0, 3], cuesta.sizes = [32, 14, 14, 960]} {
      %0 = linalg.generic {indexing_maps = [#id4, #last4], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%x : tensor<32x14x14x960xf32>) outs(%y : tensor<32x960xf32>) attrs = {cuesta.classes = [0, 1, 2, 3]} {
      ^bb0(%i: f32, %o: f32):
        %r = arith.addf %i, %o : f32
        linalg.yield %r : f32
      } -> tensor<32x960xf32>
      return %0 : tensor<32x960xf32>
    }

    // Squares that are summed along both of their dims, as of relative positions: as little is written as where all is summed,
    // so a thread loads as much.
    // CHECK-LABEL: func.func @both_ways
    // CHECK-SAME: cuesta.blocks = [1, 1, 8, 16, 16]
    // CHECK-SAME: cuesta.warps = 4
    func.func @both_ways(%x: tensor<256x16x16x16x16xf32>, %y: tensor<256x16x16x16xf32>, %z: tensor<256x16x16x16xf32>) -> (tensor<256x16x16x16xf32>, tensor<256x16x16x16xf32>) attributes {cuesta.parallel = [0, 1, 2], cuesta.sizes = [256, 16, 16, 16, 16]} {
      %0 = linalg.generic {indexing_maps = [#id5, #along], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%x : tensor<256x16x16x16x16xf32>) outs(%y : tensor<256x16x16x16xf32>) attrs = {cuesta.classes = [0, 1, 2, 3, 4]} {
      ^bb0(%i: f32, %o: f32):
        %r = arith.addf %i, %o : f32
        linalg.yield %r : f32
      } -> tensor<256x16x16x16xf32>
      %1 = linalg.generic {indexing_maps = [#id5, #down], iterator_types = ["parallel", "parallel", "parallel", "reduction", "parallel"]} ins(%x : tensor<256x16x16x16x16xf32>) outs(%z : tensor<256x16x16x16xf32>) attrs = {cuesta.classes = [0, 1, 2, 3, 4]} {
      ^bb0(%i: f32, %o: f32):
        %r = arith.addf %i, %o : f32
        linalg.yield %r : f32
      } -> tensor<256x16x16x16xf32>
      return %0, %1 : tensor<256x16x16x16xf32>, tensor<256x16x16x16xf32>
    }
  }
}
