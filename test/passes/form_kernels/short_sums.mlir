// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu})' %s | filecheck %s

// The sums of short groups of a row, and the sum of these: one kernel, as a thread or a few have a group's elements.
// CHECK: module @kernels
// CHECK-COUNT-1: func.func
// CHECK-NOT: func.func @kernel_2
// CHECK: func.func @graph
func.func @graph(%x: tensor<1024x64x32xf32> {cuesta.strides = [2048, 32, 1]}, %s: tensor<1024x64xf32> {cuesta.strides = [64, 1]}) -> (tensor<1024xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.sum"(%x) {dims = [2], keepdim = 0 : i64} : (tensor<1024x64x32xf32>) -> tensor<1024x64xf32>
  %1 = "cuesta.mul"(%0, %s) : (tensor<1024x64xf32>, tensor<1024x64xf32>) -> tensor<1024x64xf32>
  %2 = "cuesta.sum"(%1) {dims = [1], keepdim = 0 : i64} : (tensor<1024x64xf32>) -> tensor<1024xf32>
  return %2 : tensor<1024xf32>
}

// -----

// Longer sums are a kernel of their own: all groups of a row would have to be in one program.
// CHECK: module @kernels
// CHECK-COUNT-2: func.func
// CHECK: func.func @graph
func.func @graph(%x: tensor<1024x8x256xf32> {cuesta.strides = [2048, 256, 1]}, %s: tensor<1024x8xf32> {cuesta.strides = [8, 1]}) -> (tensor<1024xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.sum"(%x) {dims = [2], keepdim = 0 : i64} : (tensor<1024x8x256xf32>) -> tensor<1024x8xf32>
  %1 = "cuesta.mul"(%0, %s) : (tensor<1024x8xf32>, tensor<1024x8xf32>) -> tensor<1024x8xf32>
  %2 = "cuesta.sum"(%1) {dims = [1], keepdim = 0 : i64} : (tensor<1024x8xf32>) -> tensor<1024xf32>
  return %2 : tensor<1024xf32>
}
