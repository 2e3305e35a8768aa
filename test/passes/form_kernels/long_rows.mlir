// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels)' %s | filecheck %s

// Rows of 4 MB: what is done to each element for one reader is part of that reader's loop, and takes no memory.
// CHECK-LABEL: module {
// CHECK: func.func @kernel(%{{.*}}: tensor<64x524288xi8>, %{{.*}}: tensor<64xi64>
// CHECK-NOT: func.func @kernel
// CHECK: func.func @graph
func.func @graph(%x: tensor<64x524288xui8> {cuesta.strides = [524288, 1]}) -> (tensor<64xi64> {cuesta.strides = [1]}) {
  %0 = "cuesta.convert"(%x) : (tensor<64x524288xui8>) -> tensor<64x524288xi64>
  %1 = "cuesta.neg"(%0) : (tensor<64x524288xi64>) -> tensor<64x524288xi64>
  %2 = "cuesta.sum"(%1) {dims = [1], keepdim = 0} : (tensor<64x524288xi64>) -> tensor<64xi64>
  return %2 : tensor<64xi64>
}

// -----
// For two readers a row would have to stay somewhere.
// CHECK-LABEL: module {
// CHECK: do not fit into the cache
func.func @graph(%x: tensor<64x524288xui8> {cuesta.strides = [524288, 1]}) -> (tensor<64xi64> {cuesta.strides = [1]}, tensor<64xi64> {cuesta.strides = [1]}) {
  %0 = "cuesta.convert"(%x) : (tensor<64x524288xui8>) -> tensor<64x524288xi64>
  %1 = "cuesta.sum"(%0) {dims = [1], keepdim = 0} : (tensor<64x524288xi64>) -> tensor<64xi64>
  %2 = "cuesta.amax"(%0) {dims = [1], keepdim = 0} : (tensor<64x524288xi64>) -> tensor<64xi64>
  return %1, %2 : tensor<64xi64>, tensor<64xi64>
}
