// RUN: cuesta-opt --pass-pipeline='builtin.module(decompose)' %s | filecheck %s

// CHECK-LABEL: func.func @softmax
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
// CHECK-NEXT: %[[TOP:.*]] = "cuesta.amax"(%[[X]]) {dims = [1], keepdim = 1 : i64}
// CHECK-NEXT: %[[D:.*]] = "cuesta.sub"(%[[X]], %[[TOP]])
// CHECK-NEXT: %[[E:.*]] = "cuesta.exp"(%[[D]])
// CHECK-NEXT: %[[SUM:.*]] = "cuesta.sum"(%[[E]]) {dims = [1], keepdim = 1 : i64}
// CHECK-NEXT: %[[R:.*]] = "cuesta.reciprocal"(%[[SUM]])
// CHECK-NEXT: %[[Y:.*]] = "cuesta.mul"(%[[E]], %[[R]])
// CHECK-NEXT: return %[[Y]]
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "cuesta.softmax"(%x) {dim = 1 : i64, safe = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// bf16 computes in f32 from end to end. A row of -inf alone subtracts 0 and divides by 1.
// CHECK-LABEL: func.func @safe_softmax
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xbf16>)
// CHECK-NEXT: %[[W:.*]] = "cuesta.convert"(%[[X]]) : (tensor<4x8xbf16>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[TOP:.*]] = "cuesta.amax"(%[[W]])
// CHECK-NEXT: %[[INF:.*]] = "cuesta.constant"() {value = 0xFFF0000000000000 : f64}
// CHECK-NEXT: %[[NONE:.*]] = "cuesta.eq"(%[[TOP]], %[[INF]])
// CHECK-NEXT: %[[ZERO:.*]] = "cuesta.constant"() {value = 0.000000e+00 : f64}
// CHECK-NEXT: %[[SHIFT:.*]] = "cuesta.where"(%[[NONE]], %[[ZERO]], %[[TOP]])
// CHECK-NEXT: %[[D:.*]] = "cuesta.sub"(%[[W]], %[[SHIFT]])
// CHECK-NEXT: %[[E:.*]] = "cuesta.exp"(%[[D]])
// CHECK-NEXT: %[[SUM:.*]] = "cuesta.sum"(%[[E]])
// CHECK: %[[ONE:.*]] = "cuesta.constant"() {value = 1.000000e+00 : f64}
// CHECK-NEXT: %[[TOTAL:.*]] = "cuesta.where"(%{{.*}}, %[[ONE]], %[[SUM]])
// CHECK-NEXT: %[[R:.*]] = "cuesta.reciprocal"(%[[TOTAL]])
// CHECK-NEXT: %[[Y:.*]] = "cuesta.mul"(%[[E]], %[[R]])
// CHECK-NEXT: %[[N:.*]] = "cuesta.convert"(%[[Y]]) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK-NEXT: return %[[N]]
func.func @safe_softmax(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = "cuesta.softmax"(%x) {dim = 1 : i64, safe = 1 : i64} : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}

// CHECK-LABEL: func.func @layer_norm
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[SUM:.*]] = "cuesta.sum"(%[[X]]) {dims = [1], keepdim = 1 : i64}
// CHECK-NEXT: %[[N:.*]] = "cuesta.constant"() {value = 8.000000e+00 : f64}
// CHECK-NEXT: %[[MEAN:.*]] = "cuesta.div"(%[[SUM]], %[[N]])
// CHECK-NEXT: %[[C:.*]] = "cuesta.sub"(%[[X]], %[[MEAN]])
// CHECK-NEXT: %[[SQ:.*]] = "cuesta.square"(%[[C]])
// CHECK-NEXT: %[[SQS:.*]] = "cuesta.sum"(%[[SQ]]) {dims = [1], keepdim = 1 : i64}
// CHECK: %[[VAR:.*]] = "cuesta.div"(%[[SQS]], %{{.*}})
// CHECK-NEXT: %[[EPS:.*]] = "cuesta.constant"() {value = 1.000000e-05 : f64}
// CHECK-NEXT: %[[A:.*]] = "cuesta.add"(%[[VAR]], %[[EPS]])
// CHECK-NEXT: %[[RSTD:.*]] = "cuesta.rsqrt"(%[[A]])
// CHECK-NEXT: %[[Y:.*]] = "cuesta.mul"(%[[C]], %[[RSTD]])
// CHECK-NEXT: %[[YW:.*]] = "cuesta.mul"(%[[Y]], %[[W]])
// CHECK-NEXT: %[[YWB:.*]] = "cuesta.add"(%[[YW]], %[[B]])
// CHECK-NEXT: return %[[YWB]], %[[MEAN]], %[[RSTD]]
func.func @layer_norm(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>) {
  %0:3 = "cuesta.layer_norm"(%x, %w, %b) {rank = 1 : i64, eps = 1.0e-05 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  return %0#0, %0#1, %0#2 : tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>
}

// A weight of ones and a bias of zeros are left out.
// CHECK-LABEL: func.func @layer_norm_without_parameters
// CHECK: %[[RSTD:.*]] = "cuesta.rsqrt"
// CHECK-NEXT: %[[Y:.*]] = "cuesta.mul"(%{{.*}}, %[[RSTD]])
// CHECK-NEXT: return %[[Y]]
func.func @layer_norm_without_parameters(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = "cuesta.constant"() {value = 1.0 : f64} : () -> tensor<8xf32>
  %b = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<8xf32>
  %0:3 = "cuesta.layer_norm"(%x, %w, %b) {rank = 1 : i64, eps = 1.0e-05 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  return %0#0 : tensor<4x8xf32>
}

// Only the gradients that somebody wants are computed.
// CHECK-LABEL: func.func @bias_gradient
// CHECK-SAME: (%[[G:[^:]*]]: tensor<4x8xf32>,
// CHECK-NEXT: %[[S:.*]] = "cuesta.sum"(%[[G]]) {dims = [0], keepdim = 0 : i64}
// CHECK-NEXT: return %[[S]]
func.func @bias_gradient(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>, %m: tensor<4x1xf32>, %r: tensor<4x1xf32>, %w: tensor<8xf32>) -> tensor<8xf32> {
  %0:3 = "cuesta.layer_norm_backward"(%g, %x, %m, %r, %w) {rank = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %0#2 : tensor<8xf32>
}

// The element of the target's class is picked by a masked sum; ignored targets give 0 and do not count.
// CHECK-LABEL: func.func @nll_loss
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[T:.*]]: tensor<4xi64>)
// CHECK-NEXT: %[[COLUMN:.*]] = "cuesta.reshape"(%[[T]]) : (tensor<4xi64>) -> tensor<4x1xi64>
// CHECK-NEXT: %[[CLASSES:.*]] = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<8xi64>
// CHECK-NEXT: %[[IGNORE:.*]] = "cuesta.constant"() {value = -100 : i64}
// CHECK-NEXT: %[[VALID:.*]] = "cuesta.ne"(%[[COLUMN]], %[[IGNORE]])
// CHECK-NEXT: %[[HIT:.*]] = "cuesta.eq"(%[[CLASSES]], %[[COLUMN]])
// CHECK-NEXT: %[[ZERO:.*]] = "cuesta.constant"() {value = 0.000000e+00 : f64}
// CHECK: %[[BAD:.*]] = "cuesta.any"(%{{.*}}) {dims = [0, 1], keepdim = 0 : i64}
// CHECK-NEXT: "host.check"(%[[BAD]]) {message = "a target is out of bounds: there are 8 classes"}
// CHECK-NEXT: %[[MASKED:.*]] = "cuesta.where"(%[[HIT]], %[[X]], %[[ZERO]])
// CHECK-NEXT: %[[PICKED:.*]] = "cuesta.sum"(%[[MASKED]]) {dims = [1], keepdim = 1 : i64}
// CHECK-NEXT: %[[NEG:.*]] = "cuesta.neg"(%[[PICKED]])
// CHECK-NEXT: %[[EACH:.*]] = "cuesta.where"(%[[VALID]], %[[NEG]], %[[ZERO]])
// CHECK-NEXT: %[[ONES:.*]] = "cuesta.convert"(%[[VALID]])
// CHECK-NEXT: %[[COUNT:.*]] = "cuesta.sum"(%[[ONES]]) {dims = [0, 1], keepdim = 0 : i64}
// CHECK-NEXT: %[[TOTAL:.*]] = "cuesta.sum"(%[[EACH]]) {dims = [0, 1], keepdim = 0 : i64}
// CHECK-NEXT: %[[MEAN:.*]] = "cuesta.div"(%[[TOTAL]], %[[COUNT]])
// CHECK-NEXT: return %[[MEAN]], %[[COUNT]]
func.func @nll_loss(%x: tensor<4x8xf32>, %t: tensor<4xi64>) -> (tensor<f32>, tensor<f32>) {
  %0:2 = "cuesta.nll_loss"(%x, %t) {reduction = 1 : i64, ignore_index = -100 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @nll_loss_of_each
// CHECK: %[[EACH:.*]] = "cuesta.reshape"(%{{.*}}) : (tensor<4x1xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[NONE:.*]] = "cuesta.constant"() {value = 0.000000e+00 : f64} : () -> tensor<f32>
// CHECK-NEXT: return %[[EACH]], %[[NONE]]
func.func @nll_loss_of_each(%x: tensor<4x8xf32>, %t: tensor<4xi64>) -> (tensor<4xf32>, tensor<f32>) {
  %0:2 = "cuesta.nll_loss"(%x, %t) {reduction = 0 : i64, ignore_index = -100 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<f32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<f32>
}

// The mask is torch's own, the rest is pointwise.
// CHECK-LABEL: func.func @dropout
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
// CHECK: %[[LIKE:.*]] = "cuesta.expand"(%{{.*}}) : (tensor<i1>) -> tensor<4x8xi1>
// CHECK-NEXT: %[[MASK:.*]] = "aten.call"(%[[LIKE]]) {args = "[\22%0\22, 0.75]", overload = "aten.bernoulli.p", {{.*}}result_strides = {{\[\[}}8, 1]]}
// CHECK-NEXT: %[[M:.*]] = "cuesta.convert"(%[[MASK]]) : (tensor<4x8xi1>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[KEPT:.*]] = "cuesta.mul"(%[[X]], %[[M]])
// CHECK-NEXT: %[[SCALE:.*]] = "cuesta.constant"() {value = 1.3333333333333333 : f64}
// CHECK-NEXT: %[[Y:.*]] = "cuesta.mul"(%[[KEPT]], %[[SCALE]])
// CHECK-NEXT: return %[[Y]], %[[MASK]]
func.func @dropout(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi1>) {
  %0:2 = "cuesta.dropout"(%x) {p = 0.25 : f64} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
  return %0#0, %0#1 : tensor<4x8xf32>, tensor<4x8xi1>
}

// What nobody reads still advances the generator.
// CHECK-LABEL: func.func @unused_dropout
// CHECK: "aten.call"({{.*}}overload = "aten.bernoulli.p"
// CHECK-NEXT: return
func.func @unused_dropout(%x: tensor<4x8xf32>) {
  %0:2 = "cuesta.dropout"(%x) {p = 0.25 : f64} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
  return
}

// CHECK-LABEL: func.func @left_alone
// CHECK-NEXT: "cuesta.mm"
// CHECK-NEXT: "cuesta.gelu"
func.func @left_alone(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "cuesta.mm"(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "cuesta.gelu"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// CHECK-LABEL: func.func @scatter_one
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[I:.*]]: tensor<4x1xi64>, %[[V:.*]]: tensor<4x1xf32>)
// CHECK: %[[BAD:.*]] = "cuesta.any"
// CHECK: "host.check"(%[[BAD]]) {message = "index out of range: dim 1 has size 8"}
// CHECK: %[[RANGE:.*]] = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<8xi64>
// CHECK: %[[ROW:.*]] = "cuesta.reshape"(%[[RANGE]]) : (tensor<8xi64>) -> tensor<1x8xi64>
// CHECK: %[[HIT:.*]] = "cuesta.eq"(%[[ROW]], %[[I]])
// CHECK: "cuesta.where"(%[[HIT]], %[[V]], %[[X]])
func.func @scatter_one(%x: tensor<4x8xf32>, %i: tensor<4x1xi64>, %v: tensor<4x1xf32>) -> tensor<4x8xf32> {
  %0 = "cuesta.scatter_one"(%x, %i, %v) {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x1xi64>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// A divisor that is 0 is an error; by 1 is divided in its place, and in that of -1.
// CHECK-LABEL: func.func @divide_integers
// CHECK-SAME: (%[[X:.*]]: tensor<8xi64>, %[[Y:.*]]: tensor<8xi64>)
// CHECK: %[[ZERO:.*]] = "cuesta.eq"(%[[Y]], %{{.*}})
// CHECK: %[[BAD:.*]] = "cuesta.any"(%[[ZERO]])
// CHECK: "host.check"(%[[BAD]]) {message = "ZeroDivisionError", raises = "RuntimeError"}
// CHECK: %[[MINUS:.*]] = "cuesta.eq"(%[[Y]], %{{.*}})
// CHECK: %[[EITHER:.*]] = "cuesta.logical_or"(%[[ZERO]], %[[MINUS]])
// CHECK: %[[SAFE:.*]] = "cuesta.where"(%[[EITHER]], %{{.*}}, %[[Y]])
// CHECK: %[[QUOTIENT:.*]] = "cuesta.floor_divide"(%[[X]], %[[SAFE]])
// CHECK: %[[NEGATED:.*]] = "cuesta.neg"(%[[X]])
// CHECK: "cuesta.where"(%[[MINUS]], %[[NEGATED]], %[[QUOTIENT]])
func.func @divide_integers(%x: tensor<8xi64>, %y: tensor<8xi64>) -> tensor<8xi64> {
  %0 = "cuesta.floor_divide"(%x, %y) : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  return %0 : tensor<8xi64>
}

// A known divisor is looked at here.
// CHECK-LABEL: func.func @divide_by_three
// CHECK-NOT: host.check
func.func @divide_by_three(%x: tensor<8xi64>) -> tensor<8xi64> {
  %y = "cuesta.constant"() {value = 3 : i64} : () -> tensor<i64>
  %0 = "cuesta.remainder"(%x, %y) : (tensor<8xi64>, tensor<i64>) -> tensor<8xi64>
  return %0 : tensor<8xi64>
}
