// RUN: cuesta-opt --pass-pipeline='builtin.module(multiply-as-read)' %s | filecheck %s

// The product is written in the order in which a permute reads it; its bias, and conversions, come behind it.
// CHECK-LABEL: func.func @linear_over_tokens
// CHECK-SAME: (%[[B:.*]]: tensor<24xbf16>, %[[X:.*]]: tensor<512x64xbf16>, %[[W:.*]]: tensor<64x24xbf16>)
// CHECK: %[[T:.*]] = "cuesta.permute"(%[[W]]) {dims = [1, 0]}
// CHECK: %[[L:.*]] = "cuesta.expand"(%[[T]]) : (tensor<24x64xbf16>) -> tensor<2x24x64xbf16>
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<512x64xbf16>) -> tensor<2x256x64xbf16>
// CHECK: %[[P:.*]] = "cuesta.permute"(%[[R]]) {dims = [0, 2, 1]}
// CHECK: %[[Y:.*]] = "cuesta.mm"(%[[L]], %[[P]]) : (tensor<2x24x64xbf16>, tensor<2x64x256xbf16>) -> tensor<2x24x256xbf16>
// CHECK: %[[C:.*]] = "cuesta.reshape"(%[[B]]) : (tensor<24xbf16>) -> tensor<24x1xbf16>
// CHECK: %[[Z:.*]] = "cuesta.add"(%[[Y]], %[[C]])
// CHECK: %[[F:.*]] = "cuesta.convert"(%[[Z]]) : (tensor<2x24x256xbf16>) -> tensor<2x24x256xf32>
// CHECK: "cuesta.exp"(%[[F]])
func.func @linear_over_tokens(%b: tensor<24xbf16>, %x: tensor<512x64xbf16>, %w: tensor<64x24xbf16>) -> tensor<2x24x256xf32> {
  %0 = "cuesta.addmm"(%b, %x, %w) {alpha = 1.0 : f64, beta = 1.0 : f64} : (tensor<24xbf16>, tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
  %2 = "cuesta.convert"(%1) : (tensor<2x256x24xbf16>) -> tensor<2x256x24xf32>
  %3 = "cuesta.permute"(%2) {dims = [0, 2, 1]} : (tensor<2x256x24xf32>) -> tensor<2x24x256xf32>
  %4 = "cuesta.exp"(%3) : (tensor<2x24x256xf32>) -> tensor<2x24x256xf32>
  return %4 : tensor<2x24x256xf32>
}

// Of a padded weight only what is read is multiplied, and what is added to rows is added to columns.
// CHECK-LABEL: func.func @padded
// CHECK-SAME: (%[[X:.*]]: tensor<512x64xbf16>, %[[W:.*]]: tensor<64x32xbf16>, %[[R:.*]]: tensor<24xbf16>)
// CHECK: %[[T:.*]] = "cuesta.permute"(%[[W]])
// CHECK: %[[S:.*]] = "cuesta.slice"(%[[T]]) {starts = [0, 0], steps = [1, 1]} : (tensor<32x64xbf16>) -> tensor<24x64xbf16>
// CHECK: %[[L:.*]] = "cuesta.expand"(%[[S]])
// CHECK: %[[Y:.*]] = "cuesta.mm"(%[[L]], %{{.*}}) : {{.*}} -> tensor<2x24x256xbf16>
// CHECK: %[[A:.*]] = "cuesta.reshape"(%[[R]]) : (tensor<24xbf16>) -> tensor<1x1x24xbf16>
// CHECK: %[[C:.*]] = "cuesta.permute"(%[[A]]) {dims = [0, 2, 1]} : (tensor<1x1x24xbf16>) -> tensor<1x24x1xbf16>
// CHECK: %[[Z:.*]] = "cuesta.add"(%[[Y]], %[[C]])
// CHECK: "cuesta.exp"(%[[Z]])
func.func @padded(%x: tensor<512x64xbf16>, %w: tensor<64x32xbf16>, %r: tensor<24xbf16>) -> tensor<2x24x256xbf16> {
  %0 = "cuesta.mm"(%x, %w) : (tensor<512x64xbf16>, tensor<64x32xbf16>) -> tensor<512x32xbf16>
  %1 = "cuesta.slice"(%0) {starts = [0, 0], steps = [1, 1]} : (tensor<512x32xbf16>) -> tensor<512x24xbf16>
  %2 = "cuesta.reshape"(%1) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
  %3 = "cuesta.add"(%2, %r) : (tensor<2x256x24xbf16>, tensor<24xbf16>) -> tensor<2x256x24xbf16>
  %4 = "cuesta.permute"(%3) {dims = [0, 2, 1]} : (tensor<2x256x24xbf16>) -> tensor<2x24x256xbf16>
  %5 = "cuesta.exp"(%4) : (tensor<2x24x256xbf16>) -> tensor<2x24x256xbf16>
  return %5 : tensor<2x24x256xbf16>
}

// Something reads the result as it is; it meets a tensor of its size before it is permuted; few or unaligned rows; a
// product, or the caller, takes the permuted matrix.
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-6: "cuesta.mm"({{.*}}) : (tensor<{{[0-9]+}}x64xbf16>, tensor<64x24xbf16>)
func.func @stays(%x: tensor<512x64xbf16>, %w: tensor<64x24xbf16>, %y: tensor<2x256x24xbf16>, %n: tensor<260x64xbf16>, %q: tensor<2x8x24xbf16>) -> (tensor<2x24x256xbf16>, tensor<2x256x24xbf16>, tensor<2x24x256xbf16>, tensor<8x24x64xbf16>, tensor<2x24x130xbf16>, tensor<2x8x256xbf16>, tensor<2x24x256xbf16>) {
  %0 = "cuesta.mm"(%x, %w) : (tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
  %2 = "cuesta.permute"(%1) {dims = [0, 2, 1]} : (tensor<2x256x24xbf16>) -> tensor<2x24x256xbf16>
  %e = "cuesta.exp"(%2) : (tensor<2x24x256xbf16>) -> tensor<2x24x256xbf16>
  %3 = "cuesta.mm"(%x, %w) : (tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %4 = "cuesta.reshape"(%3) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
  %5 = "cuesta.add"(%4, %y) : (tensor<2x256x24xbf16>, tensor<2x256x24xbf16>) -> tensor<2x256x24xbf16>
  %6 = "cuesta.permute"(%5) {dims = [0, 2, 1]} : (tensor<2x256x24xbf16>) -> tensor<2x24x256xbf16>
  %f = "cuesta.exp"(%6) : (tensor<2x24x256xbf16>) -> tensor<2x24x256xbf16>
  %7 = "cuesta.mm"(%x, %w) : (tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %8 = "cuesta.reshape"(%7) : (tensor<512x24xbf16>) -> tensor<8x64x24xbf16>
  %9 = "cuesta.permute"(%8) {dims = [0, 2, 1]} : (tensor<8x64x24xbf16>) -> tensor<8x24x64xbf16>
  %g = "cuesta.exp"(%9) : (tensor<8x24x64xbf16>) -> tensor<8x24x64xbf16>
  %10 = "cuesta.mm"(%n, %w) : (tensor<260x64xbf16>, tensor<64x24xbf16>) -> tensor<260x24xbf16>
  %11 = "cuesta.reshape"(%10) : (tensor<260x24xbf16>) -> tensor<2x130x24xbf16>
  %12 = "cuesta.permute"(%11) {dims = [0, 2, 1]} : (tensor<2x130x24xbf16>) -> tensor<2x24x130xbf16>
  %h = "cuesta.exp"(%12) : (tensor<2x24x130xbf16>) -> tensor<2x24x130xbf16>
  %13 = "cuesta.mm"(%x, %w) : (tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %14 = "cuesta.reshape"(%13) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
  %15 = "cuesta.permute"(%14) {dims = [0, 2, 1]} : (tensor<2x256x24xbf16>) -> tensor<2x24x256xbf16>
  %16 = "cuesta.mm"(%q, %15) : (tensor<2x8x24xbf16>, tensor<2x24x256xbf16>) -> tensor<2x8x256xbf16>
  %17 = "cuesta.mm"(%x, %w) : (tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %18 = "cuesta.reshape"(%17) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
  %19 = "cuesta.permute"(%18) {dims = [0, 2, 1]} : (tensor<2x256x24xbf16>) -> tensor<2x24x256xbf16>
  return %e, %1, %f, %g, %h, %16, %19 : tensor<2x24x256xbf16>, tensor<2x256x24xbf16>, tensor<2x24x256xbf16>, tensor<8x24x64xbf16>, tensor<2x24x130xbf16>, tensor<2x8x256xbf16>, tensor<2x24x256xbf16>
}

// Tiles of 64 columns would be full but for the last, at 136 columns, and that costs more than a copy.
// CHECK-LABEL: func.func @long_sums
// CHECK: "cuesta.mm"({{.*}}) : (tensor<272x4096xbf16>, tensor<4096x24xbf16>)
// CHECK: "cuesta.mm"({{.*}}) : (tensor<2x24x256xbf16>, tensor<2x256x136xbf16>)
func.func @long_sums(%x: tensor<272x4096xbf16>, %w: tensor<4096x24xbf16>, %y: tensor<272x256xbf16>, %v: tensor<256x24xbf16>) -> (tensor<2x24x136xbf16>, tensor<2x24x136xbf16>) {
  %0 = "cuesta.mm"(%x, %w) : (tensor<272x4096xbf16>, tensor<4096x24xbf16>) -> tensor<272x24xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<272x24xbf16>) -> tensor<2x136x24xbf16>
  %2 = "cuesta.permute"(%1) {dims = [0, 2, 1]} : (tensor<2x136x24xbf16>) -> tensor<2x24x136xbf16>
  %3 = "cuesta.exp"(%2) : (tensor<2x24x136xbf16>) -> tensor<2x24x136xbf16>
  %4 = "cuesta.mm"(%y, %v) : (tensor<272x256xbf16>, tensor<256x24xbf16>) -> tensor<272x24xbf16>
  %5 = "cuesta.reshape"(%4) : (tensor<272x24xbf16>) -> tensor<2x136x24xbf16>
  %6 = "cuesta.permute"(%5) {dims = [0, 2, 1]} : (tensor<2x136x24xbf16>) -> tensor<2x24x136xbf16>
  %7 = "cuesta.exp"(%6) : (tensor<2x24x136xbf16>) -> tensor<2x24x136xbf16>
  return %3, %7 : tensor<2x24x136xbf16>, tensor<2x24x136xbf16>
}

// Where images are computed in channels_last, what is viewed as an image is permuted back: its rows are read as they
// are. One that is read as rows of pixels is not.
// CHECK-LABEL: func.func @turned_back
// CHECK: "cuesta.mm"({{.*}}) : (tensor<512x64xbf16>, tensor<64x24xbf16>)
// CHECK: "cuesta.mm"({{.*}}) : (tensor<2x24x64xbf16>, tensor<2x64x256xbf16>)
func.func @turned_back(%x: tensor<512x64xbf16>, %w: tensor<64x24xbf16>, %b: tensor<24x1x1xbf16>) -> (tensor<2x16x16x24xbf16>, tensor<2x24x16x16xbf16>) {
  %0 = "cuesta.mm"(%x, %w) : (tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
  %2 = "cuesta.permute"(%1) {dims = [0, 2, 1]} : (tensor<2x256x24xbf16>) -> tensor<2x24x256xbf16>
  %3 = "cuesta.reshape"(%2) : (tensor<2x24x256xbf16>) -> tensor<2x24x16x16xbf16>
  %4 = "cuesta.add"(%3, %b) : (tensor<2x24x16x16xbf16>, tensor<24x1x1xbf16>) -> tensor<2x24x16x16xbf16>
  %5 = "cuesta.permute"(%4) {dims = [0, 2, 3, 1]} : (tensor<2x24x16x16xbf16>) -> tensor<2x16x16x24xbf16>
  %6 = "cuesta.exp"(%5) : (tensor<2x16x16x24xbf16>) -> tensor<2x16x16x24xbf16>
  %7 = "cuesta.mm"(%x, %w) : (tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %8 = "cuesta.reshape"(%7) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
  %9 = "cuesta.permute"(%8) {dims = [0, 2, 1]} : (tensor<2x256x24xbf16>) -> tensor<2x24x256xbf16>
  %10 = "cuesta.reshape"(%9) : (tensor<2x24x256xbf16>) -> tensor<2x24x16x16xbf16>
  %11 = "cuesta.add"(%10, %b) : (tensor<2x24x16x16xbf16>, tensor<24x1x1xbf16>) -> tensor<2x24x16x16xbf16>
  return %6, %11 : tensor<2x16x16x24xbf16>, tensor<2x24x16x16xbf16>
}

// What meets a residual on its way is not followed: the residual is permuted as well, in every layer of a mixer.
// CHECK-LABEL: func.func @mixed
// CHECK: "cuesta.mm"({{.*}}) : (tensor<2x24x64xbf16>, tensor<2x64x256xbf16>)
func.func @mixed(%x: tensor<512x64xbf16>, %w: tensor<64x24xbf16>, %r: tensor<2x24x256xbf16>) -> (tensor<2x24x256xbf16>, tensor<2x256x24xbf16>) {
  %0 = "cuesta.mm"(%x, %w) : (tensor<512x64xbf16>, tensor<64x24xbf16>) -> tensor<512x24xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<512x24xbf16>) -> tensor<2x256x24xbf16>
  %2 = "cuesta.permute"(%1) {dims = [0, 2, 1]} : (tensor<2x256x24xbf16>) -> tensor<2x24x256xbf16>
  %3 = "cuesta.add"(%2, %r) : (tensor<2x24x256xbf16>, tensor<2x24x256xbf16>) -> tensor<2x24x256xbf16>
  %4 = "cuesta.permute"(%3) {dims = [0, 2, 1]} : (tensor<2x24x256xbf16>) -> tensor<2x256x24xbf16>
  %5 = "cuesta.exp"(%4) : (tensor<2x256x24xbf16>) -> tensor<2x256x24xbf16>
  return %3, %5 : tensor<2x24x256xbf16>, tensor<2x256x24xbf16>
}
