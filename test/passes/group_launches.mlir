// RUN: cuesta-opt --pass-pipeline='builtin.module(group-launches)' --split-input-file %s | filecheck %s

// The second product moves up to the first, as it needs nothing of what is between them; its views and its memory do so
// as well. What reads the first product stays behind it, and is alone.
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"(%arg0, %arg1, %{{.*}}) {kernel = @kernels::@mm, outputs = 1 : i64, together = 0 : i64}
// CHECK-NEXT: "host.alloc"
// CHECK-NEXT: "host.view"
// CHECK-NEXT: "host.launch"(%arg0, %arg2, %{{.*}}) {kernel = @kernels::@mm, outputs = 1 : i64, together = 0 : i64}
// CHECK: "host.launch"({{.*}}) {kernel = @kernels::@silu, outputs = 1 : i64} :
func.func @graph(%x: memref<64xf32>, %a: memref<64x64xf32>, %b: memref<64x64xf32>) -> (memref<64xf32>, memref<64xf32>) {
  %0 = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  "host.launch"(%x, %a, %0) {kernel = @kernels::@mm, outputs = 1} : (memref<64xf32>, memref<64x64xf32>, memref<64xf32>) -> ()
  %1 = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  "host.launch"(%0, %1) {kernel = @kernels::@silu, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
  %2 = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  %3 = "host.view"(%2) {offset = 0} : (memref<64xf32>) -> memref<64xf32>
  "host.launch"(%x, %b, %3) {kernel = @kernels::@mm, outputs = 1} : (memref<64xf32>, memref<64x64xf32>, memref<64xf32>) -> ()
  return %1, %2 : memref<64xf32>, memref<64xf32>
}

// -----

// One that writes what is read in between stays, and so does one that reads what a call may have written; where memory
// is freed or a check may end the call, groups end. Large launches and those far larger than the first are alone.
// CHECK-LABEL: func.func @apart
// CHECK-NOT: together
func.func @apart(%x: memref<64xf32>, %y: memref<64xf32>, %z: memref<1xi8>, %large: memref<4194304xf32>, %wide: memref<65536xf32>) {
  "host.launch"(%x, %y) {kernel = @kernels::@exp, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
  "host.launch"(%y, %x) {kernel = @kernels::@exp, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
  %0 = "host.aten"(%y) {overload = "aten.relu.default", route = "shim", reason = "", args = "[0]", dtypes = ["f32", "f32"]} : (memref<64xf32>) -> memref<64xf32>
  "host.launch"(%y, %x) {kernel = @kernels::@exp, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
  "host.check"(%z) {message = "no"} : (memref<1xi8>) -> ()
  "host.launch"(%0, %y) {kernel = @kernels::@exp, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
  "host.launch"(%large, %x) {kernel = @kernels::@sum, outputs = 1} : (memref<4194304xf32>, memref<64xf32>) -> ()
  "host.launch"(%wide, %wide) {kernel = @kernels::@exp_2, outputs = 1} : (memref<65536xf32>, memref<65536xf32>) -> ()
  return
}

// -----

// Kernels that multiply blocks, launches whose sizes depend on the call, and those of several versions are alone.
// CHECK-LABEL: func.func @kinds
// CHECK-NOT: together
module {
  module @kernels {
    func.func @product(%a: tensor<64x64xf32>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
      %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"], cuesta.product = [0, 1, 2], cuesta.product_tile = "64x64x32/4/3"} ins(%a, %a : tensor<64x64xf32>, tensor<64x64xf32>) outs(%c : tensor<64x64xf32>) {
      ^bb0(%x: f32, %y: f32, %z: f32):
        %p = arith.mulf %x, %y : f32
        %s = arith.addf %z, %p : f32
        linalg.yield %s : f32
      } -> tensor<64x64xf32>
      return %0 : tensor<64x64xf32>
    }
  }
  func.func @kinds(%a: memref<64x64xf32>, %b: memref<64x64xf32>, %c: memref<64x64xf32>, %d: memref<64x64xf32>) {
    "host.launch"(%a, %b) {kernel = @kernels::@product, outputs = 1} : (memref<64x64xf32>, memref<64x64xf32>) -> ()
    "host.launch"(%a, %c) {kernel = @kernels::@exp, outputs = 1, parameters = ["s0"]} : (memref<64x64xf32>, memref<64x64xf32>) -> ()
    "host.launch"(%a, %d) {kernel = @kernels::@exp, outputs = 1, otherwise = [@kernels::@any], unless = [["s0"]]} : (memref<64x64xf32>, memref<64x64xf32>) -> ()
    return
  }
}

// -----

// What writes a row of each of two large caches touches few bytes of them: one launch writes both rows.
// CHECK-LABEL: func.func @caches
// CHECK: kernel = @kernels::@write, outputs = 1 : i64, together = 0 : i64
// CHECK-NEXT: kernel = @kernels::@write, outputs = 1 : i64, together = 0 : i64
// CHECK: kernel = @kernels::@exp, outputs = 1 : i64}
module {
  module @kernels {
    func.func @write(%x: tensor<64xf32>, %at: tensor<i64>, %cache: tensor<262144x64xf32>) -> tensor<262144x64xf32> {
      %0 = "kernel.scatter"(%x, %at, %cache) {combine = "set", element = "f32", indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], walks = [-1, 0]} : (tensor<64xf32>, tensor<i64>, tensor<262144x64xf32>) -> tensor<262144x64xf32>
      return %0 : tensor<262144x64xf32>
    }
  }
  func.func @caches(%k: memref<64xf32>, %v: memref<64xf32>, %at: memref<i64>, %keys: memref<262144x64xf32>, %values: memref<262144x64xf32>) {
    "host.launch"(%k, %at, %keys) {kernel = @kernels::@write, outputs = 1} : (memref<64xf32>, memref<i64>, memref<262144x64xf32>) -> ()
    "host.launch"(%v, %at, %values) {kernel = @kernels::@write, outputs = 1} : (memref<64xf32>, memref<i64>, memref<262144x64xf32>) -> ()
    "host.launch"(%keys, %values) {kernel = @kernels::@exp, outputs = 1} : (memref<262144x64xf32>, memref<262144x64xf32>) -> ()
    return
  }
}

// -----

// Sums in two steps each: the first steps are a group, and once they have moved up, so are the second ones.
// CHECK-LABEL: func.func @two_steps
// CHECK: "host.launch"(%arg0, %{{.*}}) {kernel = @kernels::@sum, outputs = 1 : i64, together = 0 : i64}
// CHECK: "host.launch"(%arg1, %{{.*}}) {kernel = @kernels::@sum, outputs = 1 : i64, together = 0 : i64}
// CHECK: "host.launch"({{.*}}) {kernel = @kernels::@join, outputs = 1 : i64, together = 1 : i64}
// CHECK: "host.launch"({{.*}}) {kernel = @kernels::@join, outputs = 1 : i64, together = 1 : i64}
func.func @two_steps(%x: memref<64x4x64xf32>, %y: memref<64x4x64xf32>) -> (memref<64xf32>, memref<64xf32>) {
  %0 = "host.alloc"() {owner = "plan"} : () -> memref<4x64xf32>
  "host.launch"(%x, %0) {kernel = @kernels::@sum, outputs = 1} : (memref<64x4x64xf32>, memref<4x64xf32>) -> ()
  %1 = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  "host.launch"(%0, %1) {kernel = @kernels::@join, outputs = 1} : (memref<4x64xf32>, memref<64xf32>) -> ()
  %2 = "host.alloc"() {owner = "plan"} : () -> memref<4x64xf32>
  "host.launch"(%y, %2) {kernel = @kernels::@sum, outputs = 1} : (memref<64x4x64xf32>, memref<4x64xf32>) -> ()
  %3 = "host.alloc"() {owner = "plan"} : () -> memref<64xf32>
  "host.launch"(%2, %3) {kernel = @kernels::@join, outputs = 1} : (memref<4x64xf32>, memref<64xf32>) -> ()
  return %1, %3 : memref<64xf32>, memref<64xf32>
}

// -----

// Columns of one tensor that lie apart are written together, and so are rows; what reads some of these columns, and
// what writes columns that overlap, is not in the group.
// CHECK-LABEL: func.func @parts
// CHECK-COUNT-3: kernel = @kernels::@copy, outputs = 1 : i64, together = 0 : i64
// CHECK-NEXT: return
// CHECK-LABEL: func.func @overlapping
// CHECK-NOT: together
func.func @parts(%x: memref<64x16xf32>, %y: memref<64x16xf32>, %z: memref<64x16xf32>, %all: memref<128x32xf32>) {
  %0 = "host.view"(%all) {offset = 0} : (memref<128x32xf32>) -> memref<64x16xf32, strided<[32, 1]>>
  "host.launch"(%x, %0) {kernel = @kernels::@copy, outputs = 1} : (memref<64x16xf32>, memref<64x16xf32, strided<[32, 1]>>) -> ()
  %1 = "host.view"(%all) {offset = 64} : (memref<128x32xf32>) -> memref<64x16xf32, strided<[32, 1]>>
  "host.launch"(%y, %1) {kernel = @kernels::@copy, outputs = 1} : (memref<64x16xf32>, memref<64x16xf32, strided<[32, 1]>>) -> ()
  %2 = "host.view"(%all) {offset = 8192} : (memref<128x32xf32>) -> memref<64x16xf32>
  "host.launch"(%z, %2) {kernel = @kernels::@copy, outputs = 1} : (memref<64x16xf32>, memref<64x16xf32>) -> ()
  return
}
func.func @overlapping(%x: memref<64x16xf32>, %y: memref<64x4xf32>, %all: memref<64x32xf32>) {
  %0 = "host.view"(%all) {offset = 0} : (memref<64x32xf32>) -> memref<64x16xf32, strided<[32, 1]>>
  "host.launch"(%x, %0) {kernel = @kernels::@copy, outputs = 1} : (memref<64x16xf32>, memref<64x16xf32, strided<[32, 1]>>) -> ()
  %1 = "host.view"(%all) {offset = 60} : (memref<64x32xf32>) -> memref<64x16xf32, strided<[32, 1]>>
  "host.launch"(%x, %1) {kernel = @kernels::@copy, outputs = 1} : (memref<64x16xf32>, memref<64x16xf32, strided<[32, 1]>>) -> ()
  %2 = "host.view"(%all) {offset = 116} : (memref<64x32xf32>) -> memref<63x4xf32, strided<[32, 1]>>
  "host.launch"(%2, %y) {kernel = @kernels::@copy_2, outputs = 1} : (memref<63x4xf32, strided<[32, 1]>>, memref<64x4xf32>) -> ()
  return
}

// -----

// What fills rows of an allocation of 8 MB does not move up to where another is filled: all 8 MB would be in memory from
// there on. What fills more of its rows moves up to where the first ones are filled.
// CHECK-LABEL: func.func @paddings
// CHECK: kernel = @kernels::@zeros, outputs = 1 : i64} : (memref<16x64xf32>)
// CHECK: kernel = @kernels::@fill
// CHECK: kernel = @kernels::@zeros, outputs = 1 : i64, together = 0 : i64} : (memref<16x64xf32>)
// CHECK: kernel = @kernels::@zeros, outputs = 1 : i64, together = 0 : i64} : (memref<16x64xf32>)
// CHECK-NEXT: {{.*}}kernel = @kernels::@fill
func.func @paddings(%x: memref<32768x64xf32>, %y: memref<32768x64xf32>) {
  %0 = "host.alloc"() {owner = "plan"} : () -> memref<32768x64xf32>
  %1 = "host.view"(%0) {offset = 0} : (memref<32768x64xf32>) -> memref<16x64xf32>
  "host.launch"(%1) {kernel = @kernels::@zeros, outputs = 1} : (memref<16x64xf32>) -> ()
  "host.launch"(%0, %x) {kernel = @kernels::@fill, outputs = 1} : (memref<32768x64xf32>, memref<32768x64xf32>) -> ()
  %2 = "host.alloc"() {owner = "plan"} : () -> memref<32768x64xf32>
  %3 = "host.view"(%2) {offset = 0} : (memref<32768x64xf32>) -> memref<16x64xf32>
  "host.launch"(%3) {kernel = @kernels::@zeros, outputs = 1} : (memref<16x64xf32>) -> ()
  "host.launch"(%x, %y) {kernel = @kernels::@fill, outputs = 1} : (memref<32768x64xf32>, memref<32768x64xf32>) -> ()
  %4 = "host.view"(%2) {offset = 4096} : (memref<32768x64xf32>) -> memref<16x64xf32>
  "host.launch"(%4) {kernel = @kernels::@zeros, outputs = 1} : (memref<16x64xf32>) -> ()
  return
}

// -----

// An argument of 8 MB is freed behind its last use. Before that there is no room for the 4 MB that the last launch is the
// first to write.
// CHECK-LABEL: func.func @freed
// CHECK: kernel = @kernels::@zeros, outputs = 1 : i64} : (memref<16x64xf32>)
// CHECK: kernel = @kernels::@fill
// CHECK: kernel = @kernels::@zeros, outputs = 1 : i64} : (memref<16x64xf32>)
func.func @freed(%x: memref<16x64xf32>, %saved: memref<32768x64xf32> {cuesta.donated}) -> memref<16384x64xf32> {
  "host.launch"(%x) {kernel = @kernels::@zeros, outputs = 1} : (memref<16x64xf32>) -> ()
  "host.launch"(%saved, %x) {kernel = @kernels::@fill, outputs = 1} : (memref<32768x64xf32>, memref<16x64xf32>) -> ()
  %0 = "host.alloc"() {owner = "plan"} : () -> memref<16384x64xf32>
  %1 = "host.view"(%0) {offset = 0} : (memref<16384x64xf32>) -> memref<16x64xf32>
  "host.launch"(%1) {kernel = @kernels::@zeros, outputs = 1} : (memref<16x64xf32>) -> ()
  return %0 : memref<16384x64xf32>
}
