// RUN: cuesta-opt --pass-pipeline='builtin.module(join-classes)' %s | filecheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#first = affine_map<(d0, d1, d2) -> (d0, d1)>
#last = affine_map<(d0, d1, d2) -> (d0, d2)>
#all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

module {
  module @kernels {
    // A sum along rows, and rows that are computed anew from another view: one class.
    // CHECK-LABEL: func.func @rows
    // CHECK-SAME: cuesta.parallel = [0], cuesta.sizes = [64, 512]
    // CHECK: cuesta.classes = [0, 1]
    // CHECK: cuesta.classes = [0, 1]
    func.func @rows(%x: tensor<64x512xf32>, %same: tensor<64x512xf32>, %sum: tensor<64xf32>, %y: tensor<64x512xf32>) -> (tensor<64xf32>, tensor<64x512xf32>) attributes {cuesta.parallel = [0], cuesta.sizes = [64, 512, 512]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%sum : tensor<64xf32>) -> tensor<64xf32>
      %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x512xf32>) outs(%f : tensor<64xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<64xf32>
      %d = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%same, %s : tensor<64x512xf32>, tensor<64xf32>) outs(%y : tensor<64x512xf32>) attrs = {cuesta.classes = [0, 2]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %r = arith.divf %a, %b : f32
        linalg.yield %r : f32
      } -> tensor<64x512xf32>
      return %s, %d : tensor<64xf32>, tensor<64x512xf32>
    }

    // Classes of other sizes, and those that one op walks together, stay apart; those behind them are renumbered.
    // CHECK-LABEL: func.func @pairs
    // CHECK-SAME: cuesta.parallel = [0], cuesta.sizes = [4, 8, 8, 6]
    // CHECK: cuesta.classes = [0, 1, 2]
    // CHECK: cuesta.classes = [0, 3]
    // CHECK: cuesta.classes = [0, 1]
    func.func @pairs(%x: tensor<4x8xf32>, %z: tensor<4x8xf32>, %u: tensor<4x6xf32>, %v: tensor<4x8xf32>, %y: tensor<4x8x8xf32>, %w: tensor<4x6xf32>, %q: tensor<4x8xf32>) -> (tensor<4x8x8xf32>, tensor<4x6xf32>, tensor<4x8xf32>) attributes {cuesta.parallel = [0], cuesta.sizes = [4, 8, 8, 8, 6]} {
      %p = linalg.generic {indexing_maps = [#first, #last, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %z : tensor<4x8xf32>, tensor<4x8xf32>) outs(%y : tensor<4x8x8xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %r = arith.mulf %a, %b : f32
        linalg.yield %r : f32
      } -> tensor<4x8x8xf32>
      %e = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%u : tensor<4x6xf32>) outs(%w : tensor<4x6xf32>) attrs = {cuesta.classes = [0, 4]} {
      ^bb0(%a: f32, %o: f32):
        linalg.yield %a : f32
      } -> tensor<4x6xf32>
      %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%v : tensor<4x8xf32>) outs(%q : tensor<4x8xf32>) attrs = {cuesta.classes = [0, 3]} {
      ^bb0(%a: f32, %o: f32):
        linalg.yield %a : f32
      } -> tensor<4x8xf32>
      return %p, %e, %g : tensor<4x8x8xf32>, tensor<4x6xf32>, tensor<4x8xf32>
    }
  }
}
