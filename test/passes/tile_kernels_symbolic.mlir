// RUN: cuesta-opt --pass-pipeline='builtin.module(tile-kernels)' %s | filecheck %s
// Tiles of a kernel whose sizes depend on the call go by those of the call that was traced.

module attributes {cuesta.hints = {s0 = 2048 : i64, s1 = 1024 : i64}} {
  module @kernels {
    // CHECK-LABEL: func.func @column_sums
    // CHECK: scf.forall {{.*}} step (128)
    func.func @column_sums(%x: tensor<?x?xf32> {cuesta.bound = [["p0", "p1"], ["p1", 1]]}, %y: tensor<?xf32> {bufferization.writable = true, cuesta.bound = [["p1"], [1]]}, %p0: index, %p1: index) -> tensor<?xf32> attributes {cuesta.parallel = [1], cuesta.sizes = ["p0", "p1"]} {
      %zero = arith.constant 0.0 : f32
      %init = linalg.fill ins(%zero : f32) outs(%y : tensor<?xf32>) -> tensor<?xf32>
      %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<?x?xf32>) outs(%init : tensor<?xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %b: f32):
        %r = arith.addf %a, %b : f32
        linalg.yield %r : f32
      } -> tensor<?xf32>
      return %s : tensor<?xf32>
    }
  }
  func.func @graph(%x: memref<?x?xf32, {at = ["s0", "s1"]}>) -> memref<?xf32, {at = ["s1"]}> {
    %y = "host.alloc"() {owner = "caller"} : () -> memref<?xf32, {at = ["s1"]}>
    "host.launch"(%x, %y) {kernel = @kernels::@column_sums, ops = ["sum"], outputs = 1 : i64, parameters = ["s0", "s1"]} : (memref<?x?xf32, {at = ["s0", "s1"]}>, memref<?xf32, {at = ["s1"]}>) -> ()
    return %y : memref<?xf32, {at = ["s1"]}>
  }
}
