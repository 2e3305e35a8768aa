// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg)' %s | filecheck %s

// CHECK-DAG: #[[ID1:.*]] = affine_map<(d0) -> (d0)>
// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-DAG: #[[TURNED:.*]] = affine_map<(d0, d1) -> (d1, d0)>

// Arguments and results keep what was said of them.
// CHECK-LABEL: func.func @exp
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32> {cuesta.dtype = "f32", cuesta.strides = [8, 1]}) -> (tensor<4x8xf32> {cuesta.dtype = "f32", cuesta.strides = [1, 4]})
// CHECK-NEXT: %[[E:.*]] = tensor.empty() : tensor<4x8xf32>
// CHECK-NEXT: %[[R:.*]] = linalg.generic {indexing_maps = [#[[ID]], #[[ID]]], iterator_types = ["parallel", "parallel"]} ins(%[[X]] : tensor<4x8xf32>) outs(%[[E]] : tensor<4x8xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[Y:.*]] = math.exp %[[IN]] : f32
// CHECK-NEXT: linalg.yield %[[Y]]
// CHECK: return %[[R]]
func.func @exp(%x: tensor<4x8xf32> {cuesta.strides = [8, 1]}) -> (tensor<4x8xf32> {cuesta.strides = [1, 4]}) {
  %0 = "cuesta.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// What broadcasts loses its dims of size 1; a constant lives inside the op that reads it.
// CHECK-LABEL: func.func @broadcast
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[C:.*]]: tensor<4x1xf32>)
// CHECK-NEXT: %[[S:.*]] = "cuesta.reshape"(%[[C]]) : (tensor<4x1xf32>) -> tensor<4xf32>
// CHECK: %[[M:.*]] = linalg.generic {indexing_maps = [#[[ID]], #[[ROW]], #[[ID]]], {{.*}} ins(%[[X]], %[[S]] :
// CHECK: arith.mulf
// CHECK: linalg.generic {indexing_maps = [#[[ID]], #[[ID]]], {{.*}} ins(%[[M]] :
// CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK-NEXT: arith.addf %[[IN]], %[[TWO]]
func.func @broadcast(%x: tensor<4x8xf32>, %c: tensor<4x1xf32>) -> tensor<4x8xf32> {
  %two = "cuesta.constant"() {value = 2.0 : f64} : () -> tensor<f32>
  %0 = "cuesta.mul"(%x, %c) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %1 = "cuesta.add"(%0, %two) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// A read looks through a permutation, which is gone.
// CHECK-LABEL: func.func @permuted
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[Y:.*]]: tensor<8x4xf32>)
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: linalg.generic {indexing_maps = [#[[TURNED]], #[[ID]], #[[ID]]], {{.*}} ins(%[[X]], %[[Y]] :
func.func @permuted(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = "cuesta.permute"(%x) {dims = [1, 0]} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = "cuesta.add"(%0, %y) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// bf16 computes in f32.
// CHECK-LABEL: func.func @narrow
// CHECK: ^bb0(%[[A:.*]]: bf16, %[[B:.*]]: bf16, %{{.*}}: bf16):
// CHECK-NEXT: %[[WA:.*]] = arith.extf %[[A]] : bf16 to f32
// CHECK-NEXT: %[[WB:.*]] = arith.extf %[[B]] : bf16 to f32
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[WA]], %[[WB]] : f32
// CHECK-NEXT: %[[N:.*]] = arith.truncf %[[S]] : f32 to bf16
// CHECK-NEXT: linalg.yield %[[N]]
func.func @narrow(%x: tensor<4xbf16>, %y: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = "cuesta.add"(%x, %y) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// A bool is a byte in memory and a bit inside the ops.
// CHECK-LABEL: func.func @bools
// CHECK: %[[C:.*]] = linalg.generic {indexing_maps = [#[[ID1]], #[[ID1]], #[[ID1]]]
// CHECK: %[[LT:.*]] = arith.cmpf olt
// CHECK-NEXT: %[[BYTE:.*]] = arith.extui %[[LT]] : i1 to i8
// CHECK-NEXT: linalg.yield %[[BYTE]] : i8
// CHECK: linalg.generic {{.*}} ins(%[[C]], %{{.*}}, %{{.*}} : tensor<4xi8>, tensor<4xf32>, tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.*]]: i8, %[[X:.*]]: f32, %[[Y:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[BIT:.*]] = arith.cmpi ne, %[[IN]]
// CHECK-NEXT: arith.select %[[BIT]], %[[X]], %[[Y]]
func.func @bools(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "cuesta.lt"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %1 = "cuesta.where"(%0, %x, %y) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// That a choice is implied is said of the select.
// CHECK-LABEL: func.func @implied
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} {cuesta.implied} : f32
func.func @implied(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "cuesta.where"(%c, %x, %y) {implied} : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @convert
// CHECK: arith.sitofp %{{.*}} : i32 to f32
func.func @convert(%x: tensor<4xi32>) -> tensor<4xf32> {
  %0 = "cuesta.convert"(%x) : (tensor<4xi32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Numbers and ranges are computed where they are read, in the type that they have.
// CHECK-LABEL: func.func @range
// CHECK: ^bb0(%[[X:.*]]: i64, %{{.*}}: i8):
// CHECK-NEXT: %[[I:.*]] = linalg.index 0
// CHECK: %[[AT:.*]] = arith.index_cast %[[I]] : index to i64
// CHECK: %[[STEP:.*]] = arith.muli %[[AT]], %{{.*}}
// CHECK: arith.cmpi slt, %[[X]], %{{.*}}
func.func @range(%x: tensor<6xi64>) -> tensor<6xi1> {
  %range = "cuesta.iota"() {start = 3, step = 2} : () -> tensor<6xi64>
  %0 = "cuesta.lt"(%x, %range) : (tensor<6xi64>, tensor<6xi64>) -> tensor<6xi1>
  return %0 : tensor<6xi1>
}

// The type says how integers are read, until here: uint8 compares and converts unsigned.
// CHECK-LABEL: func.func @unsigned
// CHECK-SAME: tensor<6xi8>
// CHECK: arith.cmpi ult
// CHECK: arith.uitofp
func.func @unsigned(%x: tensor<6xui8>, %y: tensor<6xui8>) -> (tensor<6xi1>, tensor<6xf32>) {
  %0 = "cuesta.lt"(%x, %y) : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xi1>
  %1 = "cuesta.convert"(%x) : (tensor<6xui8>) -> tensor<6xf32>
  return %0, %1 : tensor<6xi1>, tensor<6xf32>
}
