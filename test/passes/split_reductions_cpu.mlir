// RUN: cuesta-opt --pass-pipeline='builtin.module(split-reductions{programs=16 symbolic=false})' %s | filecheck %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(split-reductions{longest=2048 programs=16 symbolic=false})' %s | filecheck --check-prefix=EXACT %s

// Few columns would be one strip, one thread's work.
// CHECK-LABEL: func.func @few_columns
// CHECK-SAME: (%[[X:.*]]: tensor<6272x64xf32>)
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<6272x64xf32>) -> tensor<32x196x64xf32>
// CHECK: %[[P:.*]] = "cuesta.sum"(%[[R]]) {dims = [1], keepdim = 0 : i64} : (tensor<32x196x64xf32>) -> tensor<32x64xf32>
// CHECK: "cuesta.sum"(%[[P]]) {dims = [0], keepdim = 0 : i64} : (tensor<32x64xf32>) -> tensor<64xf32>
func.func @few_columns(%x: tensor<6272x64xf32>) -> tensor<64xf32> {
  %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<6272x64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// Of many there are strips enough, and of rows more than enough. A size that the call tells stays whole.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: cuesta.reshape
func.func @whole(%x: tensor<6272x256xf32>, %y: tensor<12x4096xf32>, %z: tensor<?x64xf32, ["64*s0"]>) -> (tensor<256xf32>, tensor<12xf32>, tensor<64xf32>) {
  %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<6272x256xf32>) -> tensor<256xf32>
  %1 = "cuesta.sum"(%y) {dims = [1], keepdim = 0} : (tensor<12x4096xf32>) -> tensor<12xf32>
  %2 = "cuesta.sum"(%z) {dims = [0], keepdim = 0} : (tensor<?x64xf32, ["64*s0"]>) -> tensor<64xf32>
  return %0, %1, %2 : tensor<256xf32>, tensor<12xf32>, tensor<64xf32>
}

// Nor are so many numbers of f32 added up one after the other where that is limited: down a column, or by all lanes of a
// vector along a row. Of a maximum nothing is rounded.
// CHECK-LABEL: func.func @long
// CHECK-NOT: cuesta.reshape
// EXACT-LABEL: func.func @long
// EXACT-SAME: (%[[X:.*]]: tensor<16384x512xf32>, %[[Y:.*]]: tensor<16x131072xf32>)
// EXACT: "cuesta.reshape"(%[[X]]) : (tensor<16384x512xf32>) -> tensor<8x2048x512xf32>
// EXACT: "cuesta.sum"({{.*}}) {dims = [1], {{.*}} -> tensor<8x512xf32>
// EXACT: "cuesta.reshape"(%[[Y]]) : (tensor<16x131072xf32>) -> tensor<16x4x32768xf32>
// EXACT: "cuesta.amax"(%[[Y]])
func.func @long(%x: tensor<16384x512xf32>, %y: tensor<16x131072xf32>) -> (tensor<512xf32>, tensor<16xf32>, tensor<16xf32>) {
  %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<16384x512xf32>) -> tensor<512xf32>
  %1 = "cuesta.sum"(%y) {dims = [1], keepdim = 0} : (tensor<16x131072xf32>) -> tensor<16xf32>
  %2 = "cuesta.amax"(%y) {dims = [1], keepdim = 0} : (tensor<16x131072xf32>) -> tensor<16xf32>
  return %0, %1, %2 : tensor<512xf32>, tensor<16xf32>, tensor<16xf32>
}
