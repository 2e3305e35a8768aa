// RUN: cuesta-opt --pass-pipeline='builtin.module(sink-concatenations)' %s | filecheck %s

// Each part with what belongs to it: an argument is cut, a row of all columns is not, what is computed for this alone
// is computed in parts.
// CHECK-LABEL: func.func @parts
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[Y:.*]]: tensor<4x8xf32>, %[[Z:.*]]: tensor<4x16xf32>, %[[R:.*]]: tensor<4x1xf32>)
// CHECK-NEXT: %[[Z1:.*]] = "cuesta.slice"(%[[Z]]) {starts = [0, 0], steps = [1, 1]} : (tensor<4x16xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[E1:.*]] = "cuesta.exp"(%[[Z1]])
// CHECK-NEXT: %[[M1:.*]] = "cuesta.mul"(%[[X]], %[[E1]])
// CHECK-NEXT: %[[Z2:.*]] = "cuesta.slice"(%[[Z]]) {starts = [0, 8], steps = [1, 1]} : (tensor<4x16xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[E2:.*]] = "cuesta.exp"(%[[Z2]])
// CHECK-NEXT: %[[M2:.*]] = "cuesta.mul"(%[[Y]], %[[E2]])
// CHECK-NEXT: %[[A1:.*]] = "cuesta.add"(%[[R]], %[[M1]])
// CHECK-NEXT: %[[A2:.*]] = "cuesta.add"(%[[R]], %[[M2]])
// CHECK-NEXT: %[[C:.*]] = "cuesta.cat"(%[[A1]], %[[A2]]) {dim = 1 : i64}
// CHECK-NEXT: return %[[C]]
func.func @parts(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %z: tensor<4x16xf32>, %r: tensor<4x1xf32>) -> tensor<4x16xf32> {
  %0 = "cuesta.cat"(%x, %y) {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %1 = "cuesta.exp"(%z) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %2 = "cuesta.mul"(%0, %1) : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %3 = "cuesta.add"(%r, %2) : (tensor<4x1xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// Turned around along the dim that they are joined in, the last comes first.
// CHECK-LABEL: func.func @flipped
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[FX:.*]] = "cuesta.flip"(%[[X]])
// CHECK-NEXT: %[[FY:.*]] = "cuesta.flip"(%[[Y]])
// CHECK-NEXT: "cuesta.cat"(%[[FY]], %[[FX]])
func.func @flipped(%x: tensor<4xf32>, %y: tensor<8xf32>) -> tensor<12xf32> {
  %0 = "cuesta.cat"(%x, %y) {dim = 0 : i64} : (tensor<4xf32>, tensor<8xf32>) -> tensor<12xf32>
  %1 = "cuesta.flip"(%0) {dims = [0]} : (tensor<12xf32>) -> tensor<12xf32>
  return %1 : tensor<12xf32>
}

// What others read too is in memory; what is wider than the concatenation would be written wide.
// CHECK-LABEL: func.func @stays
// CHECK-SAME: (%[[X:.*]]: tensor<4xf16>, %[[Y:.*]]: tensor<8xf16>)
// CHECK: %[[C:.*]] = "cuesta.cat"(%[[X]], %[[Y]])
// CHECK-NEXT: "cuesta.exp"(%[[C]])
// CHECK-NEXT: %[[D:.*]] = "cuesta.cat"(%[[Y]], %[[X]])
// CHECK-NEXT: "cuesta.convert"(%[[D]])
func.func @stays(%x: tensor<4xf16>, %y: tensor<8xf16>) -> (tensor<12xf16>, tensor<12xf16>, tensor<12xf32>) {
  %0 = "cuesta.cat"(%x, %y) {dim = 0 : i64} : (tensor<4xf16>, tensor<8xf16>) -> tensor<12xf16>
  %1 = "cuesta.exp"(%0) : (tensor<12xf16>) -> tensor<12xf16>
  %2 = "cuesta.cat"(%y, %x) {dim = 0 : i64} : (tensor<8xf16>, tensor<4xf16>) -> tensor<12xf16>
  %3 = "cuesta.convert"(%2) : (tensor<12xf16>) -> tensor<12xf32>
  return %0, %1, %3 : tensor<12xf16>, tensor<12xf16>, tensor<12xf32>
}

// Of one element, as padding by -1 and 1 leaves of one, there is one part.
// CHECK-LABEL: func.func @one_element
// CHECK: %[[C:.*]] = "cuesta.cat"
// CHECK-NEXT: "cuesta.neg"(%[[C]])
func.func @one_element(%x: tensor<3x0xf32>, %y: tensor<3x1xf32>) -> tensor<3x1xf32> {
  %0 = "cuesta.cat"(%x, %y) {dim = 1 : i64} : (tensor<3x0xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  %1 = "cuesta.neg"(%0) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  return %1 : tensor<3x1xf32>
}
