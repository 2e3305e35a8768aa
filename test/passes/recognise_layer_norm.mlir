// RUN: cuesta-opt --pass-pipeline='builtin.module(recognise-layer-norm)' %s | filecheck %s

// CHECK-LABEL: func.func @rsqrt
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.*]]:3 = "cuesta.layer_norm"(%[[X]], %[[W]], %[[B]]) {eps = 1.000000e-05 : f64, rank = 1 : i64}
// CHECK-NEXT: return %[[Y]]#0
func.func @rsqrt(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %eight = "cuesta.constant"() {value = 8.0 : f64} : () -> tensor<f32>
  %eps = "cuesta.constant"() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %s = "cuesta.sum"(%x) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %m = "cuesta.div"(%s, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %c = "cuesta.sub"(%x, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q = "cuesta.square"(%c) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = "cuesta.sum"(%q) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %v = "cuesta.div"(%t, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %a = "cuesta.add"(%v, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %r = "cuesta.rsqrt"(%a) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = "cuesta.mul"(%c, %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y1 = "cuesta.mul"(%w, %y) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y2 = "cuesta.add"(%y1, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y2 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @sqrt_and_quotient
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.*]]:3 = "cuesta.layer_norm"(%[[X]], %[[W]], %[[B]]) {eps = 1.000000e-05 : f64, rank = 1 : i64}
// CHECK-NEXT: return %[[Y]]#0
func.func @sqrt_and_quotient(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %eight = "cuesta.constant"() {value = 8.0 : f64} : () -> tensor<f32>
  %eps = "cuesta.constant"() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %s = "cuesta.sum"(%x) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %m = "cuesta.div"(%s, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %c = "cuesta.sub"(%x, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q = "cuesta.square"(%c) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = "cuesta.sum"(%q) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %v = "cuesta.div"(%t, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %a = "cuesta.add"(%v, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %r = "cuesta.sqrt"(%a) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = "cuesta.div"(%c, %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y1 = "cuesta.mul"(%w, %y) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y2 = "cuesta.add"(%y1, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y2 : tensor<4x8xf32>
}

// What has no weight and bias gets ones and zeros, which `decompose` leaves out.
// CHECK-LABEL: func.func @no_parameters
// CHECK: %[[ONE:.*]] = "cuesta.constant"() {value = 1.000000e+00 : f64} : () -> tensor<8xf32>
// CHECK-NEXT: %[[ZERO:.*]] = "cuesta.constant"() {value = 0.000000e+00 : f64} : () -> tensor<8xf32>
// CHECK-NEXT: %[[Y:.*]]:3 = "cuesta.layer_norm"(%{{.*}}, %[[ONE]], %[[ZERO]])
// CHECK-NEXT: return %[[Y]]#0
func.func @no_parameters(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %eight = "cuesta.constant"() {value = 8.0 : f64} : () -> tensor<f32>
  %eps = "cuesta.constant"() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %s = "cuesta.sum"(%x) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %m = "cuesta.div"(%s, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %c = "cuesta.sub"(%x, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q = "cuesta.square"(%c) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = "cuesta.sum"(%q) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %v = "cuesta.div"(%t, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %a = "cuesta.add"(%v, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %r = "cuesta.rsqrt"(%a) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = "cuesta.mul"(%c, %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The unbiased variance divides by one less.
// CHECK-LABEL: func.func @corrected_variance
// CHECK-NOT: cuesta.layer_norm
// CHECK: return
func.func @corrected_variance(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %eight = "cuesta.constant"() {value = 8.0 : f64} : () -> tensor<f32>
  %n = "cuesta.constant"() {value = 7.0 : f64} : () -> tensor<f32>
  %eps = "cuesta.constant"() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %s = "cuesta.sum"(%x) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %m = "cuesta.div"(%s, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %c = "cuesta.sub"(%x, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q = "cuesta.square"(%c) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = "cuesta.sum"(%q) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %v = "cuesta.div"(%t, %n) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %a = "cuesta.add"(%v, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %r = "cuesta.rsqrt"(%a) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = "cuesta.mul"(%c, %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y1 = "cuesta.mul"(%w, %y) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y2 = "cuesta.add"(%y1, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y2 : tensor<4x8xf32>
}

// eps beside the deviation is another formula.
// CHECK-LABEL: func.func @eps_outside
// CHECK-NOT: cuesta.layer_norm
// CHECK: return
func.func @eps_outside(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %eight = "cuesta.constant"() {value = 8.0 : f64} : () -> tensor<f32>
  %eps = "cuesta.constant"() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %s = "cuesta.sum"(%x) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %m = "cuesta.div"(%s, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %c = "cuesta.sub"(%x, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q = "cuesta.square"(%c) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = "cuesta.sum"(%q) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %v = "cuesta.div"(%t, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %a = "cuesta.sqrt"(%v) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %r = "cuesta.add"(%a, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %y = "cuesta.div"(%c, %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y1 = "cuesta.mul"(%w, %y) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y2 = "cuesta.add"(%y1, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y2 : tensor<4x8xf32>
}

// The variance must be that of what is normalised.
// CHECK-LABEL: func.func @variance_of_another
// CHECK-NOT: cuesta.layer_norm
// CHECK: return
func.func @variance_of_another(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>, %z: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %eight = "cuesta.constant"() {value = 8.0 : f64} : () -> tensor<f32>
  %eps = "cuesta.constant"() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %s = "cuesta.sum"(%x) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %m = "cuesta.div"(%s, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %c = "cuesta.sub"(%x, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q = "cuesta.square"(%z) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = "cuesta.sum"(%q) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %v = "cuesta.div"(%t, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %a = "cuesta.add"(%v, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %r = "cuesta.rsqrt"(%a) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = "cuesta.mul"(%c, %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y1 = "cuesta.mul"(%w, %y) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y2 = "cuesta.add"(%y1, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y2 : tensor<4x8xf32>
}

// A training graph saves what is between: it is computed anyway.
// CHECK-LABEL: func.func @saved
// CHECK-NOT: cuesta.layer_norm
// CHECK: return
func.func @saved(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>) {
  %eight = "cuesta.constant"() {value = 8.0 : f64} : () -> tensor<f32>
  %eps = "cuesta.constant"() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %s = "cuesta.sum"(%x) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %m = "cuesta.div"(%s, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %c = "cuesta.sub"(%x, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q = "cuesta.square"(%c) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = "cuesta.sum"(%q) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %v = "cuesta.div"(%t, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %a = "cuesta.add"(%v, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %r = "cuesta.rsqrt"(%a) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = "cuesta.mul"(%c, %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y1 = "cuesta.mul"(%w, %y) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y2 = "cuesta.add"(%y1, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y2, %v : tensor<4x8xf32>, tensor<4x1xf32>
}

// Statistics in f32 of a bf16 tensor, whose mean is rounded for the difference: the op computes all of it in f32.
// CHECK-LABEL: func.func @bf16
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xbf16>)
// CHECK: %[[Y:.*]]:3 = "cuesta.layer_norm"(%[[X]], {{.*}} -> (tensor<4x8xbf16>, tensor<4x1xf32>, tensor<4x1xf32>)
// CHECK-NEXT: return %[[Y]]#0
func.func @bf16(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %eight = "cuesta.constant"() {value = 8.0 : f64} : () -> tensor<f32>
  %eps = "cuesta.constant"() {value = 1.0e-05 : f64} : () -> tensor<bf16>
  %f = "cuesta.convert"(%x) : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %s = "cuesta.sum"(%f) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %m = "cuesta.div"(%s, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %mn = "cuesta.convert"(%m) : (tensor<4x1xf32>) -> tensor<4x1xbf16>
  %c = "cuesta.sub"(%f, %m) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q = "cuesta.mul"(%c, %c) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = "cuesta.sum"(%q) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %v = "cuesta.div"(%t, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %vn = "cuesta.convert"(%v) : (tensor<4x1xf32>) -> tensor<4x1xbf16>
  %a = "cuesta.add"(%vn, %eps) : (tensor<4x1xbf16>, tensor<bf16>) -> tensor<4x1xbf16>
  %r = "cuesta.sqrt"(%a) : (tensor<4x1xbf16>) -> tensor<4x1xbf16>
  %d = "cuesta.sub"(%x, %mn) : (tensor<4x8xbf16>, tensor<4x1xbf16>) -> tensor<4x8xbf16>
  %y = "cuesta.div"(%d, %r) : (tensor<4x8xbf16>, tensor<4x1xbf16>) -> tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// Without a mean it is another norm, for which there is no op; fusion makes one kernel of it.
// CHECK-LABEL: func.func @rms_norm
// CHECK-NOT: cuesta.layer_norm
// CHECK: return
func.func @rms_norm(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %eight = "cuesta.constant"() {value = 8.0 : f64} : () -> tensor<f32>
  %eps = "cuesta.constant"() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %q = "cuesta.square"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = "cuesta.sum"(%q) {dims = [1], keepdim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %v = "cuesta.div"(%t, %eight) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %a = "cuesta.add"(%v, %eps) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %r = "cuesta.rsqrt"(%a) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = "cuesta.mul"(%x, %r) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
