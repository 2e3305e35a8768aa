// RUN: cuesta-opt --pass-pipeline='builtin.module(decompose{checks=false},cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// A row's maximum, and the sum of the powers of what lies below it, are made in one loop, which reads the row once: four
// blocks in a turn, all loaded first. Of what is left behind the last turn, the last block has a mask.
// CHECK-LABEL: "tt.func"
// CHECK: %[[BOTH:.*]]:2 = scf.for %[[AT:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[HIGH:.*]] = %{{.*}}, %[[SUM:.*]] = %{{.*}})
// CHECK-COUNT-4: "tt.load"(%{{.*}}) {
// CHECK: %[[X:.*]] = arith.extf
// CHECK-COUNT-3: arith.extf
// CHECK: arith.maximumf %[[HIGH]], %[[X]]
// CHECK-COUNT-2: arith.maximumf
// CHECK: %[[NEW:.*]] = arith.maximumf
// CHECK: %[[LOWER:.*]] = arith.subf %[[HIGH]], %[[NEW]]
// CHECK: %[[SHARE:.*]] = math.exp %[[LOWER]]
// CHECK: %[[BEFORE:.*]] = arith.mulf %[[SUM]], %[[SHARE]]
// CHECK: %[[BELOW:.*]] = arith.subf %[[X]], %[[NEW]]
// CHECK: %[[POWER:.*]] = math.exp %[[BELOW]]
// CHECK: arith.addf %[[BEFORE]], %[[POWER]]
// CHECK-COUNT-3: math.exp
// CHECK: scf.yield %[[NEW]], %{{.*}}
// CHECK: "tt.load"(%{{.*}}) {
// CHECK: "tt.load"(%{{.*}}, %{{.*}}) {
// CHECK-NOT: "tt.load"
// CHECK-NOT: scf.for
// CHECK: "tt.reduce"
// CHECK: "tt.reduce"
// CHECK: arith.cmpf oeq
// CHECK-COUNT-2: arith.select
// CHECK-COUNT-2: "tt.store"
// CHECK-NOT: "tt.func"
func.func @graph(%x: tensor<512x38000xbf16> {cuesta.strides = [38000, 1]}) -> (tensor<512x1xf32>, tensor<512x1xf32>) {
  %0 = "cuesta.convert"(%x) : (tensor<512x38000xbf16>) -> tensor<512x38000xf32>
  %1 = "cuesta.amax"(%0) {dims = [1], keepdim = true} : (tensor<512x38000xf32>) -> tensor<512x1xf32>
  %2 = "cuesta.sub"(%0, %1) : (tensor<512x38000xf32>, tensor<512x1xf32>) -> tensor<512x38000xf32>
  %3 = "cuesta.exp"(%2) : (tensor<512x38000xf32>) -> tensor<512x38000xf32>
  %4 = "cuesta.sum"(%3) {dims = [1], keepdim = true} : (tensor<512x38000xf32>) -> tensor<512x1xf32>
  return %1, %4 : tensor<512x1xf32>, tensor<512x1xf32>
}
