// RUN: cuesta-opt --pass-pipeline='builtin.module(recognise-attention{least=0})' %s | filecheck %s

// [B*H, …] products around a softmax; heads come out of permutes. Strides are those of the permuted arguments.
// CHECK-LABEL: func.func @scaled
// CHECK-SAME: (%[[Q:.*]]: tensor<2x16x4x8xf32>{{.*}}, %[[K:.*]]: tensor<2x16x4x8xf32>{{.*}}, %[[V:.*]]: tensor<2x4x16x8xf32>
// CHECK: %[[QH:.*]] = "cuesta.permute"(%[[Q]]) {dims = [0, 2, 1, 3]}
// CHECK: %[[KH:.*]] = "cuesta.permute"(%[[K]]) {dims = [0, 2, 1, 3]}
// CHECK: %[[O:.*]]:2 = "cuesta.attention"(%[[QH]], %[[KH]], %[[V]]) {causal = 0 : i64,
// CHECK-SAME: operand_strides = {{\[\[}}512, 8, 32, 1], [512, 8, 32, 1], [512, 128, 8, 1]], result_strides = {{\[\[}}512, 8, 32, 1], [64, 1, 4]], scale = 2.500000e-01 : f64}
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[O]]#0)
// CHECK-NEXT: return %[[R]]
func.func @scaled(%q: tensor<2x16x4x8xf32> {cuesta.strides = [512, 32, 8, 1]}, %k: tensor<2x16x4x8xf32> {cuesta.strides = [512, 32, 8, 1]}, %v: tensor<2x4x16x8xf32> {cuesta.strides = [512, 128, 8, 1]}) -> tensor<8x16x8xf32> {
  %0 = "cuesta.permute"(%q) {dims = [0, 2, 1, 3]} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %1 = "cuesta.permute"(%k) {dims = [0, 2, 3, 1]} : (tensor<2x16x4x8xf32>) -> tensor<2x4x8x16xf32>
  %2 = "cuesta.reshape"(%0) : (tensor<2x4x16x8xf32>) -> tensor<8x16x8xf32>
  %3 = "cuesta.reshape"(%1) : (tensor<2x4x8x16xf32>) -> tensor<8x8x16xf32>
  %4 = "cuesta.mm"(%2, %3) : (tensor<8x16x8xf32>, tensor<8x8x16xf32>) -> tensor<8x16x16xf32>
  %5 = "cuesta.reshape"(%4) : (tensor<8x16x16xf32>) -> tensor<2x4x16x16xf32>
  %c = "cuesta.constant"() {value = 4.0 : f64} : () -> tensor<f32>
  %6 = "cuesta.div"(%5, %c) : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16x16xf32>
  %7 = "cuesta.softmax"(%6) {dim = 3 : i64, safe = 0 : i64} : (tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %8 = "cuesta.reshape"(%7) : (tensor<2x4x16x16xf32>) -> tensor<8x16x16xf32>
  %9 = "cuesta.reshape"(%v) : (tensor<2x4x16x8xf32>) -> tensor<8x16x8xf32>
  %10 = "cuesta.mm"(%8, %9) : (tensor<8x16x16xf32>, tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  return %10 : tensor<8x16x8xf32>
}

// The scale on q counts as well; keys that lie transposed are asked for with rows in one piece.
// CHECK-LABEL: func.func @scale_on_q
// CHECK-SAME: (%[[Q:.*]]: tensor<4x16x8xf32>, %[[K:.*]]: tensor<4x8x16xf32>
// CHECK: %[[KH:.*]] = "cuesta.permute"(%{{.*}}) {dims = [0, 1, 3, 2]}
// CHECK: %[[QH:.*]] = "cuesta.reshape"(%[[Q]])
// CHECK: "cuesta.attention"(%[[QH]], %[[KH]], %{{.*}}) {{.*}}operand_strides = {{\[\[}}128, 128, 8, 1], [128, 128, 8, 1],
// CHECK-NOT: cuesta.softmax
// CHECK: return
func.func @scale_on_q(%q: tensor<4x16x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x8xf32>) -> tensor<4x16x8xf32> {
  %c = "cuesta.constant"() {value = 0.5 : f64} : () -> tensor<f32>
  %0 = "cuesta.mul"(%c, %q) : (tensor<f32>, tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %1 = "cuesta.mm"(%0, %k) : (tensor<4x16x8xf32>, tensor<4x8x16xf32>) -> tensor<4x16x16xf32>
  %2 = "cuesta.softmax"(%1) {dim = 2 : i64, safe = 0 : i64} : (tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %3 = "cuesta.mm"(%2, %v) : (tensor<4x16x16xf32>, tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %3 : tensor<4x16x8xf32>
}

// A mask from outside may leave nothing of a row: NaN there, as softmax gives it.
// CHECK-LABEL: func.func @added_mask
// CHECK-SAME: %[[M:[^:]*]]: tensor<16x16xf32>)
// CHECK: %[[O:.*]]:2 = "cuesta.attention"(%{{.*}}, %{{.*}}, %{{.*}}, %[[M]]) {{.*}}scale = 5.000000e-01
// CHECK-NEXT: %[[TOP:.*]] = "cuesta.amax"(%[[M]]) {dims = [1], keepdim = 1 : i64}
// CHECK-NEXT: %[[INF:.*]] = "cuesta.constant"() {value = 0xFFF0000000000000 : f64}
// CHECK-NEXT: %[[EMPTY:.*]] = "cuesta.eq"(%[[TOP]], %[[INF]])
// CHECK-NEXT: %[[NAN:.*]] = "cuesta.constant"() {value = 0x7FF8000000000000 : f64}
// CHECK-NEXT: "cuesta.where"(%[[EMPTY]], %[[NAN]], %[[O]]#0)
func.func @added_mask(%q: tensor<4x16x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x8xf32>, %m: tensor<16x16xf32>) -> tensor<4x16x8xf32> {
  %0 = "cuesta.mm"(%q, %k) : (tensor<4x16x8xf32>, tensor<4x8x16xf32>) -> tensor<4x16x16xf32>
  %c = "cuesta.constant"() {value = 0.5 : f64} : () -> tensor<f32>
  %1 = "cuesta.mul"(%0, %c) : (tensor<4x16x16xf32>, tensor<f32>) -> tensor<4x16x16xf32>
  %2 = "cuesta.add"(%m, %1) : (tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %3 = "cuesta.softmax"(%2) {dim = 2 : i64, safe = 0 : i64} : (tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %4 = "cuesta.mm"(%3, %v) : (tensor<4x16x16xf32>, tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %4 : tensor<4x16x8xf32>
}

// A softmax that gives zeros for such rows needs no second look, nor does a mask of finite numbers.
// CHECK-LABEL: func.func @safe_softmax
// CHECK: %[[O:.*]]:2 = "cuesta.attention"
// CHECK-NEXT: "cuesta.reshape"(%[[O]]#0)
// CHECK-NEXT: return
func.func @safe_softmax(%q: tensor<4x16x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x8xf32>, %m: tensor<16x16xf32>) -> tensor<4x16x8xf32> {
  %0 = "cuesta.mm"(%q, %k) : (tensor<4x16x8xf32>, tensor<4x8x16xf32>) -> tensor<4x16x16xf32>
  %1 = "cuesta.add"(%0, %m) : (tensor<4x16x16xf32>, tensor<16x16xf32>) -> tensor<4x16x16xf32>
  %2 = "cuesta.softmax"(%1) {dim = 2 : i64, safe = 1 : i64} : (tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %3 = "cuesta.mm"(%2, %v) : (tensor<4x16x16xf32>, tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %3 : tensor<4x16x8xf32>
}

// A fill becomes a mask of the condition's size. The lowest number stands for any low one: it takes the scores with it.
// CHECK-LABEL: func.func @low_fill
// CHECK-SAME: %[[C:[^:]*]]: tensor<16x16xi1>)
// CHECK: %[[ZERO:.*]] = "cuesta.constant"() {value = 0.000000e+00 : f64}
// CHECK-NEXT: %[[LOW:.*]] = "cuesta.constant"() {value = -3.4028234663852886E+38 : f64}
// CHECK-NEXT: %[[M:.*]] = "cuesta.where"(%[[C]], %[[LOW]], %[[ZERO]]) : {{.*}} -> tensor<16x16xf32>
// CHECK-NEXT: %[[O:.*]]:2 = "cuesta.attention"(%{{.*}}, %{{.*}}, %{{.*}}, %[[M]])
// CHECK-NEXT: "cuesta.reshape"(%[[O]]#0)
// CHECK-NEXT: return
func.func @low_fill(%q: tensor<4x16x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x8xf32>, %m: tensor<16x16xi1>) -> tensor<4x16x8xf32> {
  %0 = "cuesta.mm"(%q, %k) : (tensor<4x16x8xf32>, tensor<4x8x16xf32>) -> tensor<4x16x16xf32>
  %c = "cuesta.constant"() {value = -1.0e9 : f64} : () -> tensor<f32>
  %1 = "cuesta.where"(%m, %c, %0) : (tensor<16x16xi1>, tensor<f32>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %2 = "cuesta.softmax"(%1) {dim = 2 : i64, safe = 0 : i64} : (tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %3 = "cuesta.mm"(%2, %v) : (tensor<4x16x16xf32>, tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %3 : tensor<4x16x8xf32>
}

// The bias of a product is a mask; of several, the sum. A fill of -inf wins over what was added below it.
// CHECK-LABEL: func.func @bias_and_fill
// CHECK-SAME: %[[M:[^:]*]]: tensor<16x16xf32>, %[[C:[^:]*]]: tensor<16x16xi1>)
// CHECK: %[[INF:.*]] = "cuesta.constant"() {value = 0xFFF0000000000000 : f64}
// CHECK-NEXT: %[[ALL:.*]] = "cuesta.where"(%[[C]], %[[M]], %[[INF]])
// CHECK-NEXT: "cuesta.attention"(%{{.*}}, %{{.*}}, %{{.*}}, %[[ALL]]) {{.*}}scale = 2.500000e-01
// CHECK: "cuesta.amax"(%[[ALL]])
func.func @bias_and_fill(%q: tensor<4x16x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x8xf32>, %m: tensor<16x16xf32>, %c: tensor<16x16xi1>) -> tensor<4x16x8xf32> {
  %0 = "cuesta.addmm"(%m, %q, %k) {beta = 1.0 : f64, alpha = 0.25 : f64} : (tensor<16x16xf32>, tensor<4x16x8xf32>, tensor<4x8x16xf32>) -> tensor<4x16x16xf32>
  %inf = "cuesta.constant"() {value = 0xFFF0000000000000 : f64} : () -> tensor<f32>
  %1 = "cuesta.where"(%c, %0, %inf) : (tensor<16x16xi1>, tensor<4x16x16xf32>, tensor<f32>) -> tensor<4x16x16xf32>
  %2 = "cuesta.softmax"(%1) {dim = 2 : i64, safe = 0 : i64} : (tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %3 = "cuesta.mm"(%2, %v) : (tensor<4x16x16xf32>, tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %3 : tensor<4x16x8xf32>
}

// Groups of heads share keys and values; softmax in f32 of bf16 scores. Infinite scores in bf16 are NaN afterwards.
// CHECK-LABEL: func.func @grouped_bf16
// CHECK: %[[O:.*]]:2 = "cuesta.attention"
// CHECK-SAME: (tensor<1x4x16x8xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x16x8xbf16>)
// CHECK-NEXT: %[[LSE:.*]] = "cuesta.reshape"(%[[O]]#1)
// CHECK: "cuesta.eq"(%[[LSE]],
// CHECK: "cuesta.where"
func.func @grouped_bf16(%q: tensor<1x4x16x8xbf16>, %k: tensor<1x2x16x8xbf16>, %v: tensor<1x2x16x8xbf16>) -> tensor<4x16x8xbf16> {
  %0 = "cuesta.reshape"(%k) : (tensor<1x2x16x8xbf16>) -> tensor<1x2x1x16x8xbf16>
  %1 = "cuesta.expand"(%0) : (tensor<1x2x1x16x8xbf16>) -> tensor<1x2x2x16x8xbf16>
  %2 = "cuesta.reshape"(%1) : (tensor<1x2x2x16x8xbf16>) -> tensor<1x4x16x8xbf16>
  %3 = "cuesta.permute"(%2) {dims = [0, 1, 3, 2]} : (tensor<1x4x16x8xbf16>) -> tensor<1x4x8x16xbf16>
  %4 = "cuesta.reshape"(%3) : (tensor<1x4x8x16xbf16>) -> tensor<4x8x16xbf16>
  %5 = "cuesta.reshape"(%v) : (tensor<1x2x16x8xbf16>) -> tensor<1x2x1x16x8xbf16>
  %6 = "cuesta.expand"(%5) : (tensor<1x2x1x16x8xbf16>) -> tensor<1x2x2x16x8xbf16>
  %7 = "cuesta.reshape"(%6) : (tensor<1x2x2x16x8xbf16>) -> tensor<4x16x8xbf16>
  %8 = "cuesta.reshape"(%q) : (tensor<1x4x16x8xbf16>) -> tensor<4x16x8xbf16>
  %9 = "cuesta.mm"(%8, %4) : (tensor<4x16x8xbf16>, tensor<4x8x16xbf16>) -> tensor<4x16x16xbf16>
  %10 = "cuesta.reshape"(%9) : (tensor<4x16x16xbf16>) -> tensor<1x4x16x16xbf16>
  %11 = "cuesta.convert"(%10) : (tensor<1x4x16x16xbf16>) -> tensor<1x4x16x16xf32>
  %12 = "cuesta.softmax"(%11) {dim = 3 : i64, safe = 0 : i64} : (tensor<1x4x16x16xf32>) -> tensor<1x4x16x16xf32>
  %13 = "cuesta.convert"(%12) : (tensor<1x4x16x16xf32>) -> tensor<1x4x16x16xbf16>
  %14 = "cuesta.reshape"(%13) : (tensor<1x4x16x16xbf16>) -> tensor<4x16x16xbf16>
  %15 = "cuesta.mm"(%14, %7) : (tensor<4x16x16xbf16>, tensor<4x16x8xbf16>) -> tensor<4x16x8xbf16>
  return %15 : tensor<4x16x8xbf16>
}

// Probabilities that are used elsewhere (a training graph saves them) stay; the report is told.
// CHECK-LABEL: func.func @saved_probabilities
// CHECK-SAME: cuesta.remarks = [{bytes = 4096 : i64, consumer = "mm", producer = "softmax", reason = "no attention: {{.*}}"}]
// CHECK-NOT: cuesta.attention
// CHECK: return
func.func @saved_probabilities(%q: tensor<4x16x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x8xf32>) -> (tensor<4x16x8xf32>, tensor<4x16x16xf32>) {
  %0 = "cuesta.mm"(%q, %k) : (tensor<4x16x8xf32>, tensor<4x8x16xf32>) -> tensor<4x16x16xf32>
  %1 = "cuesta.softmax"(%0) {dim = 2 : i64, safe = 0 : i64} : (tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %2 = "cuesta.mm"(%1, %v) : (tensor<4x16x16xf32>, tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %2, %1 : tensor<4x16x8xf32>, tensor<4x16x16xf32>
}

// CHECK-LABEL: func.func @saved_scores
// CHECK-NOT: cuesta.attention
// CHECK: return
func.func @saved_scores(%q: tensor<4x16x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x8xf32>) -> (tensor<4x16x8xf32>, tensor<4x16x16xf32>) {
  %0 = "cuesta.mm"(%q, %k) : (tensor<4x16x8xf32>, tensor<4x8x16xf32>) -> tensor<4x16x16xf32>
  %1 = "cuesta.softmax"(%0) {dim = 2 : i64, safe = 0 : i64} : (tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %2 = "cuesta.mm"(%1, %v) : (tensor<4x16x16xf32>, tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %2, %0 : tensor<4x16x8xf32>, tensor<4x16x16xf32>
}

// Over rows, softmax is no attention; nor may a fill be a number that scores can be as low as.
// CHECK-LABEL: func.func @other_dim
// CHECK-NOT: cuesta.attention
// CHECK: return
func.func @other_dim(%q: tensor<4x16x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x8xf32>) -> tensor<4x16x8xf32> {
  %0 = "cuesta.mm"(%q, %k) : (tensor<4x16x8xf32>, tensor<4x8x16xf32>) -> tensor<4x16x16xf32>
  %1 = "cuesta.softmax"(%0) {dim = 1 : i64, safe = 0 : i64} : (tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %2 = "cuesta.mm"(%1, %v) : (tensor<4x16x16xf32>, tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %2 : tensor<4x16x8xf32>
}

// CHECK-LABEL: func.func @fill_not_low
// CHECK-NOT: cuesta.attention
// CHECK: return
func.func @fill_not_low(%q: tensor<4x16x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x8xf32>, %m: tensor<16x16xi1>) -> tensor<4x16x8xf32> {
  %0 = "cuesta.mm"(%q, %k) : (tensor<4x16x8xf32>, tensor<4x8x16xf32>) -> tensor<4x16x16xf32>
  %c = "cuesta.constant"() {value = -100.0 : f64} : () -> tensor<f32>
  %1 = "cuesta.where"(%m, %c, %0) : (tensor<16x16xi1>, tensor<f32>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %2 = "cuesta.softmax"(%1) {dim = 2 : i64, safe = 0 : i64} : (tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %3 = "cuesta.mm"(%2, %v) : (tensor<4x16x16xf32>, tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %3 : tensor<4x16x8xf32>
}

// The kernel takes values as deep as queries, and no fewer columns than its vectors are wide.
// CHECK-LABEL: func.func @deeper_values
// CHECK-NOT: cuesta.attention
// CHECK: return
func.func @deeper_values(%q: tensor<4x16x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x12xf32>) -> tensor<4x16x12xf32> {
  %0 = "cuesta.mm"(%q, %k) : (tensor<4x16x8xf32>, tensor<4x8x16xf32>) -> tensor<4x16x16xf32>
  %1 = "cuesta.softmax"(%0) {dim = 2 : i64, safe = 0 : i64} : (tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %2 = "cuesta.mm"(%1, %v) : (tensor<4x16x16xf32>, tensor<4x16x12xf32>) -> tensor<4x16x12xf32>
  return %2 : tensor<4x16x12xf32>
}

// CHECK-LABEL: func.func @few_columns
// CHECK-NOT: cuesta.attention
// CHECK: return
func.func @few_columns(%q: tensor<4x16x8xf32>, %k: tensor<4x8x15xf32>, %v: tensor<4x15x8xf32>) -> tensor<4x16x8xf32> {
  %0 = "cuesta.mm"(%q, %k) : (tensor<4x16x8xf32>, tensor<4x8x15xf32>) -> tensor<4x16x15xf32>
  %1 = "cuesta.softmax"(%0) {dim = 2 : i64, safe = 0 : i64} : (tensor<4x16x15xf32>) -> tensor<4x16x15xf32>
  %2 = "cuesta.mm"(%1, %v) : (tensor<4x16x15xf32>, tensor<4x15x8xf32>) -> tensor<4x16x8xf32>
  return %2 : tensor<4x16x8xf32>
}

// In f16 eager's scores overflow where the kernel's do not.
// CHECK-LABEL: func.func @f16
// CHECK-NOT: cuesta.attention
// CHECK: return
func.func @f16(%q: tensor<4x16x8xf16>, %k: tensor<4x8x16xf16>, %v: tensor<4x16x8xf16>) -> tensor<4x16x8xf16> {
  %0 = "cuesta.mm"(%q, %k) : (tensor<4x16x8xf16>, tensor<4x8x16xf16>) -> tensor<4x16x16xf16>
  %1 = "cuesta.softmax"(%0) {dim = 2 : i64, safe = 0 : i64} : (tensor<4x16x16xf16>) -> tensor<4x16x16xf16>
  %2 = "cuesta.mm"(%1, %v) : (tensor<4x16x16xf16>, tensor<4x16x8xf16>) -> tensor<4x16x8xf16>
  return %2 : tensor<4x16x8xf16>
}

// What bends the scores is no mask.
// CHECK-LABEL: func.func @soft_cap
// CHECK-NOT: cuesta.attention
// CHECK: return
func.func @soft_cap(%q: tensor<4x16x8xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x16x8xf32>) -> tensor<4x16x8xf32> {
  %0 = "cuesta.mm"(%q, %k) : (tensor<4x16x8xf32>, tensor<4x8x16xf32>) -> tensor<4x16x16xf32>
  %1 = "cuesta.tanh"(%0) : (tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %2 = "cuesta.softmax"(%1) {dim = 2 : i64, safe = 0 : i64} : (tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %3 = "cuesta.mm"(%2, %v) : (tensor<4x16x16xf32>, tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %3 : tensor<4x16x8xf32>
}

// A softmax that nothing multiplies is no attention.
// CHECK-LABEL: func.func @returned
// CHECK-NOT: cuesta.attention
// CHECK: return
func.func @returned(%q: tensor<4x16x8xbf16>, %k: tensor<4x8x16xbf16>) -> tensor<4x16x16xbf16> {
  %0 = "cuesta.mm"(%q, %k) : (tensor<4x16x8xbf16>, tensor<4x8x16xbf16>) -> tensor<4x16x16xbf16>
  %1 = "cuesta.softmax"(%0) {dim = 2 : i64, safe = 0 : i64} : (tensor<4x16x16xbf16>) -> tensor<4x16x16xbf16>
  return %1 : tensor<4x16x16xbf16>
}

// Scores of f32 whose weights are rounded to multiply narrow values: the values are widened instead. A mask is taken
// before it was broadcast.
// CHECK-LABEL: func.func @narrow_values
// CHECK-SAME: %[[V:[^:]*]]: tensor<8x32x16xbf16>, %[[M:[^:]*]]: tensor<32x32xf32>)
// CHECK: %[[W:.*]] = "cuesta.convert"(%{{.*}}) : (tensor<2x4x32x16xbf16>) -> tensor<2x4x32x16xf32>
// CHECK: %[[O:.*]]:2 = "cuesta.attention"(%{{.*}}, %{{.*}}, %[[W]], %[[M]])
// CHECK: "cuesta.convert"(%[[O]]#0) : (tensor<2x4x32x16xf32>) -> tensor<2x4x32x16xbf16>
// CHECK-NOT: cuesta.softmax
// CHECK: return
func.func @narrow_values(%q: tensor<8x32x16xf32>, %k: tensor<8x16x32xf32>, %v: tensor<8x32x16xbf16>, %m: tensor<32x32xf32>) -> tensor<8x32x16xbf16> {
  %0 = "cuesta.mm"(%q, %k) : (tensor<8x32x16xf32>, tensor<8x16x32xf32>) -> tensor<8x32x32xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
  %2 = "cuesta.expand"(%m) : (tensor<32x32xf32>) -> tensor<2x4x32x32xf32>
  %3 = "cuesta.add"(%1, %2) : (tensor<2x4x32x32xf32>, tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
  %4 = "cuesta.softmax"(%3) {dim = 3 : i64, safe = 1 : i64} : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
  %5 = "cuesta.convert"(%4) : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xbf16>
  %6 = "cuesta.reshape"(%5) : (tensor<2x4x32x32xbf16>) -> tensor<8x32x32xbf16>
  %7 = "cuesta.mm"(%6, %v) : (tensor<8x32x32xbf16>, tensor<8x32x16xbf16>) -> tensor<8x32x16xbf16>
  return %7 : tensor<8x32x16xbf16>
}
