// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(set-target{target=cuda:90},cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// A row that its block exceeds: lanes outside it are masked when they are loaded, and count as the identity.
// CHECK-LABEL: "tt.func"
// CHECK: %[[P:.*]] = "tt.get_program_id"() {axis = 0 : i32}
// CHECK: %[[BOUND:.*]] = arith.constant dense<250> : tensor<1x256xi32>
// CHECK: %[[M:.*]] = arith.cmpi slt, %{{.*}}, %[[BOUND]]
// CHECK: %[[X:.*]] = "tt.load"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<4x256xf32>
// CHECK: %[[ID:.*]] = arith.constant dense<0xFF800000> : tensor<4x256xf32>
// CHECK: %[[S:.*]] = arith.select %{{.*}}, %[[X]], %[[ID]]
// CHECK: %[[R:.*]] = "tt.reduce"(%[[S]]) ({
// CHECK: arith.maximumf
// CHECK: }) {axis = 1 : i32} : (tensor<4x256xf32>) -> tensor<4xf32>
// CHECK: "tt.expand_dims"(%[[R]]) {axis = 1 : i32} : (tensor<4xf32>) -> tensor<4x1xf32>
// CHECK: cuesta.grid = [768, 1, 1]
func.func @graph(%x: tensor<3072x250xf32> {cuesta.strides = [250, 1]}) -> (tensor<3072xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.amax"(%x) {dims = [1], keepdim = 0} : (tensor<3072x250xf32>) -> tensor<3072xf32>
  return %0 : tensor<3072xf32>
}

// -----
// The place of an extreme: its position travels with it, and of equal ones the first wins in whatever order they meet.
// CHECK-LABEL: "tt.func"
// CHECK: "tt.reduce"(%[[V:.*]], %[[I:.*]]) ({
// CHECK: ^bb0(%[[A:.*]]: f32, %[[AI:.*]]: i64, %[[B:.*]]: f32, %[[BI:.*]]: i64):
// CHECK: %[[BETTER:.*]] = arith.cmpf ogt, %[[B]], %[[A]]
// CHECK: %[[LOW:.*]] = arith.minsi %[[AI]], %[[BI]]
// CHECK: %[[AT:.*]] = arith.select %{{.*}}, %[[LOW]], %{{.*}} : i64
// CHECK: "tt.reduce.return"(%{{.*}}, %[[AT]])
func.func @graph(%x: tensor<64x32xf32> {cuesta.strides = [32, 1]}) -> (tensor<64xi64> {cuesta.strides = [1]}) {
  %0 = "cuesta.argmax"(%x) {dim = 1} : (tensor<64x32xf32>) -> tensor<64xi64>
  return %0 : tensor<64xi64>
}

// -----
// A running sum is a scan; what is stored is the sum in the result's own type.
// CHECK-LABEL: "tt.func"
// CHECK: %[[W:.*]] = arith.extf %{{.*}} : tensor<{{.*}}xbf16> to tensor<{{.*}}xf32>
// CHECK: "tt.scan"
// CHECK: arith.addf
// CHECK: "tt.scan.return"
// CHECK: arith.truncf {{.*}} to tensor<{{.*}}xbf16>
// CHECK: "tt.store"
func.func @graph(%x: tensor<64x32xbf16> {cuesta.strides = [32, 1]}) -> (tensor<64x32xbf16> {cuesta.strides = [32, 1]}) {
  %0 = "cuesta.cumsum"(%x) {dim = 1} : (tensor<64x32xbf16>) -> tensor<64x32xbf16>
  return %0 : tensor<64x32xbf16>
}

// -----
// Of more elements than a block has room for, in parts: each goes on from the sum of those before.
// CHECK-LABEL: "tt.func"
// CHECK: scf.for {{.*}} iter_args(%[[BEFORE:.*]] = %{{.*}}) -> (tensor<1xf32>)
// CHECK: %[[SCAN:.*]] = "tt.scan"
// CHECK: %[[PART:.*]] = "tt.reduce"
// CHECK: %[[AFTER:.*]] = arith.addf %[[BEFORE]], %{{.*}} : tensor<1xf32>
// CHECK: arith.addf %{{.*}}, %{{.*}} : tensor<8192xf32>
// CHECK: "tt.store"
// CHECK: scf.yield %[[AFTER]]
func.func @graph(%x: tensor<64x40000xf32> {cuesta.strides = [40000, 1]}) -> (tensor<64x40000xf32> {cuesta.strides = [40000, 1]}) {
  %0 = "cuesta.cumsum"(%x) {dim = 1} : (tensor<64x40000xf32>) -> tensor<64x40000xf32>
  return %0 : tensor<64x40000xf32>
}

// -----
// A step of several ops is the scan's region as it stands.
// CHECK-LABEL: "tt.func"
// CHECK: "tt.scan"
// CHECK: arith.minimumf
// CHECK: math.exp
// CHECK: math.log
// CHECK: arith.select
// CHECK: "tt.scan.return"
func.func @graph(%x: tensor<64x32xbf16> {cuesta.strides = [32, 1]}) -> (tensor<64x32xbf16> {cuesta.strides = [32, 1]}) {
  %0 = "cuesta.logcumsumexp"(%x) {dim = 1} : (tensor<64x32xbf16>) -> tensor<64x32xbf16>
  return %0 : tensor<64x32xbf16>
}

// -----
// A scan has no dims of size 1: Triton fails on some of those.
// CHECK-LABEL: "tt.func"
// CHECK: %[[FLAT:.*]] = "tt.reshape"(%{{.*}}) : (tensor<32x1xf32>) -> tensor<32xf32>
// CHECK: %[[SUMS:.*]] = "tt.scan"(%[[FLAT]])
// CHECK: "tt.reshape"(%[[SUMS]]) : (tensor<32xf32>) -> tensor<32x1xf32>
func.func @graph(%x: tensor<3x17x4xf32> {cuesta.strides = [68, 4, 1]}) -> (tensor<3x17xf32> {cuesta.strides = [17, 1]}) {
  %0 = "cuesta.sum"(%x) {dims = [2], keepdim = 0} : (tensor<3x17x4xf32>) -> tensor<3x17xf32>
  %1 = "cuesta.cumsum"(%0) {dim = 1} : (tensor<3x17xf32>) -> tensor<3x17xf32>
  return %1 : tensor<3x17xf32>
}

// -----
// A bool is a byte in memory; bytes of 0 and 1 are combined as they are.
// CHECK-LABEL: "tt.func"
// CHECK: "tt.load"{{.*}}tensor<{{.*}}x!tt.ptr<i8>>
// CHECK: arith.extui {{.*}} : tensor<{{.*}}xi1> to tensor<{{.*}}xi8>
// CHECK: "tt.reduce"
// CHECK: arith.ori %{{.*}}, %{{.*}} : i8
func.func @graph(%x: tensor<64x32xi1> {cuesta.strides = [32, 1]}) -> (tensor<64xi1> {cuesta.strides = [1]}) {
  %0 = "cuesta.any"(%x) {dims = [1], keepdim = 0} : (tensor<64x32xi1>) -> tensor<64xi1>
  return %0 : tensor<64xi1>
}

// -----
// Rows too long for a program: one loop for the maximum, one for the sum of what follows from it, one to store. Rows
// begin aligned.
// CHECK-LABEL: "tt.func"
// CHECK: %[[TOP:.*]] = scf.for {{.*}} iter_args
// CHECK: arith.maximumf %{{.*}}, %{{.*}} : tensor<4096xf32>
// CHECK: "tt.reduce"(%[[TOP]])
// CHECK: %[[SUM:.*]] = scf.for
// CHECK: "tt.load"
// CHECK: math.absf
// CHECK: arith.addf %{{.*}}, %{{.*}} : tensor<4096xf32>
// CHECK: "tt.reduce"(%[[SUM]])
// CHECK: scf.for
// CHECK: "tt.load"
// CHECK: math.absf
// CHECK: "tt.store"
// CHECK-NOT: scf.for
func.func @graph(%x: tensor<512x50256xf32> {cuesta.strides = [50256, 1]}) -> (tensor<512x50256xf32> {cuesta.strides = [50256, 1]}) {
  %0 = "cuesta.amax"(%x) {dims = [1], keepdim = 1} : (tensor<512x50256xf32>) -> tensor<512x1xf32>
  %1 = "cuesta.sub"(%x, %0) : (tensor<512x50256xf32>, tensor<512x1xf32>) -> tensor<512x50256xf32>
  %2 = "cuesta.abs"(%1) : (tensor<512x50256xf32>) -> tensor<512x50256xf32>
  %3 = "cuesta.sum"(%2) {dims = [1], keepdim = 1} : (tensor<512x50256xf32>) -> tensor<512x1xf32>
  %4 = "cuesta.div"(%2, %3) : (tensor<512x50256xf32>, tensor<512x1xf32>) -> tensor<512x50256xf32>
  return %4 : tensor<512x50256xf32>
}

// -----
// Rows of an odd size: blocks begin at the 16 bytes below. The first and the last are in a loop of their own, with masks:
// loads are of 16 bytes also at both ends, what is before the row is not summed, and the bytes in which it begins and
// ends are stored apart. All other blocks have no mask.
// CHECK-LABEL: "tt.func"
// CHECK: %[[ROW:.*]] = arith.muli %{{.*}}, %{{.*}} : tensor<1xi32>
// CHECK: %[[EIGHT:.*]] = arith.constant dense<8> : tensor<1xi32>
// CHECK: %[[EIGHTS:.*]] = arith.divsi %[[ROW]], %[[EIGHT]]
// CHECK: %[[FIRST:.*]] = arith.muli %[[EIGHTS]], %[[EIGHT]]
// CHECK: %[[BEFORE:.*]] = arith.subi %[[ROW]], %[[FIRST]]
// CHECK: %[[ENDS:.*]] = scf.for %{{.*}} = %c0_i32{{.*}} to %c49153_i32{{.*}} step %c49152_i32
// CHECK: %[[PLACE:.*]] = arith.addi
// CHECK: %[[ALL:.*]] = "tt.broadcast"(%[[BEFORE]])
// CHECK: %[[AT:.*]] = arith.subi %[[PLACE]], %[[ALL]]
// CHECK: %[[MASK:.*]] = arith.cmpi ult, %[[AT]], %{{.*}}
// CHECK: arith.divsi
// CHECK: %[[END:.*]] = arith.muli
// CHECK: %[[BOUND:.*]] = "tt.broadcast"(%[[END]])
// CHECK: %[[WHOLE:.*]] = arith.cmpi slt, %[[PLACE]], %[[BOUND]]
// CHECK: "tt.load"(%{{.*}}, %[[WHOLE]])
// CHECK: arith.select %[[MASK]]
// CHECK: scf.for %{{.*}} = %c4096_i32{{.*}} to %c49152_i32{{.*}} step %c4096_i32{{.*}} iter_args(%{{.*}} = %[[ENDS]])
// CHECK: %[[FROM:.*]] = "tt.broadcast"(%[[FIRST]])
// CHECK: arith.addi %[[FROM]]
// CHECK: "tt.load"(%{{[^,]*}}) {
// CHECK-NOT: arith.select
// CHECK: "tt.reduce"
// CHECK: scf.for %{{.*}} = %c0_i32{{.*}} to %c49153_i32{{.*}} step %c49152_i32
// CHECK: %[[MASK2:.*]] = arith.cmpi ult
// CHECK: %[[LOWER:.*]] = arith.cmpi sge
// CHECK: %[[UPPER:.*]] = arith.cmpi slt
// CHECK: %[[INNER:.*]] = arith.andi %[[LOWER]], %[[UPPER]]
// CHECK: %[[OUTER:.*]] = arith.ori
// CHECK: %[[REST:.*]] = arith.andi %[[OUTER]], %[[MASK2]]
// CHECK: "tt.store"(%{{.*}}, %{{.*}}, %[[INNER]])
// CHECK: "tt.store"(%{{.*}}, %{{.*}}, %[[REST]])
// CHECK: scf.for %{{.*}} = %c4096_i32{{.*}} to %c49152_i32{{.*}} step %c4096_i32
// CHECK: "tt.load"(%{{[^,]*}}) {
// CHECK: "tt.store"(%{{[^,]*}}, %{{[^,]*}}) {
// CHECK-NOT: scf.for
func.func @graph(%x: tensor<512x50257xbf16> {cuesta.strides = [50257, 1]}) -> (tensor<512x50257xbf16> {cuesta.strides = [50257, 1]}) {
  %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 1} : (tensor<512x50257xbf16>) -> tensor<512x1xbf16>
  %1 = "cuesta.sub"(%x, %0) : (tensor<512x50257xbf16>, tensor<512x1xbf16>) -> tensor<512x50257xbf16>
  return %1 : tensor<512x50257xbf16>
}

// -----
// The sum of a row that is zero but for one position, as in a loss's gradient: what is there, in bounds, without a loop.
// CHECK-LABEL: "tt.func"
// CHECK: %[[TARGET:.*]] = "tt.load"({{.*}} -> tensor<1xi64>
// CHECK: %[[LOWER:.*]] = arith.maxsi %[[TARGET]]
// CHECK: %[[WITHIN:.*]] = arith.minsi %[[LOWER]]
// CHECK: %[[POSITION:.*]] = arith.trunci %[[WITHIN]] : tensor<1xi64> to tensor<1xi32>
// CHECK: arith.extsi %[[POSITION]]
// CHECK: arith.cmpi eq, %{{.*}} : tensor<1xi64>
// CHECK: %[[SUM:.*]] = arith.select %{{.*}} : tensor<1xi1>, tensor<1xf32>
// CHECK: scf.for
// CHECK: "tt.unsplat"(%[[SUM]])
// CHECK: "tt.store"
// CHECK-NOT: scf.for
// CHECK-NOT: "tt.reduce"
// CHECK: "tt.return"
func.func @graph(%x: tensor<512x50256xf32> {cuesta.strides = [50256, 1]}, %t: tensor<512x1xi64> {cuesta.strides = [1, 1]}, %v: tensor<512x1xf32> {cuesta.strides = [1, 1]}) -> (tensor<512x50256xf32> {cuesta.strides = [50256, 1]}) {
  %0 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<50256xi64>
  %1 = "cuesta.eq"(%0, %t) : (tensor<50256xi64>, tensor<512x1xi64>) -> tensor<512x50256xi1>
  %2 = "cuesta.constant"() {value = 0.0} : () -> tensor<f32>
  %3 = "cuesta.where"(%1, %v, %2) : (tensor<512x50256xi1>, tensor<512x1xf32>, tensor<f32>) -> tensor<512x50256xf32>
  %4 = "cuesta.sum"(%3) {dims = [1], keepdim = 1} : (tensor<512x50256xf32>) -> tensor<512x1xf32>
  %5 = "cuesta.mul"(%x, %4) : (tensor<512x50256xf32>, tensor<512x1xf32>) -> tensor<512x50256xf32>
  %6 = "cuesta.sub"(%3, %5) : (tensor<512x50256xf32>, tensor<512x50256xf32>) -> tensor<512x50256xf32>
  return %6 : tensor<512x50256xf32>
}

// -----
// No more of what a program accesses lies in such rows than elsewhere: blocks begin where their rows do.
// CHECK-LABEL: "tt.func"
// CHECK-NOT: arith.cmpi ult
// CHECK: "tt.return"
func.func @graph(%x: tensor<512x50257xbf16> {cuesta.strides = [50264, 1]}) -> (tensor<512x50257xbf16> {cuesta.strides = [50257, 1]}) {
  %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 1} : (tensor<512x50257xbf16>) -> tensor<512x1xbf16>
  %1 = "cuesta.sub"(%x, %0) : (tensor<512x50257xbf16>, tensor<512x1xbf16>) -> tensor<512x50257xbf16>
  return %1 : tensor<512x50257xbf16>
}

// -----
// Two classes too long for a program: one loop walks the blocks of both, whose places are read off its turn.
// CHECK-LABEL: "tt.func"
// CHECK: scf.for %[[TURN:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args
// CHECK: %[[FAST:.*]] = arith.remsi %[[TURN]]
// CHECK: %[[SLOW:.*]] = arith.divsi %[[TURN]]
// CHECK: arith.muli %[[FAST]]
// CHECK: arith.addf
// CHECK: scf.yield
// CHECK: "tt.reduce"
func.func @graph(%x: tensor<20000x4x9000xf32> {cuesta.strides = [36000, 9000, 1]}) -> (tensor<4xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.sum"(%x) {dims = [0, 2], keepdim = 0} : (tensor<20000x4x9000xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----
// A number that a program has computed becomes a scalar where a block needs it; positions stay blocks.
// CHECK-LABEL: "tt.func"
// CHECK-NOT: "tt.unsplat"({{.*}}) : (tensor<1x1x1xi32>)
// CHECK: %[[SUM:.*]] = "tt.expand_dims"(%{{.*}}) {axis = 1 : i32} : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
// CHECK: scf.for
// CHECK: %[[SCALAR:.*]] = "tt.unsplat"(%[[SUM]]) : (tensor<1x1x1xf32>) -> f32
// CHECK: %[[BLOCK:.*]] = "tt.splat"(%[[SCALAR]]) : (f32) -> tensor<4x1x2048xf32>
// CHECK: arith.subf %{{.*}}, %[[BLOCK]]
func.func @graph(%x: tensor<4x128x16384xf32> {cuesta.strides = [2097152, 16384, 1]}, %m: tensor<128x8xf32> {cuesta.strides = [8, 1]}) -> (tensor<4x128x16384xf32> {cuesta.strides = [2097152, 16384, 1]}, tensor<128xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.sum"(%m) {dims = [1], keepdim = 1} : (tensor<128x8xf32>) -> tensor<128x1xf32>
  %1 = "cuesta.expand"(%0) : (tensor<128x1xf32>) -> tensor<4x128x16384xf32>
  %2 = "cuesta.sub"(%x, %1) : (tensor<4x128x16384xf32>, tensor<4x128x16384xf32>) -> tensor<4x128x16384xf32>
  %3 = "cuesta.reshape"(%0) : (tensor<128x1xf32>) -> tensor<128xf32>
  return %2, %3 : tensor<4x128x16384xf32>, tensor<128xf32>
}

// -----
// Rows that begin aligned, of a size that is no multiple of a vector: blocks within bounds have no mask, which would
// part vectors, and the last one is behind the loop.
// CHECK-LABEL: "tt.func"
// CHECK: %[[END:.*]] = arith.constant 32768 : i32
// CHECK: %[[L:.*]] = scf.for %{{.*}} = %{{.*}} to %[[END]]
// CHECK: "tt.load"(%{{.*}}) {{.*}} : (tensor<8192x!tt.ptr<bf16>>) -> tensor<8192xbf16>
// CHECK: scf.yield
// CHECK: "tt.load"(%{{.*}}, %{{.*}}) {{.*}} : (tensor<8192x!tt.ptr<bf16>>, tensor<8192xi1>) -> tensor<8192xbf16>
// CHECK: arith.maximumf %[[L]], %{{.*}}
// CHECK: "tt.reduce"
func.func @graph(%x: tensor<64x40001xbf16> {cuesta.strides = [40008, 1]}) -> (tensor<64xbf16> {cuesta.strides = [1]}) {
  %0 = "cuesta.amax"(%x) {dims = [1], keepdim = 0} : (tensor<64x40001xbf16>) -> tensor<64xbf16>
  return %0 : tensor<64xbf16>
}

// -----
// Of rows that do not begin aligned, and whose last block has no room for what lies before them, no element is loaded
// with its neighbours: one loop, with a mask.
// CHECK-LABEL: "tt.func"
// CHECK: %[[END:.*]] = arith.constant 40959 : i32
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[END]]
// CHECK: "tt.load"(%{{.*}}, %{{.*}}) {{.*}} : (tensor<8192x!tt.ptr<bf16>>, tensor<8192xi1>) -> tensor<8192xbf16>
// CHECK-NOT: "tt.load"
// CHECK: cuesta.grid
func.func @graph(%x: tensor<64x40959xbf16> {cuesta.strides = [40959, 1]}) -> (tensor<64xbf16> {cuesta.strides = [1]}) {
  %0 = "cuesta.amax"(%x) {dims = [1], keepdim = 0} : (tensor<64x40959xbf16>) -> tensor<64xbf16>
  return %0 : tensor<64xbf16>
}

// -----
// Bytes in groups: the axis of the groups comes first, so that a warp's threads have the groups of a row. What all rows
// share is a block of one row.
// CHECK-LABEL: "tt.func"
// CHECK: "tt.load"(%{{.*}}) {{.*}} -> tensor<64x8x16xi8>
// CHECK: "tt.load"(%{{.*}}) {{.*}} -> tensor<64x1x16xbf16>
// CHECK: "tt.reduce"
// CHECK: }) {axis = 2 : i32} : (tensor<64x8x16xf32>) -> tensor<64x8xf32>
// CHECK: "tt.reduce"
// CHECK: }) {axis = 2 : i32} : (tensor<64x1x16xf32>) -> tensor<64x1xf32>
// CHECK: "tt.reduce"
// CHECK: }) {axis = 0 : i32} : (tensor<64x8x1xf32>) -> tensor<8x1xf32>
func.func @graph(%w: tensor<4096x64x16xi8> {cuesta.strides = [1024, 16, 1]}, %x: tensor<1x64x16xbf16> {cuesta.strides = [1024, 16, 1]}) -> (tensor<4096xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.convert"(%w) : (tensor<4096x64x16xi8>) -> tensor<4096x64x16xf32>
  %1 = "cuesta.expand"(%x) : (tensor<1x64x16xbf16>) -> tensor<4096x64x16xbf16>
  %2 = "cuesta.convert"(%1) : (tensor<4096x64x16xbf16>) -> tensor<4096x64x16xf32>
  %3 = "cuesta.mul"(%0, %2) : (tensor<4096x64x16xf32>, tensor<4096x64x16xf32>) -> tensor<4096x64x16xf32>
  %4 = "cuesta.sum"(%3) {dims = [2], keepdim = 0 : i64} : (tensor<4096x64x16xf32>) -> tensor<4096x64xf32>
  %5 = "cuesta.convert"(%1) : (tensor<4096x64x16xbf16>) -> tensor<4096x64x16xf32>
  %6 = "cuesta.sum"(%5) {dims = [2], keepdim = 0 : i64} : (tensor<4096x64x16xf32>) -> tensor<4096x64xf32>
  %7 = "cuesta.sub"(%4, %6) : (tensor<4096x64xf32>, tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %8 = "cuesta.sum"(%7) {dims = [1], keepdim = 0 : i64} : (tensor<4096x64xf32>) -> tensor<4096xf32>
  return %8 : tensor<4096xf32>
}

// -----
// Rows that begin aligned and are followed by padding: the 16 bytes in which a row ends are loaded whole, and only what
// is in the row is stored.
// CHECK-LABEL: "tt.func"
// CHECK-DAG: %[[SIZE:.*]] = arith.constant dense<197> : tensor<1x64xi32>
// CHECK-DAG: %[[WITHIN:.*]] = arith.cmpi slt, %[[J:.*]], %[[SIZE]]
// CHECK-DAG: %[[ROUNDED:.*]] = arith.constant dense<200> : tensor<1x64xi32>
// CHECK-DAG: %[[LOADED:.*]] = arith.cmpi slt, %[[J]], %[[ROUNDED]]
// CHECK: %[[MASK:.*]] = "tt.broadcast"(%[[LOADED]])
// CHECK: "tt.load"(%{{.*}}, %[[MASK]])
// CHECK: "tt.store"(%{{.*}}, %{{.*}}, %[[WITHIN]])
func.func @graph(%x: tensor<64x2364x197xbf16> {cuesta.strides = [491712, 208, 1]}) -> (tensor<2364x197xbf16> {cuesta.strides = [197, 1]}) {
  %0 = "cuesta.convert"(%x) : (tensor<64x2364x197xbf16>) -> tensor<64x2364x197xf32>
  %1 = "cuesta.sum"(%0) {dims = [0], keepdim = 0 : i64} : (tensor<64x2364x197xf32>) -> tensor<2364x197xf32>
  %2 = "cuesta.convert"(%1) : (tensor<2364x197xf32>) -> tensor<2364x197xbf16>
  return %2 : tensor<2364x197xbf16>
}

// -----
// Sums of two rows that lie apart, and the sum of these down the rows, in a loop: each of the two has a block of its own, and
// no sum of theirs is one between threads.
// CHECK-LABEL: "tt.func"
// CHECK: scf.for
// CHECK: %[[FIRST:.*]] = "tt.load"
// CHECK: %[[SECOND:.*]] = "tt.load"
// CHECK: %[[NONE:.*]] = arith.constant dense<0.000000e+00> : tensor<1x1xf32>
// CHECK: %[[WIDE:.*]] = arith.extf %[[FIRST]]
// CHECK-NOT: "tt.reduce"
// CHECK: arith.extf %[[SECOND]]
// CHECK-NOT: "tt.reduce"
// CHECK: scf.yield
// CHECK: "tt.reduce"
func.func @graph(%x: tensor<32x784x2x128xbf16> {cuesta.strides = [200704, 256, 128, 1]}) -> (tensor<32x128xbf16> {cuesta.strides = [128, 1]}) {
  %0 = "cuesta.sum"(%x) {dims = [2], keepdim = false} : (tensor<32x784x2x128xbf16>) -> tensor<32x784x128xbf16>
  %1 = "cuesta.sum"(%0) {dims = [1], keepdim = false} : (tensor<32x784x128xbf16>) -> tensor<32x128xbf16>
  return %1 : tensor<32x128xbf16>
}

// -----
// Groups of three channels that were padded to four: a group is read whole, eight bytes at once.
// CHECK-LABEL: "tt.func"
// CHECK: %[[AT:.*]] = "tt.make_range"() {end = 4 : i32, start = 0 : i32}
// CHECK: %[[LAST:.*]] = arith.constant dense<4> : tensor<1x4xi32>
// CHECK: %[[MASK:.*]] = arith.cmpi slt, %{{.*}}, %[[LAST]]
// CHECK: %[[ALL:.*]] = "tt.broadcast"(%[[MASK]])
// CHECK: "tt.load"(%{{.*}}, %[[ALL]])
func.func @graph(%x: tensor<1024x32x3xbf16> {cuesta.strides = [128, 4, 1]}) -> (tensor<1024x32x3xbf16> {cuesta.strides = [96, 3, 1]}) {
  %0 = "cuesta.relu"(%x) : (tensor<1024x32x3xbf16>) -> tensor<1024x32x3xbf16>
  return %0 : tensor<1024x32x3xbf16>
}
