// RUN: cuesta-opt --pass-pipeline='builtin.module(split-reductions{programs=16 symbolic=false})' %s | filecheck %s

// Few columns would be one strip, one thread's work.
// CHECK-LABEL: func.func @few_columns
// CHECK: %[[R:.*]] = "cuesta.reshape"(%arg0) : (tensor<6272x64xf32>) -> tensor<32x196x64xf32>
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
