// RUN: cuesta-opt --pass-pipeline='builtin.module(narrow-reads)' %s | filecheck %s

// Reads take the narrow tensor; what they promise of their positions stays.
// CHECK-LABEL: func.func @reads
// CHECK-SAME: (%[[X:.*]]: tensor<8x32xbf16>, %[[I:.*]]: tensor<128xi64>
// CHECK: %[[R:.*]] = "cuesta.index"(%[[X]], %[[I]]) {dims = [1], in_range} : {{.*}} -> tensor<8x128xbf16>
// CHECK: %[[A:.*]] = "cuesta.convert"(%[[R]]) : (tensor<8x128xbf16>) -> tensor<8x128xf32>
// CHECK: %[[W:.*]] = "cuesta.window"(%[[X]]) {{.*}} -> tensor<8x16xbf16>
// CHECK: %[[B:.*]] = "cuesta.convert"(%[[W]])
// CHECK: %[[F:.*]] = "cuesta.flip"(%[[X]])
// CHECK: %[[C:.*]] = "cuesta.convert"(%[[F]])
// CHECK: return %[[A]], %[[B]], %[[C]]
func.func @reads(%x: tensor<8x32xbf16>, %i: tensor<128xi64>) -> (tensor<8x128xf32>, tensor<8x16xf32>, tensor<8x32xf32>) {
  %0 = "cuesta.convert"(%x) : (tensor<8x32xbf16>) -> tensor<8x32xf32>
  %1 = "cuesta.index"(%0, %i) {dims = [1], in_range} : (tensor<8x32xf32>, tensor<128xi64>) -> tensor<8x128xf32>
  %2 = "cuesta.window"(%0) {starts = [0, -1], steps = [1, 2], divisors = [1, 1], outside = 0.0 : f64} : (tensor<8x32xf32>) -> tensor<8x16xf32>
  %3 = "cuesta.flip"(%0) {dims = [0]} : (tensor<8x32xf32>) -> tensor<8x32xf32>
  return %1, %2, %3 : tensor<8x128xf32>, tensor<8x16xf32>, tensor<8x32xf32>
}

// A number that bf16 has not, and a conversion that narrows, or makes floats of integers.
// CHECK-LABEL: func.func @stay
// CHECK-COUNT-3: "cuesta.convert"
// CHECK: "cuesta.window"({{.*}} -> tensor<8x16xf32>
// CHECK: "cuesta.flip"({{.*}} -> tensor<8x32xbf16>
// CHECK: "cuesta.flip"({{.*}} -> tensor<8x32xf32>
func.func @stay(%x: tensor<8x32xbf16>, %y: tensor<8x32xf32>, %z: tensor<8x32xi8>) -> (tensor<8x16xf32>, tensor<8x32xbf16>, tensor<8x32xf32>) {
  %0 = "cuesta.convert"(%x) : (tensor<8x32xbf16>) -> tensor<8x32xf32>
  %1 = "cuesta.convert"(%y) : (tensor<8x32xf32>) -> tensor<8x32xbf16>
  %2 = "cuesta.convert"(%z) : (tensor<8x32xi8>) -> tensor<8x32xf32>
  %3 = "cuesta.window"(%0) {starts = [0, -1], steps = [1, 2], divisors = [1, 1], outside = 0.1 : f64} : (tensor<8x32xf32>) -> tensor<8x16xf32>
  %4 = "cuesta.flip"(%1) {dims = [0]} : (tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %5 = "cuesta.flip"(%2) {dims = [0]} : (tensor<8x32xf32>) -> tensor<8x32xf32>
  return %3, %4, %5 : tensor<8x16xf32>, tensor<8x32xbf16>, tensor<8x32xf32>
}
