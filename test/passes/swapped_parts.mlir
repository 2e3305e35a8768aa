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
