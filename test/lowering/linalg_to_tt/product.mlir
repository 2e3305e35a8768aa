// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// A loop over K adds up in f32; operands are loaded as narrow as they lie, b across (its columns lie together). What
// follows works on the sums: one kernel.
// CHECK-LABEL: "tt.func"
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<64x128xf32>
// CHECK: %[[SUM:.*]] = scf.for %{{.*}} iter_args(%[[ACC:.*]] = %[[ZERO]])
// CHECK: %[[A:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<64x32xbf16>
// CHECK: %[[B:.*]] = "tt.load"(%{{.*}}) {{.*}} -> tensor<32x128xbf16>
// CHECK: %[[NEXT:.*]] = "tt.dot"(%[[A]], %[[B]], %[[ACC]]) {inputPrecision = 2 : i32
// CHECK: scf.yield %[[NEXT]]
// CHECK: arith.addf %[[SUM]], %{{.*}} : tensor<64x128xf32>
// CHECK: arith.maximumf
// CHECK: %[[OUT:.*]] = arith.truncf %{{.*}} to tensor<64x128xbf16>
// CHECK: "tt.store"(%{{.*}}, %[[OUT]])
// CHECK: cuesta.grid = [8, 1, 1], cuesta.stages = 3 : i64, cuesta.warps = 4
// CHECK-NOT: "tt.func"
func.func @graph(%a: tensor<256x64xbf16> {cuesta.strides = [64, 1]}, %w: tensor<256x64xbf16> {cuesta.strides = [64, 1]}, %c: tensor<256xf32> {cuesta.strides = [1]}) -> (tensor<256x256xbf16> {cuesta.strides = [256, 1]}) {
  %b = "cuesta.permute"(%w) {dims = [1, 0]} : (tensor<256x64xbf16>) -> tensor<64x256xbf16>
  %0 = "cuesta.mm"(%a, %b) {product = "64x128x32/4/3"} : (tensor<256x64xbf16>, tensor<64x256xbf16>) -> tensor<256x256xf32>
  %1 = "cuesta.add"(%0, %c) : (tensor<256x256xf32>, tensor<256xf32>) -> tensor<256x256xf32>
  %2 = "cuesta.relu"(%1) : (tensor<256x256xf32>) -> tensor<256x256xf32>
  %3 = "cuesta.convert"(%2) : (tensor<256x256xf32>) -> tensor<256x256xbf16>
  return %3 : tensor<256x256xbf16>
}

// -----
// Sizes that the blocks do not divide: outside K both operands are 0, as anything times NaN is NaN. TF32 where allowed.
// CHECK-LABEL: "tt.func"
// CHECK: scf.for
// CHECK: arith.constant dense<0.000000e+00> : tensor<32x16xf32>
// CHECK: "tt.load"(%{{.*}}, %{{.*}}, %{{.*}}) {{.*}} -> tensor<32x16xf32>
// CHECK: arith.constant dense<0.000000e+00> : tensor<16x16xf32>
// CHECK: "tt.load"(%{{.*}}, %{{.*}}, %{{.*}}) {{.*}} -> tensor<16x16xf32>
// CHECK: "tt.dot"({{.*}}) {inputPrecision = 0 : i32
// CHECK: "tt.store"(%{{.*}}, %{{.*}}, %{{.*}})
func.func @graph(%a: tensor<100x77xf32> {cuesta.strides = [77, 1]}, %b: tensor<77x33xf32> {cuesta.strides = [33, 1]}) -> (tensor<100x33xf32> {cuesta.strides = [33, 1]}) {
  %0 = "cuesta.mm"(%a, %b) {product = "32x16x16/4/3", precision = "tf32"} : (tensor<100x77xf32>, tensor<77x33xf32>) -> tensor<100x33xf32>
  return %0 : tensor<100x33xf32>
}

// -----
// What makes an operand cheaply is made on its blocks, and is 0 outside K even where exp(0) is not. One number for each
// row needs no loop.
// CHECK-LABEL: "tt.func"
// CHECK: %[[ROW:.*]] = "tt.precise_sqrt"(%{{.*}}) : (tensor<16x1xf32>)
// CHECK: scf.for
// CHECK: %[[E:.*]] = math.exp %{{.*}} : tensor<16x16xf32>
// CHECK: %[[S:.*]] = arith.mulf %[[E]], %{{.*}} : tensor<16x16xf32>
// CHECK: %[[A:.*]] = arith.select %{{.*}}, %[[S]], %{{.*}} : tensor<16x16xi1>, tensor<16x16xf32>
// CHECK: "tt.dot"(%[[A]],
func.func @graph(%x: tensor<16x40xf32> {cuesta.strides = [40, 1]}, %r: tensor<16xf32> {cuesta.strides = [1]}, %b: tensor<40x16xf32> {cuesta.strides = [16, 1]}) -> (tensor<16x16xf32> {cuesta.strides = [16, 1]}) {
  %q = "cuesta.sqrt"(%r) : (tensor<16xf32>) -> tensor<16xf32>
  %c = "cuesta.reshape"(%q) : (tensor<16xf32>) -> tensor<16x1xf32>
  %e = "cuesta.exp"(%x) : (tensor<16x40xf32>) -> tensor<16x40xf32>
  %a = "cuesta.mul"(%e, %c) : (tensor<16x40xf32>, tensor<16x1xf32>) -> tensor<16x40xf32>
  %0 = "cuesta.mm"(%a, %b) {product = "16x16x16/4/3"} : (tensor<16x40xf32>, tensor<40x16xf32>) -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}

// -----
// Two products of one input, and what joins them, are one kernel: the input is loaded once.
// CHECK-LABEL: "tt.func"
// CHECK: scf.for {{.*}} -> (tensor<64x64xf32>, tensor<64x64xf32>)
// CHECK: %[[X:.*]] = "tt.load"
// CHECK: "tt.dot"(%[[X]],
// CHECK: "tt.dot"(%[[X]],
// CHECK: scf.yield
// CHECK-NOT: "tt.func"
func.func @graph(%x: tensor<64x64xbf16> {cuesta.strides = [64, 1]}, %g: tensor<64x128xbf16> {cuesta.strides = [128, 1]}, %u: tensor<64x128xbf16> {cuesta.strides = [128, 1]}) -> (tensor<64x128xf32> {cuesta.strides = [128, 1]}) {
  %0 = "cuesta.mm"(%x, %g) {product = "64x64x32/4/3"} : (tensor<64x64xbf16>, tensor<64x128xbf16>) -> tensor<64x128xf32>
  %1 = "cuesta.mm"(%x, %u) {product = "64x64x32/4/3"} : (tensor<64x64xbf16>, tensor<64x128xbf16>) -> tensor<64x128xf32>
  %2 = "cuesta.silu"(%0) : (tensor<64x128xf32>) -> tensor<64x128xf32>
  %3 = "cuesta.mul"(%2, %1) : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>
  return %3 : tensor<64x128xf32>
}

// -----
// Rows that begin at multiples of 16 bytes and end elsewhere: the loop over whole blocks of K has no masks, the rest is
// multiplied behind it, in a block of its own.
// CHECK-LABEL: "tt.func"
// CHECK: %[[END:.*]] = arith.constant 64 : i32
// CHECK: %[[SUM:.*]] = scf.for %{{.*}} = %{{.*}} to %[[END]]
// CHECK-NOT: arith.cmpi
// CHECK: "tt.load"(%{{.*}}) {{.*}} -> tensor<16x32xbf16>
// CHECK-NOT: arith.cmpi
// CHECK: "tt.load"(%{{.*}}) {{.*}} -> tensor<32x16xbf16>
// CHECK: scf.yield
// CHECK: arith.cmpi slt
// CHECK: "tt.load"(%{{.*}}, %{{.*}}, %{{.*}}) {{.*}} -> tensor<16x16xbf16>
// CHECK: "tt.dot"(%{{.*}}, %{{.*}}, %[[SUM]])
func.func @graph(%a: tensor<16x77xbf16> {cuesta.strides = [128, 1]}, %b: tensor<77x16xbf16> {cuesta.strides = [16, 1]}) -> (tensor<16x16xf32> {cuesta.strides = [16, 1]}) {
  %0 = "cuesta.mm"(%a, %b) {product = "16x16x32/4/3"} : (tensor<16x77xbf16>, tensor<77x16xbf16>) -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}

// -----
// Rows along M: all 16 bytes of a row's end are loaded (up to 80, not 77), what is made of them is not stored.
// CHECK-LABEL: "tt.func"
// CHECK: scf.for
// CHECK: %[[BOUND:.*]] = arith.constant dense<80> : tensor<32x1xi32>
// CHECK: arith.cmpi slt, %{{.*}}, %[[BOUND]]
// CHECK: "tt.store"(%{{.*}}, %{{.*}}, %{{.*}})
func.func @graph(%x: tensor<64x77xbf16> {cuesta.strides = [128, 1]}, %b: tensor<64x16xbf16> {cuesta.strides = [16, 1]}) -> (tensor<77x16xf32> {cuesta.strides = [16, 1]}) {
  %a = "cuesta.permute"(%x) {dims = [1, 0]} : (tensor<64x77xbf16>) -> tensor<77x64xbf16>
  %0 = "cuesta.mm"(%a, %b) {product = "32x16x32/4/3"} : (tensor<77x64xbf16>, tensor<64x16xbf16>) -> tensor<77x16xf32>
  return %0 : tensor<77x16xf32>
}

// -----
// A thread would hold 128 sums: what follows is computed for a quarter of the columns at a time.
// CHECK-LABEL: "tt.func"
// CHECK: scf.for
// CHECK-COUNT-3: "tt.split"
// CHECK-COUNT-4: "tt.store"({{.*}}tensor<32x32x!tt.ptr
// CHECK-NOT: "tt.store"
func.func @graph(%a: tensor<64x32xbf16> {cuesta.strides = [32, 1]}, %b: tensor<32x128xbf16> {cuesta.strides = [128, 1]}) -> (tensor<64x128xf32> {cuesta.strides = [128, 1]}) {
  %0 = "cuesta.mm"(%a, %b) {product = "32x128x16/1/3"} : (tensor<64x32xbf16>, tensor<32x128xbf16>) -> tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}

// -----
// A part divides the 160 columns, but blocks cover 256: parts lie outside, and are not stored.
// CHECK-LABEL: "tt.func"
// CHECK-COUNT-4: "tt.store"(%{{.*}}, %{{.*}}, %{{.*}}) {{.*}} : (tensor<32x32x!tt.ptr
// CHECK-NOT: "tt.store"
func.func @graph(%a: tensor<64x32xbf16> {cuesta.strides = [32, 1]}, %b: tensor<32x160xbf16> {cuesta.strides = [160, 1]}) -> (tensor<64x160xf32> {cuesta.strides = [160, 1]}) {
  %0 = "cuesta.mm"(%a, %b) {product = "32x128x16/1/3"} : (tensor<64x32xbf16>, tensor<32x160xbf16>) -> tensor<64x160xf32>
  return %0 : tensor<64x160xf32>
}

// -----
// What follows few sums is loaded before the loop.
// CHECK-LABEL: "tt.func"
// CHECK: "tt.load"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<16x16xbf16>
// CHECK: scf.for
// CHECK: scf.yield
// CHECK-NOT: "tt.load"
// CHECK: "tt.store"
func.func @graph(%a: tensor<8x512xbf16> {cuesta.strides = [512, 1]}, %w: tensor<256x512xbf16> {cuesta.strides = [512, 1]}, %c: tensor<8x256xbf16> {cuesta.strides = [256, 1]}) -> (tensor<8x256xbf16> {cuesta.strides = [256, 1]}) {
  %b = "cuesta.permute"(%w) {dims = [1, 0]} : (tensor<256x512xbf16>) -> tensor<512x256xbf16>
  %0 = "cuesta.mm"(%a, %b) {product = "16x16x128/2/4"} : (tensor<8x512xbf16>, tensor<512x256xbf16>) -> tensor<8x256xf32>
  %1 = "cuesta.convert"(%0) : (tensor<8x256xf32>) -> tensor<8x256xbf16>
  %2 = "cuesta.add"(%1, %c) : (tensor<8x256xbf16>, tensor<8x256xbf16>) -> tensor<8x256xbf16>
  return %2 : tensor<8x256xbf16>
}

// -----
// Five blocks on two programs, which take them in turns: block 0, 2 and 4, and 1 and 3. All columns are stored at once.
// CHECK-LABEL: "tt.func"
// CHECK: %[[P:.*]] = "tt.get_program_id"
// CHECK-DAG: %[[END:.*]] = arith.constant 5 : i32
// CHECK-DAG: %[[STEP:.*]] = arith.constant 2 : i32
// CHECK: scf.for %[[I:.*]] = %[[P]] to %[[END]] step %[[STEP]]
// CHECK: "tt.dot"
// CHECK: "tt.store"({{.*}}) {{.*}} : (tensor<32x128x!tt.ptr<f32>>
// CHECK-NOT: "tt.store"
// CHECK: tt.flatten
// CHECK: cuesta.grid = [2, 1, 1]
func.func @graph(%a: tensor<160x32xbf16> {cuesta.strides = [32, 1]}, %b: tensor<32x128xbf16> {cuesta.strides = [128, 1]}) -> (tensor<160x128xf32> {cuesta.strides = [128, 1]}) {
  %0 = "cuesta.mm"(%a, %b) {product = "32x128x16/1/3 on 2"} : (tensor<160x32xbf16>, tensor<32x128xbf16>) -> tensor<160x128xf32>
  return %0 : tensor<160x128xf32>
}
