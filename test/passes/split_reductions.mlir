// RUN: cuesta-opt --pass-pipeline='builtin.module(split-reductions)' %s | filecheck %s

// CHECK-LABEL: func.func @columns
// CHECK-SAME: (%[[X:.*]]: tensor<8192x768xbf16>)
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<8192x768xbf16>) -> tensor<32x256x768xbf16>
// CHECK: %[[C:.*]] = "cuesta.convert"(%[[R]]) : (tensor<32x256x768xbf16>) -> tensor<32x256x768xf32>
// CHECK: %[[P:.*]] = "cuesta.sum"(%[[C]]) {dims = [1], keepdim = 0 : i64} : (tensor<32x256x768xf32>) -> tensor<32x768xf32>
// CHECK: %[[T:.*]] = "cuesta.sum"(%[[P]]) {dims = [0], keepdim = 0 : i64} : (tensor<32x768xf32>) -> tensor<768xf32>
// CHECK: "cuesta.convert"(%[[T]]) : (tensor<768xf32>) -> tensor<768xbf16>
func.func @columns(%x: tensor<8192x768xbf16>) -> tensor<768xbf16> {
  %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<8192x768xbf16>) -> tensor<768xbf16>
  return %0 : tensor<768xbf16>
}

// The whole of a dim may go to programs, and the next one be cut; keepdim is made up for at the end.
// CHECK-LABEL: func.func @channels
// CHECK-SAME: (%[[X:.*]]: tensor<2x64x112x112xf32>)
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<2x64x112x112xf32>) -> tensor<2x64x4x28x112xf32>
// CHECK: %[[P:.*]] = "cuesta.amax"(%[[R]]) {dims = [3, 4], keepdim = 0 : i64} {{.*}} -> tensor<2x64x4xf32>
// CHECK: %[[T:.*]] = "cuesta.amax"(%[[P]]) {dims = [0, 2], keepdim = 0 : i64} {{.*}} -> tensor<64xf32>
// CHECK: "cuesta.reshape"(%[[T]]) : (tensor<64xf32>) -> tensor<1x64x1x1xf32>
func.func @channels(%x: tensor<2x64x112x112xf32>) -> tensor<1x64x1x1xf32> {
  %0 = "cuesta.amax"(%x) {dims = [0, 2, 3], keepdim = 1} : (tensor<2x64x112x112xf32>) -> tensor<1x64x1x1xf32>
  return %0 : tensor<1x64x1x1xf32>
}

// Rows enough to go round, short rows, and a size without divisors stay as they are.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: cuesta.reshape
func.func @whole(%x: tensor<4096x4096xf32>, %y: tensor<8x128xf32>, %z: tensor<8191xf32>) -> (tensor<4096xf32>, tensor<8xf32>, tensor<f32>) {
  %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 0} : (tensor<4096x4096xf32>) -> tensor<4096xf32>
  %1 = "cuesta.sum"(%y) {dims = [1], keepdim = 0} : (tensor<8x128xf32>) -> tensor<8xf32>
  %2 = "cuesta.sum"(%z) {dims = [0], keepdim = 0} : (tensor<8191xf32>) -> tensor<f32>
  return %0, %1, %2 : tensor<4096xf32>, tensor<8xf32>, tensor<f32>
}

// Parts of memory: where channels lie fastest, a program reduces a strip of them, and more programs are wanted.
// CHECK-LABEL: func.func @channels_last
// CHECK-SAME: (%[[X:[^:]*]]:
// CHECK: "cuesta.reshape"(%[[X]]) : (tensor<8x64x56x56xf32>) -> tensor<8x64x28x2x56xf32>
func.func @channels_last(%x: tensor<8x64x56x56xf32> {cuesta.strides = [200704, 1, 3584, 64]}) -> tensor<64xf32> {
  %0 = "cuesta.sum"(%x) {dims = [0, 2, 3], keepdim = 0} : (tensor<8x64x56x56xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// A variance does not wait for the mean: each part has its own, and how far they lie apart is added.
// CHECK-LABEL: func.func @variance
// CHECK-SAME: (%[[ARG_X:.*]]: tensor<16384x8xf32>)
// CHECK: %[[X:.*]] = "cuesta.reshape"(%[[ARG_X]]) : (tensor<16384x8xf32>) -> tensor<64x256x8xf32>
// CHECK: %[[TOTAL:.*]] = "cuesta.sum"({{.*}}) {dims = [0], keepdim = 0 : i64} : (tensor<64x8xf32>) -> tensor<8xf32>
// CHECK: %[[MEAN:.*]] = "cuesta.div"
// CHECK: %[[OWN:.*]] = "cuesta.div"({{.*}}) : (tensor<64x8xf32>, tensor<f32>) -> tensor<64x8xf32>
// CHECK: %[[BESIDE:.*]] = "cuesta.reshape"(%[[OWN]]) : (tensor<64x8xf32>) -> tensor<64x1x8xf32>
// CHECK: "cuesta.sub"(%{{.*}}, %[[BESIDE]]) : (tensor<64x256x8xf32>, tensor<64x1x8xf32>)
// CHECK: %[[SPREAD:.*]] = "cuesta.sum"
// CHECK: %[[APART:.*]] = "cuesta.sub"(%[[OWN]]
// CHECK: %[[SQUARE:.*]] = "cuesta.square"(%[[APART]])
// CHECK: %[[BETWEEN:.*]] = "cuesta.mul"(%[[SQUARE]]
// CHECK: %[[BOTH:.*]] = "cuesta.add"(%[[SPREAD]], %[[BETWEEN]])
// CHECK: "cuesta.sum"(%[[BOTH]]) {dims = [0], keepdim = 0 : i64} : (tensor<64x8xf32>) -> tensor<8xf32>
func.func @variance(%x: tensor<16384x8xf32>) -> tensor<8xf32> {
  %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<16384x8xf32>) -> tensor<8xf32>
  %n = "cuesta.constant"() {value = 16384.0 : f64} : () -> tensor<f32>
  %mean = "cuesta.div"(%0, %n) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = "cuesta.sub"(%x, %mean) : (tensor<16384x8xf32>, tensor<8xf32>) -> tensor<16384x8xf32>
  %2 = "cuesta.square"(%1) : (tensor<16384x8xf32>) -> tensor<16384x8xf32>
  %3 = "cuesta.sum"(%2) {dims = [0], keepdim = 0} : (tensor<16384x8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// Pointwise ops go along into the parts, so that no reshape keeps them out of the reduction's kernel.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: (%[[ARG_X:.*]]: tensor<8192x768xbf16>, %[[ARG_W:.*]]: tensor<768xf32>)
// CHECK-DAG: %[[X:.*]] = "cuesta.reshape"(%[[ARG_X]]) : (tensor<8192x768xbf16>) -> tensor<32x256x768xbf16>
// CHECK-DAG: %[[W:.*]] = "cuesta.reshape"(%[[ARG_W]]) : (tensor<768xf32>) -> tensor<1x1x768xf32>
// CHECK-DAG: %[[C:.*]] = "cuesta.convert"(%[[X]])
// CHECK: %[[M:.*]] = "cuesta.mul"(%[[C]], %[[W]]) : (tensor<32x256x768xf32>, tensor<1x1x768xf32>) -> tensor<32x256x768xf32>
// CHECK: "cuesta.sum"(%[[M]]) {dims = [1]
func.func @chain(%x: tensor<8192x768xbf16>, %w: tensor<768xf32>) -> tensor<768xf32> {
  %0 = "cuesta.convert"(%x) : (tensor<8192x768xbf16>) -> tensor<8192x768xf32>
  %1 = "cuesta.mul"(%0, %w) : (tensor<8192x768xf32>, tensor<768xf32>) -> tensor<8192x768xf32>
  %2 = "cuesta.sum"(%1) {dims = [0], keepdim = 0} : (tensor<8192x768xf32>) -> tensor<768xf32>
  return %2 : tensor<768xf32>
}

// But not where they would be given many tensors for the sake of one: the largest of a pool's places is read instead.
// CHECK-LABEL: func.func @pool
// CHECK-COUNT-3: "cuesta.maximum"
// CHECK: %[[D:.*]] = "cuesta.maximum"
// CHECK-NEXT: "cuesta.reshape"(%[[D]]) : (tensor<8192x768xf32>) -> tensor<32x256x768xf32>
func.func @pool(%x: tensor<8196x768xf32>) -> tensor<768xf32> {
  %0 = "cuesta.window"(%x) {starts = [0, 0], steps = [1, 1], divisors = [1, 1], outside = 0.0} : (tensor<8196x768xf32>) -> tensor<8192x768xf32>
  %1 = "cuesta.window"(%x) {starts = [1, 0], steps = [1, 1], divisors = [1, 1], outside = 0.0} : (tensor<8196x768xf32>) -> tensor<8192x768xf32>
  %2 = "cuesta.window"(%x) {starts = [2, 0], steps = [1, 1], divisors = [1, 1], outside = 0.0} : (tensor<8196x768xf32>) -> tensor<8192x768xf32>
  %3 = "cuesta.window"(%x) {starts = [3, 0], steps = [1, 1], divisors = [1, 1], outside = 0.0} : (tensor<8196x768xf32>) -> tensor<8192x768xf32>
  %4 = "cuesta.window"(%x) {starts = [4, 0], steps = [1, 1], divisors = [1, 1], outside = 0.0} : (tensor<8196x768xf32>) -> tensor<8192x768xf32>
  %a = "cuesta.maximum"(%0, %1) : (tensor<8192x768xf32>, tensor<8192x768xf32>) -> tensor<8192x768xf32>
  %b = "cuesta.maximum"(%a, %2) : (tensor<8192x768xf32>, tensor<8192x768xf32>) -> tensor<8192x768xf32>
  %c = "cuesta.maximum"(%b, %3) : (tensor<8192x768xf32>, tensor<8192x768xf32>) -> tensor<8192x768xf32>
  %d = "cuesta.maximum"(%c, %4) : (tensor<8192x768xf32>, tensor<8192x768xf32>) -> tensor<8192x768xf32>
  %s = "cuesta.sum"(%d) {dims = [0], keepdim = 0} : (tensor<8192x768xf32>) -> tensor<768xf32>
  return %s : tensor<768xf32>
}

// Where a convolution's sums are rounded, the parts are of what is rounded, which is in memory, not of the sums.
// CHECK-LABEL: func.func @rounded
// CHECK: %[[SUMS:.*]] = "cuesta.depthwise"
// CHECK: %[[NARROW:.*]] = "cuesta.convert"(%[[SUMS]])
// CHECK-NOT: "cuesta.reshape"(%[[SUMS]])
// CHECK: "cuesta.reshape"(%[[NARROW]]) : (tensor<64x56x56x32xbf16>) -> tensor<64x{{.*}}xbf16>
func.func @rounded(%x: tensor<64x56x56x32xbf16>, %w: tensor<3x3x32xbf16>) -> (tensor<64x56x56x32xbf16>, tensor<32xf32>) {
  %0 = "cuesta.depthwise"(%x, %w) {dilation = [1, 1], spread = [1, 1], padding = [1, 1], stride = [1, 1]} : (tensor<64x56x56x32xbf16>, tensor<3x3x32xbf16>) -> tensor<64x56x56x32xf32>
  %1 = "cuesta.convert"(%0) : (tensor<64x56x56x32xf32>) -> tensor<64x56x56x32xbf16>
  %2 = "cuesta.convert"(%1) : (tensor<64x56x56x32xbf16>) -> tensor<64x56x56x32xf32>
  %3 = "cuesta.square"(%2) : (tensor<64x56x56x32xf32>) -> tensor<64x56x56x32xf32>
  %4 = "cuesta.sum"(%3) {dims = [0, 1, 2], keepdim = 0} : (tensor<64x56x56x32xf32>) -> tensor<32xf32>
  return %1, %4 : tensor<64x56x56x32xbf16>, tensor<32xf32>
}

// What is added to a product of ours is the end of its kernel: the sum of both is read in parts, not each of them.
// CHECK-LABEL: func.func @added
// CHECK: %[[ADDED:.*]] = "cuesta.add"
// CHECK: "cuesta.reshape"(%[[ADDED]]) : (tensor<32x256x56x56xbf16>) -> tensor<32x256x{{.*}}xbf16>
// CHECK-NOT: "cuesta.add"
func.func @added(%x: tensor<32x56x56x64xbf16>, %w: tensor<64x256xbf16>, %y: tensor<32x256x56x56xbf16> {cuesta.strides = [802816, 1, 14336, 256]}) -> (tensor<32x256x56x56xbf16>, tensor<256xf32>) {
  %0 = "cuesta.mm"(%x, %w) {product = "128x128x64/4/2"} : (tensor<32x56x56x64xbf16>, tensor<64x256xbf16>) -> tensor<32x56x56x256xf32>
  %1 = "cuesta.permute"(%0) {dims = [0, 3, 1, 2]} : (tensor<32x56x56x256xf32>) -> tensor<32x256x56x56xf32>
  %2 = "cuesta.convert"(%1) : (tensor<32x256x56x56xf32>) -> tensor<32x256x56x56xbf16>
  %3 = "cuesta.add"(%2, %y) : (tensor<32x256x56x56xbf16>, tensor<32x256x56x56xbf16>) -> tensor<32x256x56x56xbf16>
  %4 = "cuesta.convert"(%3) : (tensor<32x256x56x56xbf16>) -> tensor<32x256x56x56xf32>
  %5 = "cuesta.sum"(%4) {dims = [0, 2, 3], keepdim = 0} : (tensor<32x256x56x56xf32>) -> tensor<256xf32>
  return %3, %5 : tensor<32x256x56x56xbf16>, tensor<256xf32>
}

// What a norm makes of a product's result waits for the sums that are taken of this: it is not the product's kernel's.
// CHECK-LABEL: func.func @normed
// CHECK: %[[NARROW:.*]] = "cuesta.convert"(%{{.*}}) : (tensor<32x56x56x256xf32>) -> tensor<32x56x56x256xbf16>
// CHECK: "cuesta.reshape"(%[[NARROW]]) : (tensor<32x56x56x256xbf16>) -> tensor<[[PARTS:.*]]xbf16>
// CHECK: "cuesta.sub"({{.*}} -> tensor<[[PARTS]]xbf16>
func.func @normed(%x: tensor<32x56x56x64xbf16>, %w: tensor<64x256xbf16>) -> (tensor<32x56x56x256xbf16>, tensor<256xf32>) {
  %0 = "cuesta.mm"(%x, %w) {product = "128x128x64/4/2"} : (tensor<32x56x56x64xbf16>, tensor<64x256xbf16>) -> tensor<32x56x56x256xf32>
  %1 = "cuesta.convert"(%0) : (tensor<32x56x56x256xf32>) -> tensor<32x56x56x256xbf16>
  %2 = "cuesta.amax"(%1) {dims = [0, 1, 2], keepdim = 0} : (tensor<32x56x56x256xbf16>) -> tensor<256xbf16>
  %3 = "cuesta.sub"(%1, %2) : (tensor<32x56x56x256xbf16>, tensor<256xbf16>) -> tensor<32x56x56x256xbf16>
  %4 = "cuesta.convert"(%3) : (tensor<32x56x56x256xbf16>) -> tensor<32x56x56x256xf32>
  %5 = "cuesta.sum"(%4) {dims = [0, 1, 2], keepdim = 0} : (tensor<32x56x56x256xf32>) -> tensor<256xf32>
  return %3, %5 : tensor<32x56x56x256xbf16>, tensor<256xf32>
}

// The results of parts are added up in one step: programs reduce columns side by side.
// CHECK-LABEL: func.func @few_rows
// CHECK-NOT: cuesta.reshape
func.func @few_rows(%x: tensor<1024x32xf32>) -> tensor<32xf32> {
  %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<1024x32xf32>) -> tensor<32xf32>
  return %0 : tensor<32xf32>
}

// A prime number of rows: even parts, and the rows that are left beside them.
// CHECK-LABEL: func.func @prime
// CHECK: %[[S:.*]] = "cuesta.slice"(%arg0) {starts = [0, 0], {{.*}} -> tensor<69888x128xf32>
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[S]]) : (tensor<69888x128xf32>) -> tensor<256x273x128xf32>
// CHECK: %[[P:.*]] = "cuesta.sum"(%[[R]]) {dims = [1],
// CHECK: %[[T:.*]] = "cuesta.sum"(%[[P]]) {dims = [0],
// CHECK: %[[L:.*]] = "cuesta.slice"(%arg0) {starts = [69888, 0], {{.*}} -> tensor<113x128xf32>
// CHECK: %[[U:.*]] = "cuesta.sum"(%[[L]]) {dims = [0],
// CHECK: "cuesta.add"(%[[T]], %[[U]])
func.func @prime(%x: tensor<70001x128xf32>) -> tensor<128xf32> {
  %0 = "cuesta.sum"(%x) {dims = [0], keepdim = 0} : (tensor<70001x128xf32>) -> tensor<128xf32>
  return %0 : tensor<128xf32>
}
