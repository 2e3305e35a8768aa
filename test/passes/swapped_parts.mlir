// RUN: cuesta-opt --pass-pipeline='builtin.module(swapped-parts)' %s | filecheck %s

// The halves of a row swapped, one of them negated: a rotary embedding.
// CHECK-LABEL: func.func @rotary
// CHECK-SAME: (%[[X:.*]]: tensor<8x64xbf16>)
// CHECK: %[[P:.*]] = "cuesta.where"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<64xi1>, tensor<64xi64>, tensor<64xi64>) -> tensor<64xi64>
// CHECK: %[[R:.*]] = "cuesta.index"(%[[X]], %[[P]]) {dims = [1], in_range
// CHECK: %[[N:.*]] = "cuesta.neg"(%[[R]])
// CHECK: "cuesta.where"(%{{.*}}, %[[N]], %[[R]])
// CHECK-NOT: cuesta.cat
func.func @rotary(%x: tensor<8x64xbf16>) -> tensor<8x64xbf16> {
  %0 = "cuesta.slice"(%x) {starts = [0, 32], steps = [1, 1]} : (tensor<8x64xbf16>) -> tensor<8x32xbf16>
  %1 = "cuesta.neg"(%0) : (tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %2 = "cuesta.slice"(%x) {starts = [0, 0], steps = [1, 1]} : (tensor<8x64xbf16>) -> tensor<8x32xbf16>
  %3 = "cuesta.cat"(%1, %2) {dim = 1 : i64} : (tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x64xbf16>
  return %3 : tensor<8x64xbf16>
}

// Parts that are moved only: one read.
// CHECK-LABEL: func.func @rolled
// CHECK: "cuesta.index"
// CHECK-NOT: cuesta.where{{.*}}f32
// CHECK-NOT: cuesta.cat
// CHECK: return
func.func @rolled(%x: tensor<10x4xf32>) -> tensor<10x4xf32> {
  %0 = "cuesta.slice"(%x) {starts = [7, 0], steps = [1, 1]} : (tensor<10x4xf32>) -> tensor<3x4xf32>
  %1 = "cuesta.slice"(%x) {starts = [0, 0], steps = [1, 1]} : (tensor<10x4xf32>) -> tensor<7x4xf32>
  %2 = "cuesta.cat"(%0, %1) {dim = 0 : i64} : (tensor<3x4xf32>, tensor<7x4xf32>) -> tensor<10x4xf32>
  return %2 : tensor<10x4xf32>
}

// Parts of two tensors, parts that are cut along another dim too, and a part that another op reads stay.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-3: cuesta.cat
// CHECK-NOT: cuesta.index
func.func @others(%x: tensor<8x64xf32>, %y: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<4x64xf32>, tensor<8x64xf32>, tensor<8x32xf32>) {
  %0 = "cuesta.slice"(%x) {starts = [0, 0], steps = [1, 1]} : (tensor<8x64xf32>) -> tensor<8x32xf32>
  %1 = "cuesta.slice"(%y) {starts = [0, 0], steps = [1, 1]} : (tensor<8x64xf32>) -> tensor<8x32xf32>
  %2 = "cuesta.cat"(%0, %1) {dim = 1 : i64} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32>
  %3 = "cuesta.slice"(%x) {starts = [4, 0], steps = [1, 1]} : (tensor<8x64xf32>) -> tensor<4x32xf32>
  %4 = "cuesta.slice"(%x) {starts = [4, 32], steps = [1, 1]} : (tensor<8x64xf32>) -> tensor<4x32xf32>
  %5 = "cuesta.cat"(%4, %3) {dim = 1 : i64} : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x64xf32>
  %6 = "cuesta.slice"(%x) {starts = [0, 32], steps = [1, 1]} : (tensor<8x64xf32>) -> tensor<8x32xf32>
  %7 = "cuesta.exp"(%6) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %8 = "cuesta.cat"(%7, %0) {dim = 1 : i64} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32>
  return %2, %5, %8, %7 : tensor<8x64xf32>, tensor<4x64xf32>, tensor<8x64xf32>, tensor<8x32xf32>
}

// A rotary embedding as sums of products: each is made once, and where the parts' ops differ, both for all elements. The
// first factor is the row as it is; cosines are repeated; what has no parts stays as it is.
// CHECK-LABEL: func.func @sums
// CHECK-SAME: (%[[X:.*]]: tensor<8x64xbf16>, %[[C:.*]]: tensor<1x32xbf16>, %[[S:.*]]: tensor<32xbf16>, %[[ONE:.*]]: tensor<8x1xbf16>)
// CHECK: %[[COS:.*]] = "cuesta.index"(%[[C]], %{{.*}}) {dims = [1], in_range{{.*}} -> tensor<1x64xbf16>
// CHECK: %[[U:.*]] = "cuesta.mul"(%[[X]], %[[COS]])
// CHECK: %[[R:.*]] = "cuesta.index"(%[[X]], %{{.*}}) {dims = [1], in_range
// CHECK: %[[SIN:.*]] = "cuesta.index"(%[[S]], %{{.*}}) {dims = [0], in_range{{.*}} -> tensor<64xbf16>
// CHECK: %[[V:.*]] = "cuesta.mul"(%[[R]], %[[SIN]])
// CHECK: %[[FIRST:.*]] = "cuesta.sub"(%[[U]], %[[V]])
// CHECK: %[[SECOND:.*]] = "cuesta.add"(%[[U]], %[[V]])
// CHECK: %[[ALL:.*]] = "cuesta.where"(%{{.*}}, %[[FIRST]], %[[SECOND]])
// CHECK-NOT: cuesta.cat
// CHECK: return
func.func @sums(%x: tensor<8x64xbf16>, %c: tensor<1x32xbf16>, %s: tensor<32xbf16>, %one: tensor<8x1xbf16>) -> tensor<8x64xbf16> {
  %0 = "cuesta.slice"(%x) {starts = [0, 0], steps = [1, 1]} : (tensor<8x64xbf16>) -> tensor<8x32xbf16>
  %1 = "cuesta.slice"(%x) {starts = [0, 32], steps = [1, 1]} : (tensor<8x64xbf16>) -> tensor<8x32xbf16>
  %2 = "cuesta.mul"(%0, %c) : (tensor<8x32xbf16>, tensor<1x32xbf16>) -> tensor<8x32xbf16>
  %3 = "cuesta.mul"(%1, %s) : (tensor<8x32xbf16>, tensor<32xbf16>) -> tensor<8x32xbf16>
  %4 = "cuesta.sub"(%2, %3) : (tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %5 = "cuesta.mul"(%1, %c) : (tensor<8x32xbf16>, tensor<1x32xbf16>) -> tensor<8x32xbf16>
  %6 = "cuesta.mul"(%0, %s) : (tensor<8x32xbf16>, tensor<32xbf16>) -> tensor<8x32xbf16>
  %7 = "cuesta.add"(%5, %6) : (tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %8 = "cuesta.mul"(%4, %one) : (tensor<8x32xbf16>, tensor<8x1xbf16>) -> tensor<8x32xbf16>
  %9 = "cuesta.mul"(%7, %one) : (tensor<8x32xbf16>, tensor<8x1xbf16>) -> tensor<8x32xbf16>
  %10 = "cuesta.cat"(%8, %9) {dim = 1 : i64} : (tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x64xbf16>
  return %10 : tensor<8x64xbf16>
}

// Runs that are seen with other dims in front.
// CHECK-LABEL: func.func @seen
// CHECK: %[[X:.*]] = "cuesta.reshape"(%{{.*}}) : (tensor<8x64xf32>) -> tensor<2x4x64xf32>
// CHECK: "cuesta.index"(%[[X]], %{{.*}}) {dims = [2], in_range
// CHECK-NOT: cuesta.cat
// CHECK: return
func.func @seen(%x: tensor<8x64xf32>) -> tensor<2x4x64xf32> {
  %0 = "cuesta.slice"(%x) {starts = [0, 0], steps = [1, 1]} : (tensor<8x64xf32>) -> tensor<8x32xf32>
  %1 = "cuesta.slice"(%x) {starts = [0, 32], steps = [1, 1]} : (tensor<8x64xf32>) -> tensor<8x32xf32>
  %2 = "cuesta.reshape"(%0) : (tensor<8x32xf32>) -> tensor<2x4x32xf32>
  %3 = "cuesta.reshape"(%1) : (tensor<8x32xf32>) -> tensor<2x4x32xf32>
  %4 = "cuesta.cat"(%3, %2) {dim = 2 : i64} : (tensor<2x4x32xf32>, tensor<2x4x32xf32>) -> tensor<2x4x64xf32>
  return %4 : tensor<2x4x64xf32>
}

// Of many bytes, only runs are read, with ops of one operand. Parts of other sums stay.
// CHECK-LABEL: func.func @large
// CHECK-COUNT-2: cuesta.cat
// CHECK-NOT: cuesta.index
func.func @large(%x: tensor<8192x64xf32>, %y: tensor<8x64xf32>, %c: tensor<8192x32xf32>, %d: tensor<8x32xf32>) -> (tensor<8192x64xf32>, tensor<8x64xf32>) {
  %0 = "cuesta.slice"(%x) {starts = [0, 0], steps = [1, 1]} : (tensor<8192x64xf32>) -> tensor<8192x32xf32>
  %1 = "cuesta.slice"(%x) {starts = [0, 32], steps = [1, 1]} : (tensor<8192x64xf32>) -> tensor<8192x32xf32>
  %2 = "cuesta.mul"(%0, %c) : (tensor<8192x32xf32>, tensor<8192x32xf32>) -> tensor<8192x32xf32>
  %3 = "cuesta.mul"(%1, %c) : (tensor<8192x32xf32>, tensor<8192x32xf32>) -> tensor<8192x32xf32>
  %4 = "cuesta.cat"(%2, %3) {dim = 1 : i64} : (tensor<8192x32xf32>, tensor<8192x32xf32>) -> tensor<8192x64xf32>
  %5 = "cuesta.slice"(%y) {starts = [0, 0], steps = [1, 1]} : (tensor<8x64xf32>) -> tensor<8x32xf32>
  %6 = "cuesta.add"(%5, %5) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %7 = "cuesta.cat"(%6, %d) {dim = 1 : i64} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32>
  return %4, %7 : tensor<8192x64xf32>, tensor<8x64xf32>
}

// Parts of one element that are the same: repeated.
// CHECK-LABEL: func.func @repeated
// CHECK-SAME: (%[[X:.*]]: tensor<4x1xf32>)
// CHECK-NEXT: %[[N:.*]] = "cuesta.neg"(%[[X]])
// CHECK-NEXT: %[[E:.*]] = "cuesta.expand"({{.*}}) : (tensor<4x1xf32>) -> tensor<4x3xf32>
// CHECK-NEXT: return %[[E]]
func.func @repeated(%x: tensor<4x1xf32>) -> tensor<4x3xf32> {
  %0 = "cuesta.neg"(%x) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %1 = "cuesta.cat"(%0, %0) {dim = 1 : i64} : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  %2 = "cuesta.cat"(%1, %0) {dim = 1 : i64} : (tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x3xf32>
  return %2 : tensor<4x3xf32>
}
