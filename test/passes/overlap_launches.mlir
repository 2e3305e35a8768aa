// RUN: cuesta-opt --pass-pipeline='builtin.module(overlap-launches)' --split-input-file %s | filecheck %s

// The weight, which no launch writes, is read before the kernel waits; x, which the first launch writes, after it. The
// first launch does not overlap.
// CHECK-LABEL: module @kernels
// CHECK: %[[P:.*]] = "tt.addptr"(%arg1
// CHECK: "tt.load"(%[[P]])
// CHECK: "tt.elementwise_inline_asm"() {asm_string = "griddepcontrol.wait; // $0"
// CHECK: "tt.elementwise_inline_asm"() {asm_string = "griddepcontrol.launch_dependents; // $0"
// CHECK: "tt.load"(%arg0)
// CHECK: "tt.store"(%arg2
// CHECK-LABEL: func.func @graph
// CHECK: "host.launch"(%arg0, %arg0) {kernel = @kernels::@exp, outputs = 1 : i64} :
// CHECK: "host.launch"(%arg0, %arg1, %arg2) {kernel = @kernels::@mm, outputs = 1 : i64, overlaps} :
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: !tt.ptr<f32>, %w: !tt.ptr<f32>, %y: !tt.ptr<f32>):
      %0 = "tt.load"(%x) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (!tt.ptr<f32>) -> f32
      %1 = "tt.get_program_id"() {axis = 0 : i32} : () -> i32
      %2 = "tt.addptr"(%w, %1) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
      %3 = "tt.load"(%2) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (!tt.ptr<f32>) -> f32
      %4 = arith.mulf %0, %3 : f32
      "tt.store"(%y, %4) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (!tt.ptr<f32>, f32) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (!tt.ptr<f32>, !tt.ptr<f32>, !tt.ptr<f32>) -> (), noinline = false, sym_name = "mm", sym_visibility = "public"} : () -> ()
  }
  func.func @graph(%x: memref<64xf32>, %w: memref<64xf32>, %y: memref<64xf32>) {
    "host.launch"(%x, %x) {kernel = @kernels::@exp, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
    "host.launch"(%x, %w, %y) {kernel = @kernels::@mm, outputs = 1} : (memref<64xf32>, memref<64xf32>, memref<64xf32>) -> ()
    return
  }
}

// -----

// What a call may write is not read early, nor at positions that another kernel wrote.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:100"}
// CHECK: griddepcontrol.wait
// CHECK-COUNT-2: "tt.load"
module attributes {cuesta.target = "cuda:100"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%at: !tt.ptr<i32>, %table: !tt.ptr<f32>, %y: !tt.ptr<f32>):
      %0 = "tt.load"(%at) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (!tt.ptr<i32>) -> i32
      %1 = "tt.addptr"(%table, %0) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
      %2 = "tt.load"(%1) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (!tt.ptr<f32>) -> f32
      "tt.store"(%y, %2) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (!tt.ptr<f32>, f32) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (!tt.ptr<i32>, !tt.ptr<f32>, !tt.ptr<f32>) -> (), noinline = false, sym_name = "gather", sym_visibility = "public"} : () -> ()
  }
  func.func @graph(%at: memref<1xi32>, %table: memref<64xf32>, %y: memref<64xf32>) {
    %0 = "host.aten"(%at) {overload = "aten.relu_.default", route = "shim", reason = "", args = "[0]", dtypes = ["i32", "i32"]} : (memref<1xi32>) -> memref<1xi32>
    "host.launch"(%at, %table, %y) {kernel = @kernels::@gather, outputs = 1} : (memref<1xi32>, memref<64xf32>, memref<64xf32>) -> ()
    "host.launch"(%at, %table, %y) {kernel = @kernels::@gather, outputs = 1} : (memref<1xi32>, memref<64xf32>, memref<64xf32>) -> ()
    return
  }
}

// -----

// A kernel that is launched alone has nothing to wait for.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK-NOT: griddepcontrol
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: !tt.ptr<f32>):
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (!tt.ptr<f32>) -> (), noinline = false, sym_name = "nothing", sym_visibility = "public"} : () -> ()
  }
  func.func @graph(%x: memref<64xf32>) {
    "host.launch"(%x) {kernel = @kernels::@nothing, outputs = 1} : (memref<64xf32>) -> ()
    return
  }
}

// -----

// An older GPU lacks the instructions.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:80"}
// CHECK-NOT: griddepcontrol
// CHECK-NOT: overlaps
module attributes {cuesta.target = "cuda:80"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: !tt.ptr<f32>):
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (!tt.ptr<f32>) -> (), noinline = false, sym_name = "nothing", sym_visibility = "public"} : () -> ()
  }
  func.func @graph(%x: memref<64xf32>) {
    "host.launch"(%x) {kernel = @kernels::@nothing, outputs = 1} : (memref<64xf32>) -> ()
    "host.launch"(%x) {kernel = @kernels::@nothing, outputs = 1} : (memref<64xf32>) -> ()
    return
  }
}

// -----

// A view writes nothing: a weight that is seen with other dims is read early too.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:90"}
// CHECK: "tt.load"(%arg0)
// CHECK: griddepcontrol.wait
// CHECK: griddepcontrol.launch_dependents
// CHECK: "tt.store"(%arg1
module attributes {cuesta.target = "cuda:90"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%w: !tt.ptr<f32>, %y: !tt.ptr<f32>):
      %0 = "tt.load"(%w) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (!tt.ptr<f32>) -> f32
      "tt.store"(%y, %0) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (!tt.ptr<f32>, f32) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}], cuesta.grid = [64, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (!tt.ptr<f32>, !tt.ptr<f32>) -> (), noinline = false, sym_name = "mm", sym_visibility = "public"} : () -> ()
  }
  func.func @graph(%w: memref<64xf32>, %y: memref<64xf32>) {
    "host.launch"(%y, %y) {kernel = @kernels::@exp, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
    %0 = "host.view"(%w) {offset = 0 : i64} : (memref<64xf32>) -> memref<8x8xf32>
    "host.launch"(%0, %y) {kernel = @kernels::@mm, outputs = 1} : (memref<8x8xf32>, memref<64xf32>) -> ()
    return
  }
}

// -----

// Short programs, more than run at once: the kernel neither waits nor lets the next begin.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:120"}
// CHECK-NOT: griddepcontrol
// CHECK-NOT: overlaps
module attributes {cuesta.target = "cuda:120"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: !tt.ptr<f32>, %w: !tt.ptr<f32>, %y: !tt.ptr<f32>):
      %0 = "tt.load"(%x) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (!tt.ptr<f32>) -> f32
      %1 = "tt.get_program_id"() {axis = 0 : i32} : () -> i32
      %2 = "tt.addptr"(%w, %1) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
      %3 = "tt.load"(%2) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (!tt.ptr<f32>) -> f32
      %4 = arith.mulf %0, %3 : f32
      "tt.store"(%y, %4) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (!tt.ptr<f32>, f32) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}], cuesta.grid = [16384, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (!tt.ptr<f32>, !tt.ptr<f32>, !tt.ptr<f32>) -> (), noinline = false, sym_name = "mm", sym_visibility = "public"} : () -> ()
  }
  func.func @graph(%x: memref<64xf32>, %w: memref<64xf32>, %y: memref<64xf32>) {
    "host.launch"(%x, %x) {kernel = @kernels::@exp, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
    "host.launch"(%x, %w, %y) {kernel = @kernels::@mm, outputs = 1} : (memref<64xf32>, memref<64xf32>, memref<64xf32>) -> ()
    return
  }
}

// -----

// Programs that load more, as many: the weight is read behind the wait, too.
// CHECK-LABEL: module attributes {cuesta.target = "cuda:100"}
// CHECK: griddepcontrol.wait
// CHECK-COUNT-2: "tt.load"
// CHECK: kernel = @kernels::@mm, outputs = 1 : i64, overlaps}
module attributes {cuesta.target = "cuda:100"} {
  module @kernels {
    "tt.func"() ({
    ^bb0(%x: !tt.ptr<f32>, %w: !tt.ptr<f32>, %y: !tt.ptr<f32>):
      %0 = "tt.load"(%x) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (!tt.ptr<f32>) -> f32
      %1 = "tt.make_range"() {end = 2048 : i32, start = 0 : i32} : () -> tensor<2048xi32>
      %2 = "tt.splat"(%w) : (!tt.ptr<f32>) -> tensor<2048x!tt.ptr<f32>>
      %3 = "tt.addptr"(%2, %1) : (tensor<2048x!tt.ptr<f32>>, tensor<2048xi32>) -> tensor<2048x!tt.ptr<f32>>
      %4 = "tt.load"(%3) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2048x!tt.ptr<f32>>) -> tensor<2048xf32>
      %5 = "tt.splat"(%0) : (f32) -> tensor<2048xf32>
      %6 = arith.mulf %5, %4 : tensor<2048xf32>
      %7 = "tt.reduce"(%6) ({
      ^bb0(%u: f32, %v: f32):
        %8 = arith.addf %u, %v : f32
        "tt.reduce.return"(%8) : (f32) -> ()
      }) {axis = 0 : i32} : (tensor<2048xf32>) -> f32
      "tt.store"(%y, %7) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (!tt.ptr<f32>, f32) -> ()
      "tt.return"() : () -> ()
    }) {arg_attrs = [{}, {}, {}], cuesta.grid = [16384, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 1 : i64, function_type = (!tt.ptr<f32>, !tt.ptr<f32>, !tt.ptr<f32>) -> (), noinline = false, sym_name = "mm", sym_visibility = "public"} : () -> ()
  }
  func.func @graph(%x: memref<64xf32>, %w: memref<2048xf32>, %y: memref<64xf32>) {
    "host.launch"(%x, %x) {kernel = @kernels::@exp, outputs = 1} : (memref<64xf32>, memref<64xf32>) -> ()
    "host.launch"(%x, %w, %y) {kernel = @kernels::@mm, outputs = 1} : (memref<64xf32>, memref<2048xf32>, memref<64xf32>) -> ()
    return
  }
}
