// RUN: cuesta-opt --pass-pipeline='builtin.module(form-kernels)' --split-input-file %s | filecheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// A row's sum and what is divided by it are one kernel, whose tiles run over the rows.
// CHECK-LABEL: module @kernels
// CHECK: func.func @{{.*}}(%{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<4x8xf32> {bufferization.writable = true})
// CHECK-SAME: cuesta.parallel = [0], cuesta.sizes = [4, 8]
// CHECK: linalg.generic
// CHECK-SAME: cuesta.classes = [0, 1]
// CHECK: linalg.generic
// CHECK-SAME: cuesta.classes = [0, 1]
// CHECK-LABEL: func.func @graph
// CHECK-SAME: (%[[X:[^:]*]]:
// CHECK-NEXT: %[[Y:.*]] = "host.alloc"() {owner = "plan"} : () -> memref<32xf32>
// CHECK-NEXT: %[[OUT:.*]] = "host.view"(%[[Y]]) {offset = 0 : i64} : (memref<32xf32>) -> memref<4x8xf32>
// CHECK-NEXT: "host.launch"(%[[X]], %[[OUT]])
// CHECK-NEXT: return %[[OUT]]
func.func @graph(%x: tensor<4x8xf32> {cuesta.strides = [8, 1]}) -> (tensor<4x8xf32> {cuesta.strides = [8, 1]}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %e2 = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<4x8xf32>, tensor<4xf32>) outs(%e2 : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#t = affine_map<(d0, d1) -> (d1, d0)>

// Written along rows and read along columns of one tensor twice over: two kernels, and the reason is kept.
// CHECK-LABEL: func.func @graph
// CHECK-SAME: cuesta.remarks = [{bytes = 512 : i64, {{.*}}reason = "written and read along different loops"}]
// CHECK-COUNT-2: "host.launch"
func.func @graph(%x: tensor<8x8xf32> {cuesta.strides = [8, 1]}) -> (tensor<8x8xf32> {cuesta.strides = [8, 1]}) {
  %e = tensor.empty() : tensor<8x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #t, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %0 : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>

// The sum of what the tiles wrote follows them as the kernel's tail; what it reads lies in the host's memory.
// CHECK-LABEL: module @kernels
// CHECK: func.func @{{.*}} attributes {cuesta.parallel = [0]
// CHECK: math.exp
// CHECK: linalg.generic
// CHECK-SAME: cuesta.tail
// CHECK-LABEL: func.func @graph
// CHECK-COUNT-2: "host.alloc"
// CHECK: "host.launch"
// CHECK-SAME: outputs = 2
// CHECK-NOT: "host.launch"
func.func @graph(%x: tensor<64xf32> {cuesta.strides = [1]}) -> (tensor<f32> {cuesta.strides = []}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %e1 = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<f32>) -> tensor<f32>
  %1 = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]} ins(%0 : tensor<64xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>

// A dead intermediate is overwritten: the kernel has one argument. Both halves of the concatenation are
// written in place, and equal kernels are one function.
// CHECK-LABEL: module @kernels
// CHECK: func.func @[[K:.*]](%{{.*}}: tensor<32xf32> {bufferization.writable = true})
// CHECK: func.func @[[HALF:.*]](%{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<4x8xf32> {bufferization.buffer_layout = strided<[16, 1]>
// CHECK-NOT: func.func @{{.*}}tensor
// CHECK-LABEL: func.func @graph
// CHECK-SAME: (%[[X:[^:]*]]:
// CHECK: "host.aten"(%[[X]], %[[X]], %[[V:.*]])
// CHECK: "host.launch"(%{{.*}}) {kernel = @kernels::@[[K]], {{.*}}outputs = 1 : i64} : (memref<32xf32>) -> ()
// CHECK: "host.launch"(%{{.*}}, %{{.*}}) {kernel = @kernels::@[[HALF]]
// CHECK-SAME: memref<4x8xf32, strided<[16, 1]>>
// CHECK: "host.view"(%{{.*}}) {offset = 32 : i64}
// CHECK: "host.launch"(%{{.*}}, %{{.*}}) {kernel = @kernels::@[[HALF]]
// CHECK-NOT: "host.launch"
func.func @graph(%x: tensor<4x8xf32> {cuesta.strides = [8, 1]}) -> (tensor<4x16xf32> {cuesta.strides = [16, 1]}) {
  %m = "aten.call"(%x, %x) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "library", dtypes = ["f32", "f32", "f32"], result_strides = [[8, 1]]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %c = "aten.call"(%0) {overload = "aten.sort.default", args = "[\"%0\"]", reason = "library", dtypes = ["f32", "f32"], result_strides = [[8, 1]], positions = [0]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.absf %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %d = "aten.call"(%1) {overload = "aten.sort.default", args = "[\"%0\"]", reason = "library", dtypes = ["f32", "f32"], result_strides = [[8, 1]], positions = [0]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.absf %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %cat = "cuesta.cat"(%1, %2) {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %cat : tensor<4x16xf32>
}
