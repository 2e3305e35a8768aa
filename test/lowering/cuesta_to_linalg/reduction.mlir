// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg)' %s | filecheck %s

// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0, d1) -> (d0)>

// The kept dim of size 1 comes back by a reshape, after the generic.
// CHECK-LABEL: func.func @sum
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: %[[F:.*]] = linalg.fill ins(%[[ZERO]] : f32)
// CHECK-NEXT: %[[R:.*]] = linalg.generic {indexing_maps = [#[[ID]], #[[ROW]]], iterator_types = ["parallel", "reduction"]} ins(%[[X]] : tensor<4x8xf32>) outs(%[[F]] : tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %[[ACC:.*]]: f32):
// CHECK-NEXT: arith.addf %[[ACC]], %[[IN]] fastmath<reassoc>
// CHECK: %[[K:.*]] = "cuesta.reshape"(%[[R]]) : (tensor<4xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: return %[[K]]
func.func @sum(%x: tensor<4x8xf32>) -> tensor<4x1xf32> {
  %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}

// bf16 accumulates in f32 and is rounded once.
// CHECK-LABEL: func.func @narrow_sum
// CHECK: %[[R:.*]] = linalg.generic {{.*}}"reduction"{{.*}} outs(%{{.*}} : tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.*]]: bf16, %[[ACC:.*]]: f32):
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[IN]] : bf16 to f32
// CHECK-NEXT: arith.addf %[[ACC]], %[[W]]
// CHECK: linalg.generic {{.*}} ins(%[[R]] : tensor<4xf32>)
// CHECK: arith.truncf %{{.*}} : f32 to bf16
func.func @narrow_sum(%x: tensor<4x8xbf16>) -> tensor<4xbf16> {
  %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 0 : i64} : (tensor<4x8xbf16>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// CHECK-LABEL: func.func @amax
// CHECK: arith.constant 0xFF800000 : f32
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "parallel"]
// CHECK: arith.maximumf
func.func @amax(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  %0 = "cuesta.amax"(%x) {dims = [0], keepdim = 0 : i64} : (tensor<4x8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// A stretched operand does not bound the reduced loop, so it is spelled out.
// CHECK-LABEL: func.func @stretched
// CHECK: %[[WHOLE:.*]] = linalg.generic {indexing_maps = [#[[ROW]], #[[ID]]], iterator_types = ["parallel", "parallel"]}
// CHECK: linalg.generic {indexing_maps = [#[[ID]], #[[ROW]]], iterator_types = ["parallel", "reduction"]} ins(%[[WHOLE]] : tensor<4x8xf32>)
func.func @stretched(%x: tensor<4x1xf32>) -> tensor<4xf32> {
  %0 = "cuesta.expand"(%x) : (tensor<4x1xf32>) -> tensor<4x8xf32>
  %1 = "cuesta.sum"(%0) {dims = [1], keepdim = 0 : i64} : (tensor<4x8xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// The extreme and its place go along together; the first NaN is largest.
// CHECK-LABEL: func.func @argmax
// CHECK: %[[R:.*]]:2 = linalg.generic {indexing_maps = [#[[ID]], #[[ROW]], #[[ROW]]], iterator_types = ["parallel", "reduction"]}
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[BEST:.*]]: f32, %[[AT:.*]]: i64):
// CHECK-NEXT: %[[I:.*]] = linalg.index 1
// CHECK-NEXT: %[[HERE:.*]] = arith.index_cast %[[I]] : index to i64
// CHECK-NEXT: %[[GT:.*]] = arith.cmpf ogt, %[[X]], %[[BEST]]
// CHECK-NEXT: arith.cmpf uno, %[[X]], %[[X]]
// CHECK-NEXT: arith.cmpf uno, %[[BEST]], %[[BEST]]
// CHECK: %[[BETTER:.*]] = arith.ori %[[GT]],
// CHECK-NEXT: arith.select %[[BETTER]], %[[X]], %[[BEST]] : f32
// CHECK-NEXT: arith.select %[[BETTER]], %[[HERE]], %[[AT]] : i64
// CHECK: return %[[R]]#1
func.func @argmax(%x: tensor<4x8xf32>) -> tensor<4xi64> {
  %0 = "cuesta.argmax"(%x) {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// A running sum stays in order: no leave to reassociate.
// CHECK-LABEL: func.func @cumsum
// CHECK: %[[R:.*]]:2 = linalg.generic {indexing_maps = [#[[ID]], #[[ROW]], #[[ID]]], iterator_types = ["parallel", "reduction"]}
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[TOTAL:.*]]: f64, %{{.*}}: f32):
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[X]] : f32 to f64
// CHECK-NEXT: %[[NEXT:.*]] = arith.addf %[[TOTAL]], %[[WIDE]] : f64
// CHECK-NEXT: %[[KEPT:.*]] = arith.truncf %[[NEXT]] : f64 to f32
// CHECK-NEXT: linalg.yield %[[NEXT]], %[[KEPT]]
// CHECK: return %[[R]]#1
func.func @cumsum(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "cuesta.cumsum"(%x) {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// A kept dim that a pointwise op reads is as good as none: nothing is reshaped between them.
// CHECK-LABEL: func.func @keepdim
// CHECK: %[[TOP:.*]] = linalg.generic {{.*}}outs(%{{.*}} : tensor<4xf32>)
// CHECK-NOT: cuesta.reshape
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[TOP]] : tensor<4x6xf32>, tensor<4xf32>)
func.func @keepdim(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = "cuesta.amax"(%x) {dims = [1], keepdim = 1} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %1 = "cuesta.sub"(%x, %0) : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// The least uint8 is 0, not -128.
// CHECK-LABEL: func.func @unsigned
// CHECK: arith.constant 0 : i8
// CHECK: arith.maxui
func.func @unsigned(%x: tensor<6xui8>) -> tensor<ui8> {
  %0 = "cuesta.amax"(%x) {dims = [0], keepdim = 0} : (tensor<6xui8>) -> tensor<ui8>
  return %0 : tensor<ui8>
}

// Along a dim of size 1 there is nothing to look for.
// CHECK-LABEL: func.func @one_element
// CHECK-NOT: linalg.index
// CHECK: arith.constant 0 : i64
func.func @one_element(%x: tensor<4x1xf32>) -> tensor<4xi64> {
  %0 = "cuesta.argmin"(%x) {dim = 1} : (tensor<4x1xf32>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// Over a dim of size 1 there is nothing to combine: no initial value, no loop that accumulates into it.
// CHECK-LABEL: func.func @one_term
// CHECK-NOT: linalg.fill
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel"]
// CHECK-NOT: arith.addf
// CHECK: return
func.func @one_term(%x: tensor<4x1xf32>) -> tensor<4xf32> {
  %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 0} : (tensor<4x1xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
