// RUN: cuesta-opt --pass-pipeline='builtin.module(repeat-conversions{small=64})' %s | filecheck %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(repeat-conversions{small=0 broadcast=16})' %s | filecheck %s --check-prefix=CPU
// RUN: cuesta-opt --pass-pipeline='builtin.module(repeat-conversions{small=64 cheap=true})' %s | filecheck %s --check-prefix=CHEAP

// CHECK-LABEL: func.func @readers
// CHECK-SAME: (%[[X:.*]]: tensor<8x8xbf16>)
// CHECK-NEXT: %[[A:.*]] = "cuesta.convert"(%[[X]])
// CHECK-NEXT: %[[M:.*]] = "cuesta.mul"(%[[A]], %[[A]])
// CHECK-NEXT: %[[B:.*]] = "cuesta.convert"(%[[X]])
// CHECK-NEXT: "cuesta.sum"(%[[B]])
// CHECK-NEXT: return
func.func @readers(%x: tensor<8x8xbf16>) -> (tensor<8x8xf32>, tensor<8xf32>) {
  %0 = "cuesta.convert"(%x) : (tensor<8x8xbf16>) -> tensor<8x8xf32>
  %1 = "cuesta.mul"(%0, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = "cuesta.sum"(%0) {dims = [1], keepdim = 0 : i64} : (tensor<8x8xf32>) -> tensor<8xf32>
  return %1, %2 : tensor<8x8xf32>, tensor<8xf32>
}

// A narrow result is read as it is, and small ones stay.
// CHECK-LABEL: func.func @left_alone
// CHECK-COUNT-2: "cuesta.convert"
// CHECK-NOT: "cuesta.convert"
// CHECK: return
func.func @left_alone(%x: tensor<8x8xf32>, %y: tensor<8xbf16>) -> (tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8xf32>, tensor<8xf32>) {
  %0 = "cuesta.convert"(%x) : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %1 = "cuesta.exp"(%0) : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %2 = "cuesta.neg"(%0) : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %3 = "cuesta.convert"(%y) : (tensor<8xbf16>) -> tensor<8xf32>
  %4 = "cuesta.exp"(%3) : (tensor<8xf32>) -> tensor<8xf32>
  %5 = "cuesta.neg"(%3) : (tensor<8xf32>) -> tensor<8xf32>
  return %1, %2, %4, %5 : tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8xf32>, tensor<8xf32>
}

// Two results that are one value: what the caller writes in one is seen in the other.
// CHECK-LABEL: func.func @one_memory
// CHECK: %[[C:.*]] = "cuesta.convert"
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[C]])
// CHECK-NEXT: %[[P:.*]] = "cuesta.permute"(%[[C]])
// CHECK-NEXT: return %[[R]], %[[P]]
func.func @one_memory(%x: tensor<8x8xbf16>) -> (tensor<64xf32>, tensor<8x8xf32>) {
  %0 = "cuesta.convert"(%x) : (tensor<8x8xbf16>) -> tensor<8x8xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<8x8xf32>) -> tensor<64xf32>
  %2 = "cuesta.permute"(%0) {dims = [1, 0]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1, %2 : tensor<64xf32>, tensor<8x8xf32>
}

// On a CPU, products of one row by two weights convert it each; a reader of as many elements does not.
// CPU-LABEL: func.func @readers
// CPU-NEXT: %[[A:.*]] = "cuesta.convert"
// CPU-NEXT: "cuesta.mul"(%[[A]], %[[A]])
// CPU-NEXT: "cuesta.sum"(%[[A]])
// CPU-LABEL: func.func @products
// CPU-SAME: (%[[X:.*]]: tensor<1x8xbf16>, %[[V:.*]]: tensor<16x8xf32>, %[[W:.*]]: tensor<16x8xf32>)
// CPU-NEXT: %[[A:.*]] = "cuesta.convert"(%[[X]])
// CPU-NEXT: "cuesta.mul"(%[[A]], %[[V]])
// CPU-NEXT: %[[B:.*]] = "cuesta.convert"(%[[X]])
// CPU-NEXT: "cuesta.mul"(%[[B]], %[[W]])
// CPU-NEXT: "cuesta.exp"(%[[A]])
func.func @products(%x: tensor<1x8xbf16>, %v: tensor<16x8xf32>, %w: tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>, tensor<1x8xf32>) {
  %0 = "cuesta.convert"(%x) : (tensor<1x8xbf16>) -> tensor<1x8xf32>
  %1 = "cuesta.mul"(%0, %v) : (tensor<1x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %2 = "cuesta.mul"(%0, %w) : (tensor<1x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = "cuesta.exp"(%0) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  return %1, %2, %3 : tensor<16x8xf32>, tensor<16x8xf32>, tensor<1x8xf32>
}

// With `cheap` the distance from a row is computed for each reader, too; a root is not.
// CHEAP-LABEL: func.func @distance
// CHEAP-SAME: (%[[X:.*]]: tensor<8x8xbf16>, %[[M:.*]]: tensor<8xf32>)
// CHEAP-NEXT: %[[A:.*]] = "cuesta.convert"(%[[X]])
// CHEAP-NEXT: %[[D:.*]] = "cuesta.sub"(%[[A]], %[[M]])
// CHEAP-NEXT: %[[Y:.*]] = "cuesta.exp"(%[[D]])
// CHEAP-NEXT: %[[B:.*]] = "cuesta.convert"(%[[X]])
// CHEAP-NEXT: %[[E:.*]] = "cuesta.sub"(%[[B]], %[[M]])
// CHEAP-NEXT: %[[S:.*]] = "cuesta.sum"(%[[E]])
// CHEAP-NEXT: %[[C:.*]] = "cuesta.convert"(%[[X]])
// CHEAP-NEXT: %[[R:.*]] = "cuesta.sqrt"(%[[C]])
// CHEAP-NEXT: "cuesta.exp"(%[[R]])
// CHEAP-NEXT: "cuesta.neg"(%[[R]])
func.func @distance(%x: tensor<8x8xbf16>, %m: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = "cuesta.convert"(%x) : (tensor<8x8xbf16>) -> tensor<8x8xf32>
  %1 = "cuesta.sub"(%0, %m) : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %2 = "cuesta.exp"(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = "cuesta.sum"(%1) {dims = [0], keepdim = 0 : i64} : (tensor<8x8xf32>) -> tensor<8xf32>
  %4 = "cuesta.sqrt"(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = "cuesta.exp"(%4) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = "cuesta.neg"(%4) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2, %3, %5, %6 : tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// A softmax keeps its row in registers, with what was added to it.
// CHEAP-LABEL: func.func @softmax
// CHEAP: %[[A:.*]] = "cuesta.add"
// CHEAP-NEXT: %[[M:.*]] = "cuesta.amax"(%[[A]])
// CHEAP-NEXT: "cuesta.sub"(%[[A]], %[[M]])
func.func @softmax(%x: tensor<8x8xbf16>, %y: tensor<8xf32>) -> tensor<8x8xf32> {
  %0 = "cuesta.convert"(%x) : (tensor<8x8xbf16>) -> tensor<8x8xf32>
  %1 = "cuesta.add"(%0, %y) : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %2 = "cuesta.amax"(%1) {dims = [1], keepdim = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %3 = "cuesta.sub"(%1, %2) : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
