// RUN: cuesta-opt --pass-pipeline='builtin.module(fold-views)' %s | filecheck %s

// Two turns of [1, 2, 0] are one of [2, 0, 1].
// CHECK-LABEL: func.func @permute_of_permute
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x5xf32>)
// CHECK-NEXT: %[[P:.*]] = "cuesta.permute"(%[[X]]) {dims = [2, 0, 1]} : (tensor<2x3x5xf32>) -> tensor<5x2x3xf32>
// CHECK-NEXT: return %[[P]]
func.func @permute_of_permute(%x: tensor<2x3x5xf32>) -> tensor<5x2x3xf32> {
  %0 = "cuesta.permute"(%x) {dims = [1, 2, 0]} : (tensor<2x3x5xf32>) -> tensor<3x5x2xf32>
  %1 = "cuesta.permute"(%0) {dims = [1, 2, 0]} : (tensor<3x5x2xf32>) -> tensor<5x2x3xf32>
  return %1 : tensor<5x2x3xf32>
}

// CHECK-LABEL: func.func @there_and_back
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @there_and_back(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = "cuesta.permute"(%x) {dims = [1, 0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "cuesta.permute"(%0) {dims = [1, 0]} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %2 = "cuesta.reshape"(%x) : (tensor<2x3xf32>) -> tensor<6xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<6xf32>) -> tensor<2x3xf32>
  return %1, %3 : tensor<2x3xf32>, tensor<2x3xf32>
}

// CHECK-LABEL: func.func @reshape_of_reshape
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x5xf32>)
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<2x3x5xf32>) -> tensor<30xf32>
// CHECK-NEXT: return %[[R]]
func.func @reshape_of_reshape(%x: tensor<2x3x5xf32>) -> tensor<30xf32> {
  %0 = "cuesta.reshape"(%x) : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<6x5xf32>) -> tensor<30xf32>
  return %1 : tensor<30xf32>
}

// What changes nothing is the value itself; so is a copy, whatever its strides.
// CHECK-LABEL: func.func @identities
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
// CHECK-NEXT: return %[[X]]
func.func @identities(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "cuesta.reshape"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "cuesta.permute"(%0) {dims = [0, 1]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = "cuesta.expand"(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = "cuesta.slice"(%2) {starts = [0, 0], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = "cuesta.copy"(%3) {strides = [1, 4]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = "cuesta.convert"(%4) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}

// A widening in the middle loses nothing.
// CHECK-LABEL: func.func @widening
// CHECK-SAME: (%[[X:.*]]: tensor<4xbf16>)
// CHECK-NEXT: %[[D:.*]] = "cuesta.convert"(%[[X]]) : (tensor<4xbf16>) -> tensor<4xf64>
// CHECK-NEXT: return %[[X]], %[[D]]
func.func @widening(%x: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xf64>) {
  %0 = "cuesta.convert"(%x) : (tensor<4xbf16>) -> tensor<4xf32>
  %1 = "cuesta.convert"(%0) : (tensor<4xf32>) -> tensor<4xbf16>
  %2 = "cuesta.convert"(%0) : (tensor<4xf32>) -> tensor<4xf64>
  return %1, %2 : tensor<4xbf16>, tensor<4xf64>
}

// A narrowing in the middle rounds, and stays.
// CHECK-LABEL: func.func @narrowing
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[N:.*]] = "cuesta.convert"(%[[X]]) : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK-NEXT: %[[W:.*]] = "cuesta.convert"(%[[N]]) : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK-NEXT: return %[[W]]
func.func @narrowing(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "cuesta.convert"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  %1 = "cuesta.convert"(%0) : (tensor<4xbf16>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A reshape of a permutation is no one view, nor is a slice of one; the dead op goes.
// CHECK-LABEL: func.func @mixed
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: %[[P:.*]] = "cuesta.permute"(%[[X]]) {dims = [1, 0]}
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[P]])
// CHECK-NEXT: %[[S:.*]] = "cuesta.slice"(%[[P]]) {starts = [1, 0], steps = [1, 1]}
// CHECK-NEXT: return %[[R]], %[[S]]
func.func @mixed(%x: tensor<2x3xf32>) -> (tensor<6xf32>, tensor<2x2xf32>) {
  %0 = "cuesta.permute"(%x) {dims = [1, 0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<3x2xf32>) -> tensor<6xf32>
  %2 = "cuesta.slice"(%0) {starts = [1, 0], steps = [1, 1]} : (tensor<3x2xf32>) -> tensor<2x2xf32>
  %3 = "cuesta.exp"(%2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %1, %2 : tensor<6xf32>, tensor<2x2xf32>
}

// A condition that is the same everywhere has chosen, whatever views stand between; what is smaller is broadcast.
// CHECK-LABEL: func.func @chosen
// CHECK-SAME: (%[[X:.*]]: tensor<4x3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[E:.*]] = "cuesta.expand"(%[[Y]]) : (tensor<3xf32>) -> tensor<4x3xf32>
// CHECK-NEXT: return %[[X]], %[[E]]
func.func @chosen(%x: tensor<4x3xf32>, %y: tensor<3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  %0 = "cuesta.constant"() {value = 1 : i64} : () -> tensor<4xi1>
  %1 = "cuesta.reshape"(%0) : (tensor<4xi1>) -> tensor<4x1xi1>
  %2 = "cuesta.where"(%1, %x, %y) : (tensor<4x1xi1>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %3 = "cuesta.constant"() {value = 0 : i64} : () -> tensor<i1>
  %4 = "cuesta.where"(%3, %x, %y) : (tensor<i1>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  return %2, %4 : tensor<4x3xf32>, tensor<4x3xf32>
}

// A slice of one part of a concatenation that nothing else reads is a slice of the part, or the part.
// CHECK-LABEL: func.func @slices_of_parts
// CHECK-SAME: (%[[X:.*]]: tensor<4x6xf32>, %[[Y:.*]]: tensor<4x2xf32>)
// CHECK-NEXT: %[[S:.*]] = "cuesta.slice"(%[[Y]]) {starts = [0, 1], steps = [1, 1]} : (tensor<4x2xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: %[[C:.*]] = "cuesta.cat"(%[[X]], %[[Y]])
// CHECK-NEXT: %[[B:.*]] = "cuesta.slice"(%[[C]]) {starts = [0, 5], steps = [1, 1]}
// CHECK-NEXT: return %[[X]], %[[S]], %[[B]]
func.func @slices_of_parts(%x: tensor<4x6xf32>, %y: tensor<4x2xf32>) -> (tensor<4x6xf32>, tensor<4x1xf32>, tensor<4x2xf32>) {
  %0 = "cuesta.cat"(%x, %y) {dim = 1 : i64} : (tensor<4x6xf32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  %1 = "cuesta.slice"(%0) {starts = [0, 0], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x6xf32>
  %2 = "cuesta.cat"(%x, %y) {dim = 1 : i64} : (tensor<4x6xf32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  %3 = "cuesta.slice"(%2) {starts = [0, 7], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %4 = "cuesta.cat"(%x, %y) {dim = 1 : i64} : (tensor<4x6xf32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  %5 = "cuesta.slice"(%4) {starts = [0, 5], steps = [1, 1]} : (tensor<4x8xf32>) -> tensor<4x2xf32>
  return %1, %3, %5 : tensor<4x6xf32>, tensor<4x1xf32>, tensor<4x2xf32>
}
