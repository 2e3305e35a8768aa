// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// One block a program; whole blocks need no mask.
// CHECK-LABEL: "tt.func"
// CHECK: ^bb0(%[[X:.*]]: !tt.ptr<f32>, %[[Y:.*]]: !tt.ptr<f32>):
// CHECK: %[[P:.*]] = "tt.get_program_id"
// CHECK-DAG: %[[C1024:.*]] = arith.constant 1024 : i32
// CHECK: %[[START:.*]] = arith.muli %[[P]], %[[C1024]]
// CHECK: %[[R:.*]] = "tt.make_range"() {end = 1024 : i32, start = 0 : i32}
// CHECK: %[[S:.*]] = "tt.splat"(%[[START]])
// CHECK: %[[I:.*]] = arith.addi %[[S]], %[[R]]
// CHECK: %[[B:.*]] = "tt.splat"(%[[X]])
// CHECK: %[[AT:.*]] = "tt.addptr"(%[[B]], %[[I]])
// CHECK: %[[V:.*]] = "tt.load"(%[[AT]]) {
// CHECK: %[[E:.*]] = math.exp %[[V]] : tensor<1024xf32>
// CHECK: "tt.store"(%{{.*}}, %[[E]]) {
// CHECK: }) {arg_attrs = [{tt.divisibility = 16 : i32}, {tt.divisibility = 16 : i32}], cuesta.grid = [1024, 1, 1]
func.func @graph(%x: tensor<1048576xf32> {cuesta.strides = [1]}) -> (tensor<1048576xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<1048576xf32>) -> tensor<1048576xf32>
  return %0 : tensor<1048576xf32>
}

// -----
// What Triton has no op for is a function of libdevice; the negative of 0 is -0.
// CHECK-LABEL: "tt.func"
// CHECK: %[[T:.*]] = "tt.extern_elementwise"(%{{.*}}) {{{.*}}symbol = "__nv_tanhf"}
// CHECK: %[[Z:.*]] = arith.constant dense<-0.000000e+00>
// CHECK: arith.subf %[[Z]], %[[T]]
func.func @graph(%x: tensor<4096xf32> {cuesta.strides = [1]}) -> (tensor<4096xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.tanh"(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %1 = "cuesta.neg"(%0) : (tensor<4096xf32>) -> tensor<4096xf32>
  return %1 : tensor<4096xf32>
}

// -----
// What reads an implied choice computes the same from its first value: nothing is compared or chosen.
// CHECK-LABEL: "tt.func"
// CHECK: %[[V:.*]] = "tt.load"
// CHECK-NOT: arith.select
// CHECK: %[[E:.*]] = math.exp %[[V]]
// CHECK: "tt.store"(%{{.*}}, %[[E]])
func.func @graph(%x: tensor<4096xf32> {cuesta.strides = [1]}) -> (tensor<4096xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<f32>
  %1 = "cuesta.gt"(%x, %0) : (tensor<4096xf32>, tensor<f32>) -> tensor<4096xi1>
  %2 = "cuesta.where"(%1, %x, %0) {implied} : (tensor<4096xi1>, tensor<4096xf32>, tensor<f32>) -> tensor<4096xf32>
  %3 = "cuesta.exp"(%2) : (tensor<4096xf32>) -> tensor<4096xf32>
  return %3 : tensor<4096xf32>
}

// -----
// A row vector has size 1 along the axis that it lacks, and is loaded once.
// CHECK-LABEL: "tt.func"
// CHECK: %[[V:.*]] = "tt.load"{{.*}} -> tensor<1x128xf32>
// CHECK: "tt.broadcast"(%[[V]]) : (tensor<1x128xf32>) -> tensor<16x128xf32>
// CHECK: arith.addf {{.*}} : tensor<16x128xf32>
func.func @graph(%x: tensor<16384x512xf32> {cuesta.strides = [512, 1]}, %b: tensor<512xf32> {cuesta.strides = [1]}) -> (tensor<16384x512xf32> {cuesta.strides = [512, 1]}) {
  %0 = "cuesta.add"(%x, %b) : (tensor<16384x512xf32>, tensor<512xf32>) -> tensor<16384x512xf32>
  return %0 : tensor<16384x512xf32>
}

// -----
// Unless a thread would have fewer of its elements than it loads of the block at once: then for each row, as the block.
// CHECK-LABEL: "tt.func"
// CHECK: %[[F:.*]] = "tt.load"{{.*}} -> tensor<4x256xf32>
// CHECK: %[[V:.*]] = "tt.load"{{.*}} -> tensor<4x256xbf16>
// CHECK: %[[W:.*]] = arith.extf %[[V]]
// CHECK: %[[N:.*]] = arith.mulf %[[F]], %[[F]] : tensor<4x256xf32>
// CHECK: arith.mulf %[[W]], %[[N]] : tensor<4x256xf32>
func.func @graph(%x: tensor<8192x240xbf16> {cuesta.strides = [240, 1]}, %f: tensor<240xf32> {cuesta.strides = [1]}) -> (tensor<8192x240xbf16> {cuesta.strides = [240, 1]}) {
  %0 = "cuesta.convert"(%x) : (tensor<8192x240xbf16>) -> tensor<8192x240xf32>
  %1 = "cuesta.mul"(%f, %f) : (tensor<240xf32>, tensor<240xf32>) -> tensor<240xf32>
  %2 = "cuesta.mul"(%0, %1) : (tensor<8192x240xf32>, tensor<240xf32>) -> tensor<8192x240xf32>
  %3 = "cuesta.sum"(%2) {dims = [1], keepdim = 1 : i64} : (tensor<8192x240xf32>) -> tensor<8192x1xf32>
  %4 = "cuesta.sub"(%2, %3) : (tensor<8192x240xf32>, tensor<8192x1xf32>) -> tensor<8192x240xf32>
  %5 = "cuesta.convert"(%4) : (tensor<8192x240xf32>) -> tensor<8192x240xbf16>
  return %5 : tensor<8192x240xbf16>
}

// -----
// But not what a dear op computes with, for each column: once for all rows.
// CHECK-LABEL: "tt.func"
// CHECK: %[[F:.*]] = "tt.load"{{.*}} -> tensor<1x256xf32>
// CHECK: %[[N:.*]] = arith.mulf %[[F]], %[[F]] : tensor<1x256xf32>
// CHECK: math.rsqrt %[[N]] : tensor<1x256xf32>
func.func @graph(%x: tensor<8192x240xbf16> {cuesta.strides = [240, 1]}, %f: tensor<240xf32> {cuesta.strides = [1]}) -> (tensor<8192x240xbf16> {cuesta.strides = [240, 1]}) {
  %0 = "cuesta.convert"(%x) : (tensor<8192x240xbf16>) -> tensor<8192x240xf32>
  %1 = "cuesta.mul"(%f, %f) : (tensor<240xf32>, tensor<240xf32>) -> tensor<240xf32>
  %2 = "cuesta.rsqrt"(%1) : (tensor<240xf32>) -> tensor<240xf32>
  %3 = "cuesta.mul"(%0, %2) : (tensor<8192x240xf32>, tensor<240xf32>) -> tensor<8192x240xf32>
  %4 = "cuesta.sum"(%3) {dims = [1], keepdim = 1 : i64} : (tensor<8192x240xf32>) -> tensor<8192x1xf32>
  %5 = "cuesta.sub"(%3, %4) : (tensor<8192x240xf32>, tensor<8192x1xf32>) -> tensor<8192x240xf32>
  %6 = "cuesta.convert"(%5) : (tensor<8192x240xf32>) -> tensor<8192x240xbf16>
  return %6 : tensor<8192x240xbf16>
}

// -----
// What an op computes from narrow floats and rounds to them needs no quotient that is rounded correctly, whatever else
// the kernel computes.
// CHECK-LABEL: "tt.func"
// CHECK: math.exp
// CHECK: arith.divf
// CHECK: arith.truncf
// CHECK: "tt.precise_divf"
func.func @graph(%x: tensor<8192x256xbf16> {cuesta.strides = [256, 1]}, %f: tensor<256xf32> {cuesta.strides = [1]}) -> (tensor<8192x256xf32> {cuesta.strides = [256, 1]}) {
  %0 = "cuesta.silu"(%x) : (tensor<8192x256xbf16>) -> tensor<8192x256xbf16>
  %1 = "cuesta.convert"(%0) : (tensor<8192x256xbf16>) -> tensor<8192x256xf32>
  %2 = "cuesta.div"(%1, %f) : (tensor<8192x256xf32>, tensor<256xf32>) -> tensor<8192x256xf32>
  return %2 : tensor<8192x256xf32>
}

// -----
// Positions that are computed: clamped, and never read by a lane that does not exist.
// CHECK-LABEL: "tt.func"
// CHECK: %[[I:.*]] = "tt.load"{{.*}} -> tensor<{{.*}}xi64>
// CHECK: arith.minsi
// CHECK: arith.maxsi
// CHECK: arith.trunci {{.*}} to tensor<{{.*}}xi32>
// CHECK: %[[STRIDE:.*]] = arith.constant dense<100> : tensor
// CHECK: "tt.load"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<{{.*}}xf32>
func.func @graph(%w: tensor<1000x100xf32> {cuesta.strides = [100, 1]}, %i: tensor<333xi64> {cuesta.strides = [1]}) -> (tensor<333x100xf32> {cuesta.strides = [100, 1]}) {
  %0 = "cuesta.index"(%w, %i) {dims = [0]} : (tensor<1000x100xf32>, tensor<333xi64>) -> tensor<333x100xf32>
  return %0 : tensor<333x100xf32>
}

// -----
// More than 2^31 elements: positions and offsets in 64 bits.
// CHECK-LABEL: "tt.func"
// CHECK: arith.extsi %{{.*}} : i32 to i64
// CHECK: "tt.addptr"{{.*}}xi64>
func.func @graph(%x: tensor<4294967296xi8> {cuesta.strides = [1]}) -> (tensor<4294967296xi8> {cuesta.strides = [1]}) {
  %0 = "cuesta.neg"(%x) : (tensor<4294967296xi8>) -> tensor<4294967296xi8>
  return %0 : tensor<4294967296xi8>
}

// -----
// erf among narrow floats is a short polynomial over another; in f32 it is libdevice's.
// CHECK-LABEL: "tt.func"
// CHECK-NOT: math.erf
// CHECK: arith.minimumf
// CHECK: math.rsqrt
// CHECK: arith.truncf
func.func @graph(%x: tensor<4096xbf16> {cuesta.strides = [1]}) -> (tensor<4096xbf16> {cuesta.strides = [1]}) {
  %0 = "cuesta.erf"(%x) : (tensor<4096xbf16>) -> tensor<4096xbf16>
  return %0 : tensor<4096xbf16>
}

// -----
// CHECK-LABEL: "tt.func"
// CHECK: math.erf
func.func @graph(%x: tensor<4096xbf16> {cuesta.strides = [1]}) -> (tensor<4096xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.convert"(%x) : (tensor<4096xbf16>) -> tensor<4096xf32>
  %1 = "cuesta.erf"(%0) : (tensor<4096xf32>) -> tensor<4096xf32>
  return %1 : tensor<4096xf32>
}

// -----
// What eager rounds correctly in f32, Triton would approximate. Among narrow floats that is close enough.
// CHECK-LABEL: "tt.func"
// CHECK: %[[ROOT:.*]] = "tt.precise_sqrt"(%{{.*}}) : (tensor<{{.*}}xf32>)
// CHECK: "tt.precise_divf"(%{{.*}}, %[[ROOT]])
func.func @graph(%x: tensor<4096xf32> {cuesta.strides = [1]}) -> (tensor<4096xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.sqrt"(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
  %1 = "cuesta.div"(%x, %0) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  return %1 : tensor<4096xf32>
}

// -----
// CHECK-LABEL: "tt.func"
// CHECK: math.sqrt
// CHECK: arith.divf
func.func @graph(%x: tensor<4096xbf16> {cuesta.strides = [1]}) -> (tensor<4096xbf16> {cuesta.strides = [1]}) {
  %0 = "cuesta.sqrt"(%x) : (tensor<4096xbf16>) -> tensor<4096xbf16>
  %1 = "cuesta.div"(%x, %0) : (tensor<4096xbf16>, tensor<4096xbf16>) -> tensor<4096xbf16>
  return %1 : tensor<4096xbf16>
}

// -----
// Rows of an odd size into aligned rows: only the last block of a row has a mask, which would part the others' vectors.
// CHECK-LABEL: "tt.func"
// CHECK: sym_name = "kernel"
// CHECK-LABEL: "tt.func"
// CHECK: scf.if
// CHECK: "tt.load"(%{{[0-9]+}}) {{.*}} -> tensor<{{.*}}xbf16>
// CHECK: "tt.store"(%{{[0-9]+}}, %{{[0-9]+}}) {
// CHECK: else
// CHECK: "tt.load"(%{{[0-9]+}}, %{{[0-9]+}}) {{.*}} -> tensor<{{.*}}xbf16>
// CHECK: "tt.store"(%{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}) {
func.func @graph(%x: tensor<8x50265xbf16> {cuesta.strides = [50265, 1]}) -> (tensor<8x50265xbf16> {cuesta.strides = [50304, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<8x50265xbf16>) -> tensor<8x50265xbf16>
  return %0 : tensor<8x50265xbf16>
}

// -----
// Fewer blocks: a row's whole vectors are stored at once, and what is left of it apart. Behind the rows lies something
// else, which may be read but not written.
// CHECK-LABEL: "tt.func"
// CHECK: sym_name = "kernel"
// CHECK-LABEL: "tt.func"
// CHECK: %[[I:.*]] = "tt.expand_dims"(%{{.*}}) {axis = 0 : i32} : (tensor<32xi32>) -> tensor<1x32xi32>
// CHECK: %[[SIZE:.*]] = arith.constant dense<27>
// CHECK: %[[IN:.*]] = arith.cmpi slt, %[[I]], %[[SIZE]]
// CHECK: %[[DOWN:.*]] = arith.constant dense<24>
// CHECK: %[[BEFORE:.*]] = arith.cmpi slt, %[[I]], %[[DOWN]]
// CHECK: %[[BEHIND:.*]] = arith.cmpi sge, %[[I]], %[[DOWN]]
// CHECK: %[[LEFT:.*]] = arith.andi %[[BEHIND]], %[[IN]]
// CHECK: %[[WHOLE:.*]] = "tt.broadcast"(%[[BEFORE]])
// CHECK: "tt.store"(%[[AT:.*]], %[[VALUE:.*]], %[[WHOLE]])
// CHECK: %[[REST:.*]] = "tt.broadcast"(%[[LEFT]])
// CHECK: "tt.store"(%[[AT]], %[[VALUE]], %[[REST]])
func.func @graph(%x: tensor<4096x27xbf16> {cuesta.strides = [40, 1]}) -> (tensor<4096x27xbf16> {cuesta.strides = [32, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<4096x27xbf16>) -> tensor<4096x27xbf16>
  return %0 : tensor<4096x27xbf16>
}

// -----
// Rows that begin at multiples of four bytes are read and written in pairs.
// CHECK-LABEL: "tt.func"
// CHECK: arith.constant dense<58>
// CHECK: "tt.load"
// CHECK-LABEL: "tt.func"
// CHECK: arith.constant dense<56>
// CHECK: "tt.store"
// CHECK: "tt.store"
func.func @graph(%x: tensor<4096x57xbf16> {cuesta.strides = [62, 1]}) -> (tensor<4096x57xbf16> {cuesta.strides = [62, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<4096x57xbf16>) -> tensor<4096x57xbf16>
  return %0 : tensor<4096x57xbf16>
}

// -----
// A mask that parts no vector stays.
// CHECK-LABEL: "tt.func"
// CHECK: sym_name = "kernel"
// CHECK-LABEL: "tt.func"
// CHECK: "tt.store"
// CHECK-NOT: "tt.store"
func.func @graph(%x: tensor<4096x24xbf16> {cuesta.strides = [40, 1]}) -> (tensor<4096x24xbf16> {cuesta.strides = [32, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<4096x24xbf16>) -> tensor<4096x24xbf16>
  return %0 : tensor<4096x24xbf16>
}

// -----
// Patches of 4x4 pixels in one row each. Threads write their four columns, then rows, channels, and last other patches;
// they read four columns of a patch, then those of the patches beside it.
// CHECK-LABEL: "tt.func"
// CHECK: %[[V:.*]] = "tt.load"{{.*}} -> tensor<[[W:.*]]x4x4x4xbf16>
// CHECK: %[[T:.*]] = "tt.trans"(%[[V]]) {order = array<i32: 1, 2, 0, 3>} : {{.*}} -> tensor<4x4x[[W]]x4xbf16>
// CHECK: %[[X:.*]] = arith.extf %[[T]]
// CHECK: "tt.store"
func.func @graph(%x: tensor<64x3x56x4x56x4xbf16> {cuesta.strides = [150528, 50176, 896, 224, 4, 1]}) -> (tensor<64x56x56x3x4x4xbf16> {cuesta.strides = [150528, 2688, 48, 16, 4, 1]}) {
  %0 = "cuesta.permute"(%x) {dims = [0, 2, 4, 1, 3, 5]} : (tensor<64x3x56x4x56x4xbf16>) -> tensor<64x56x56x3x4x4xbf16>
  %1 = "cuesta.exp"(%0) : (tensor<64x56x56x3x4x4xbf16>) -> tensor<64x56x56x3x4x4xbf16>
  return %1 : tensor<64x56x56x3x4x4xbf16>
}

// -----
// Positions are compared with a number of each row in i32; what no i32 is becomes one that no position is.
// CHECK-LABEL: "tt.func"
// CHECK: %[[POSITION:.*]] = "tt.expand_dims"(%{{.*}}) {axis = 0 : i32} : (tensor<512xi32>) -> tensor<1x512xi32>
// CHECK: %[[TARGET:.*]] = "tt.load"({{.*}} -> tensor<2x1xi64>
// CHECK: %[[LOWER:.*]] = arith.maxsi %[[TARGET]]
// CHECK: %[[WITHIN:.*]] = arith.minsi %[[LOWER]]
// CHECK: %[[NARROW:.*]] = arith.trunci %[[WITHIN]] : tensor<2x1xi64> to tensor<2x1xi32>
// CHECK-NOT: tensor<2x512xi64>
// CHECK: arith.cmpi sge, %{{.*}}, %{{.*}} : tensor<2x512xi32>
func.func @graph(%t: tensor<4096x1xi64> {cuesta.strides = [1, 1]}, %x: tensor<4096x512xf32> {cuesta.strides = [512, 1]}) -> (tensor<4096x512xf32> {cuesta.strides = [512, 1]}) {
  %0 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<512xi64>
  %1 = "cuesta.le"(%t, %0) : (tensor<4096x1xi64>, tensor<512xi64>) -> tensor<4096x512xi1>
  %2 = "cuesta.constant"() {value = 0.0} : () -> tensor<f32>
  %3 = "cuesta.where"(%1, %x, %2) : (tensor<4096x512xi1>, tensor<4096x512xf32>, tensor<f32>) -> tensor<4096x512xf32>
  return %3 : tensor<4096x512xf32>
}
