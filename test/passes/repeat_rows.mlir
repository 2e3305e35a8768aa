// RUN: cuesta-opt --pass-pipeline='builtin.module(repeat-rows)' --split-input-file %s | filecheck %s

// Both readers compute the row anew, along the class that they sum over; its kernel, its launch and its memory are gone.
// CHECK-LABEL: module @kernels
// CHECK-NOT: @norm(
// CHECK: func.func @norm_mm(%[[X:.*]]: tensor<1024xf32>, %[[W:.*]]: tensor<2048x1024xf32>, %[[Y:.*]]: tensor<2048xf32> {bufferization.writable = true})
// CHECK-SAME: cuesta.parallel = [0], cuesta.sizes = [2048, 1024]
// CHECK: %[[E:.*]] = tensor.empty() : tensor<1024xf32>
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<1024xf32>) outs(%[[E]] : tensor<1024xf32>) attrs =  {cuesta.classes = [1]}
// CHECK: linalg.generic {{.*}} ins(%[[R]], %[[W]] :
// CHECK-LABEL: func.func @graph
// CHECK-NOT: host.alloc
// CHECK: "host.launch"(%arg0, %arg1, %arg2) {kernel = @kernels::@norm_mm, ops = ["rms_norm", "mm"], outputs = 1 : i64}
// CHECK: "host.launch"(%arg0, %arg3, %arg4) {kernel = @kernels::@norm_mm, ops = ["rms_norm", "mm"], outputs = 1 : i64}
module {
  module @kernels {
    func.func @norm(%x: tensor<1024xf32>, %y: tensor<1024xf32> {bufferization.writable = true}) -> tensor<1024xf32> attributes {cuesta.parallel = [], cuesta.sizes = [1024]} {
      %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"], cuesta.classes = [0]} ins(%x : tensor<1024xf32>) outs(%y : tensor<1024xf32>) {
      ^bb0(%a: f32, %b: f32):
        %1 = arith.mulf %a, %a : f32
        linalg.yield %1 : f32
      } -> tensor<1024xf32>
      return %0 : tensor<1024xf32>
    }
    func.func @mm(%x: tensor<1024xf32>, %w: tensor<2048x1024xf32>, %y: tensor<2048xf32> {bufferization.writable = true}) -> tensor<2048xf32> attributes {cuesta.parallel = [0], cuesta.sizes = [2048, 1024]} {
      %zero = arith.constant 0.0 : f32
      %0 = linalg.fill ins(%zero : f32) outs(%y : tensor<2048xf32>) -> tensor<2048xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"], cuesta.classes = [0, 1]} ins(%x, %w : tensor<1024xf32>, tensor<2048x1024xf32>) outs(%0 : tensor<2048xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32):
        %2 = arith.mulf %a, %b : f32
        %3 = arith.addf %c, %2 : f32
        linalg.yield %3 : f32
      } -> tensor<2048xf32>
      return %1 : tensor<2048xf32>
    }
  }
  func.func @graph(%x: memref<1024xf32>, %a: memref<2048x1024xf32>, %p: memref<2048xf32>, %b: memref<2048x1024xf32>, %q: memref<2048xf32>) {
    %y = "host.alloc"() {owner = "plan"} : () -> memref<1024xf32>
    "host.launch"(%x, %y) {kernel = @kernels::@norm, ops = ["rms_norm"], outputs = 1} : (memref<1024xf32>, memref<1024xf32>) -> ()
    "host.launch"(%y, %a, %p) {kernel = @kernels::@mm, ops = ["mm"], outputs = 1} : (memref<1024xf32>, memref<2048x1024xf32>, memref<2048xf32>) -> ()
    "host.launch"(%y, %b, %q) {kernel = @kernels::@mm, ops = ["mm"], outputs = 1} : (memref<1024xf32>, memref<2048x1024xf32>, memref<2048xf32>) -> ()
    return
  }
}

// -----

// The row stays a kernel of its own where its operand is written before a reader has run, where a call or the caller
// reads it, and where the reader is small.
// CHECK-LABEL: module @kernels
// CHECK: func.func @norm(
// CHECK-LABEL: func.func @written
// CHECK-COUNT-2: "host.launch"
// CHECK-LABEL: func.func @returned
// CHECK-COUNT-2: "host.launch"
// CHECK-LABEL: func.func @small
// CHECK-COUNT-2: "host.launch"
module {
  module @kernels {
    func.func @norm(%x: tensor<1024xf32>, %y: tensor<1024xf32> {bufferization.writable = true}) -> tensor<1024xf32> attributes {cuesta.parallel = [], cuesta.sizes = [1024]} {
      %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"], cuesta.classes = [0]} ins(%x : tensor<1024xf32>) outs(%y : tensor<1024xf32>) {
      ^bb0(%a: f32, %b: f32):
        %1 = arith.mulf %a, %a : f32
        linalg.yield %1 : f32
      } -> tensor<1024xf32>
      return %0 : tensor<1024xf32>
    }
    func.func @mm(%x: tensor<1024xf32>, %w: tensor<1024x1024xf32>, %y: tensor<1024xf32> {bufferization.writable = true}) -> tensor<1024xf32> attributes {cuesta.parallel = [0], cuesta.sizes = [1024, 1024]} {
      %zero = arith.constant 0.0 : f32
      %0 = linalg.fill ins(%zero : f32) outs(%y : tensor<1024xf32>) -> tensor<1024xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"], cuesta.classes = [0, 1]} ins(%x, %w : tensor<1024xf32>, tensor<1024x1024xf32>) outs(%0 : tensor<1024xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32):
        %2 = arith.mulf %a, %b : f32
        %3 = arith.addf %c, %2 : f32
        linalg.yield %3 : f32
      } -> tensor<1024xf32>
      return %1 : tensor<1024xf32>
    }
    func.func @few(%x: tensor<1024xf32>, %y: tensor<f32> {bufferization.writable = true}) -> tensor<f32> attributes {cuesta.parallel = [], cuesta.sizes = [1024]} {
      %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"], cuesta.classes = [0]} ins(%x : tensor<1024xf32>) outs(%y : tensor<f32>) {
      ^bb0(%a: f32, %c: f32):
        %3 = arith.addf %c, %a : f32
        linalg.yield %3 : f32
      } -> tensor<f32>
      return %1 : tensor<f32>
    }
  }
  func.func @written(%x: memref<1024xf32>, %a: memref<1024x1024xf32>) {
    %y = "host.alloc"() {owner = "plan"} : () -> memref<1024xf32>
    "host.launch"(%x, %y) {kernel = @kernels::@norm, outputs = 1} : (memref<1024xf32>, memref<1024xf32>) -> ()
    "host.launch"(%y, %a, %x) {kernel = @kernels::@mm, outputs = 1} : (memref<1024xf32>, memref<1024x1024xf32>, memref<1024xf32>) -> ()
    return
  }
  func.func @returned(%x: memref<1024xf32>, %a: memref<1024x1024xf32>, %p: memref<1024xf32>) -> memref<1024xf32> {
    %y = "host.alloc"() {owner = "plan"} : () -> memref<1024xf32>
    "host.launch"(%x, %y) {kernel = @kernels::@norm, outputs = 1} : (memref<1024xf32>, memref<1024xf32>) -> ()
    "host.launch"(%y, %a, %p) {kernel = @kernels::@mm, outputs = 1} : (memref<1024xf32>, memref<1024x1024xf32>, memref<1024xf32>) -> ()
    return %y : memref<1024xf32>
  }
  func.func @small(%x: memref<1024xf32>, %p: memref<f32>) {
    %y = "host.alloc"() {owner = "plan"} : () -> memref<1024xf32>
    "host.launch"(%x, %y) {kernel = @kernels::@norm, outputs = 1} : (memref<1024xf32>, memref<1024xf32>) -> ()
    "host.launch"(%y, %p) {kernel = @kernels::@few, outputs = 1} : (memref<1024xf32>, memref<f32>) -> ()
    return
  }
}

// -----

// A reader that sees the row in three dims walks it so, with what it is computed from.
// CHECK-LABEL: module @kernels
// CHECK-NOT: @norm(
// CHECK: func.func @norm_2_mm(%[[X:.*]]: tensor<64x8x2xf32>, %[[W:.*]]: tensor<2048x64x8x2xf32>,
// CHECK-SAME: cuesta.parallel = [0], cuesta.sizes = [2048, 64, 8, 2]
// CHECK: linalg.generic {indexing_maps = [#[[ROW:.*]], #[[NUMBER:.*]]], iterator_types = ["reduction", "reduction", "reduction"]} ins(%[[X]] : tensor<64x8x2xf32>) outs(%{{.*}} : tensor<f32>) attrs =  {cuesta.classes = [1, 2, 3]}
// CHECK: %[[R:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[X]], %{{.*}} : tensor<64x8x2xf32>, tensor<f32>)
// CHECK: linalg.generic {{.*}} ins(%[[R]], %[[W]] :
// CHECK-LABEL: func.func @graph
// CHECK: %[[V:.*]] = "host.view"(%arg0) {offset = 0 : i64} : (memref<1024xf32>) -> memref<64x8x2xf32>
// CHECK-NEXT: "host.launch"(%[[V]], %arg1, %arg2)
// CHECK-NEXT: return
module {
  module @kernels {
    func.func @norm(%x: tensor<1024xf32>, %y: tensor<1024xf32> {bufferization.writable = true}) -> tensor<1024xf32> attributes {cuesta.parallel = [], cuesta.sizes = [1024]} {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<f32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
      %s = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"], cuesta.classes = [0]} ins(%x : tensor<1024xf32>) outs(%f : tensor<f32>) {
      ^bb0(%a: f32, %b: f32):
        %1 = arith.addf %a, %b : f32
        linalg.yield %1 : f32
      } -> tensor<f32>
      %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"], cuesta.classes = [0]} ins(%x, %s : tensor<1024xf32>, tensor<f32>) outs(%y : tensor<1024xf32>) {
      ^bb0(%a: f32, %n: f32, %b: f32):
        %1 = arith.mulf %a, %n : f32
        linalg.yield %1 : f32
      } -> tensor<1024xf32>
      return %0 : tensor<1024xf32>
    }
    func.func @mm(%x: tensor<64x8x2xf32>, %w: tensor<2048x64x8x2xf32>, %y: tensor<2048xf32> {bufferization.writable = true}) -> tensor<2048xf32> attributes {cuesta.parallel = [0], cuesta.sizes = [2048, 64, 8, 2]} {
      %zero = arith.constant 0.0 : f32
      %0 = linalg.fill ins(%zero : f32) outs(%y : tensor<2048xf32>) -> tensor<2048xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0)>], iterator_types = ["parallel", "reduction", "reduction", "reduction"], cuesta.classes = [0, 1, 2, 3]} ins(%x, %w : tensor<64x8x2xf32>, tensor<2048x64x8x2xf32>) outs(%0 : tensor<2048xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32):
        %2 = arith.mulf %a, %b : f32
        %3 = arith.addf %c, %2 : f32
        linalg.yield %3 : f32
      } -> tensor<2048xf32>
      return %1 : tensor<2048xf32>
    }
  }
  func.func @graph(%x: memref<1024xf32>, %a: memref<2048x64x8x2xf32>, %p: memref<2048xf32>) {
    %y = "host.alloc"() {owner = "plan"} : () -> memref<1024xf32>
    "host.launch"(%x, %y) {kernel = @kernels::@norm, ops = ["rms_norm"], outputs = 1} : (memref<1024xf32>, memref<1024xf32>) -> ()
    %v = "host.view"(%y) {offset = 0} : (memref<1024xf32>) -> memref<64x8x2xf32>
    "host.launch"(%v, %a, %p) {kernel = @kernels::@mm, ops = ["mm"], outputs = 1} : (memref<64x8x2xf32>, memref<2048x64x8x2xf32>, memref<2048xf32>) -> ()
    return
  }
}
