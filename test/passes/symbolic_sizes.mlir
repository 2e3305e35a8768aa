// RUN: cuesta-opt --to kernels %s | filecheck %s --check-prefix KERNELS
// RUN: cuesta-opt --to buffers %s | filecheck %s --check-prefix BUFFERS
// RUN: cuesta-opt --to llvm %s | filecheck %s --check-prefix LLVM

// One program for every s0: a kernel is passed the sizes that it needs, the host function spells them, and the arena's
// offsets are symbols too.

// KERNELS: func.func @exp_sum(%{{.*}}: tensor<?x64xf32> {cuesta.bound = {{\[\[}}"p0", 64], [64, 1]]}
// KERNELS-SAME: index
// KERNELS-SAME: cuesta.sizes = ["p0", 64]
// KERNELS: func.func @graph(%{{.*}}: memref<?x64xf32, {at = ["s0"]}>
// KERNELS-SAME: cuesta.buffers = {{\[\[}}"4*s0", {{[0-9]+}}, {{[0-9]+}}]]
// KERNELS: %[[ARENA:.*]] = "host.arena"() : () -> memref<?xi8, {at = ["arena"]}>
// KERNELS: "host.view"(%[[ARENA]]) {offset = "a0"}
// KERNELS: "host.launch"({{.*}} parameters = ["s0"]

// BUFFERS: func.func @exp_sum__tiles(%[[X:.*]]: memref<f32> {llvm.noalias}, %{{.*}}: memref<f32> {llvm.noalias}, %[[P0:.*]]: index, %{{.*}}: index, %{{.*}}: index)
// BUFFERS-SAME: cuesta.tiles = "p0"
// BUFFERS: memref.reinterpret_cast %[[X]] to offset: [0], sizes: [%[[P0]], 64], strides: [64, 1]

// The launch's table has a size in it, so it is no constant: the caller gives it by address.
// LLVM: module attributes {{.*}}cuesta.words = [
// LLVM-SAME: "a0"
// LLVM-SAME: "s0"
// LLVM: llvm.func @exp_sum__tiles(%{{.*}}: !llvm.ptr {{{.*}}}, %{{.*}}: !llvm.ptr {{{.*}}}, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64)
module attributes {cuesta.hints = {s0 = 512 : i64}} {
  func.func @graph(%x: tensor<?x64xf32, ["s0"]> {cuesta.strides = [64, 1]}) -> (tensor<?xi64, ["s0"]> {cuesta.strides = [1]}) {
    %0 = "cuesta.exp"(%x) : (tensor<?x64xf32, ["s0"]>) -> tensor<?x64xf32, ["s0"]> loc("exp")
    %1 = "cuesta.sum"(%0) {dims = [1], keepdim = 0 : i64} : (tensor<?x64xf32, ["s0"]>) -> tensor<?xf32, ["s0"]> loc("sum")
    %2 = "aten.call"(%1) {overload = "aten.argsort.default", args = "[\"%0\"]", reason = "no rule", result_strides = [[1]]} : (tensor<?xf32, ["s0"]>) -> tensor<?xi64, ["s0"]>
    return %2 : tensor<?xi64, ["s0"]>
  }
}
