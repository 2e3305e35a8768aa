// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries)' %s | filecheck %s

// CHECK-LABEL: func.func @library
// CHECK-NEXT: "aten.call"
func.func @library(%a: tensor<9x2x3xf32>, %b: tensor<9x3x4xf32>) -> tensor<9x2x4xf32> {
  %0 = "cuesta.mm"(%a, %b) {route = "library"} : (tensor<9x2x3xf32>, tensor<9x3x4xf32>) -> tensor<9x2x4xf32>
  return %0 : tensor<9x2x4xf32>
}

// CHECK-LABEL: func.func @columns
// CHECK-SAME: (%[[A:.*]]: tensor<9x2x3xf32>, %[[B:.*]]: tensor<9x3x4xf32>)
// CHECK-NEXT: %[[L:.*]] = "cuesta.reshape"(%[[A]]) : (tensor<9x2x3xf32>) -> tensor<9x2x3x1xf32>
// CHECK-NEXT: %[[R:.*]] = "cuesta.reshape"(%[[B]]) : (tensor<9x3x4xf32>) -> tensor<9x1x3x4xf32>
// CHECK-NEXT: %[[P:.*]] = "cuesta.mul"(%[[L]], %[[R]]) : {{.*}} -> tensor<9x2x3x4xf32>
// CHECK-NEXT: %[[S:.*]] = "cuesta.sum"(%[[P]]) {dims = [2], keepdim = 0 : i64}
// CHECK-NEXT: return %[[S]]
func.func @columns(%a: tensor<9x2x3xf32>, %b: tensor<9x3x4xf32>) -> tensor<9x2x4xf32> {
  %0 = "cuesta.mm"(%a, %b) {route = "columns"} : (tensor<9x2x3xf32>, tensor<9x3x4xf32>) -> tensor<9x2x4xf32>
  return %0 : tensor<9x2x4xf32>
}

// What is narrow is multiplied and summed in f32. It is converted behind the views, which fold into the caller's.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[A:.*]]: tensor<2x3xbf16>, %[[B:.*]]: tensor<3x4xbf16>)
// CHECK-DAG: %[[AR:.*]] = "cuesta.reshape"(%[[A]]) : (tensor<2x3xbf16>) -> tensor<2x1x3xbf16>
// CHECK-DAG: %[[T:.*]] = "cuesta.permute"(%[[B]]) {dims = [1, 0]}
// CHECK-DAG: %[[BR:.*]] = "cuesta.reshape"(%[[T]]) : (tensor<4x3xbf16>) -> tensor<1x4x3xbf16>
// CHECK-DAG: "cuesta.convert"(%[[AR]]) : {{.*}} -> tensor<2x1x3xf32>
// CHECK-DAG: "cuesta.convert"(%[[BR]]) : {{.*}} -> tensor<1x4x3xf32>
// CHECK: %[[P:.*]] = "cuesta.mul"({{.*}}) : (tensor<2x1x3xf32>, tensor<1x4x3xf32>) -> tensor<2x4x3xf32>
// CHECK-NEXT: %[[S:.*]] = "cuesta.sum"(%[[P]]) {dims = [2], keepdim = 0 : i64}
// CHECK-NEXT: %[[N:.*]] = "cuesta.convert"(%[[S]]) : (tensor<2x4xf32>) -> tensor<2x4xbf16>
// CHECK-NEXT: return %[[N]]
func.func @rows(%a: tensor<2x3xbf16>, %b: tensor<3x4xbf16>) -> tensor<2x4xbf16> {
  %0 = "cuesta.mm"(%a, %b) {route = "rows"} : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xbf16>
  return %0 : tensor<2x4xbf16>
}

// The groups of a quantised weight stay dims. The views fold: nothing stands between the weight and its product then.
// CHECK-LABEL: func.func @groups
// CHECK-SAME: (%[[X:.*]]: tensor<1x64xf32>,
// CHECK-DAG: %[[XG:.*]] = "cuesta.reshape"(%[[X]]) : (tensor<1x64xf32>) -> tensor<1x1x4x16xf32>
// CHECK-DAG: %[[WG:.*]] = "cuesta.reshape"({{.*}}) : (tensor<8x64xf32>) -> tensor<1x8x4x16xf32>
// CHECK: %[[P:.*]] = "cuesta.mul"(%[[XG]], %[[WG]])
// CHECK-NEXT: "cuesta.sum"(%[[P]]) {dims = [2, 3], keepdim = 0 : i64} : (tensor<1x8x4x16xf32>) -> tensor<1x8xf32>
func.func @groups(%x: tensor<1x64xf32>, %w: tensor<8x4x16xf32>, %s: tensor<8x4x1xf32>) -> tensor<1x8xf32> {
  %0 = "cuesta.mul"(%w, %s) : (tensor<8x4x16xf32>, tensor<8x4x1xf32>) -> tensor<8x4x16xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<8x4x16xf32>) -> tensor<8x64xf32>
  %2 = "cuesta.permute"(%1) {dims = [1, 0]} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %3 = "cuesta.mm"(%x, %2) {route = "rows"} : (tensor<1x64xf32>, tensor<64x8xf32>) -> tensor<1x8xf32>
  return %3 : tensor<1x8xf32>
}

// So do pairs of values inside the groups.
// CHECK-LABEL: func.func @pairs
// CHECK: "cuesta.sum"({{.*}}) {dims = [2, 3, 4], keepdim = 0 : i64} : (tensor<1x8x4x8x2xf32>) -> tensor<1x8xf32>
func.func @pairs(%x: tensor<1x64xf32>, %w: tensor<8x32x2xf32>, %s: tensor<8x4x1xf32>) -> tensor<1x8xf32> {
  %0 = "cuesta.exp"(%w) : (tensor<8x32x2xf32>) -> tensor<8x32x2xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<8x32x2xf32>) -> tensor<8x4x16xf32>
  %2 = "cuesta.mul"(%1, %s) : (tensor<8x4x16xf32>, tensor<8x4x1xf32>) -> tensor<8x4x16xf32>
  %3 = "cuesta.reshape"(%2) : (tensor<8x4x16xf32>) -> tensor<8x64xf32>
  %4 = "cuesta.permute"(%3) {dims = [1, 0]} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %5 = "cuesta.mm"(%x, %4) {route = "rows"} : (tensor<1x64xf32>, tensor<64x8xf32>) -> tensor<1x8xf32>
  return %5 : tensor<1x8xf32>
}

// CHECK-LABEL: func.func @scaled
// CHECK-SAME: (%[[C:.*]]: tensor<4xf32>,
// CHECK: %[[S:.*]] = "cuesta.sum"
// CHECK: %[[SA:.*]] = "cuesta.mul"(%[[S]],
// CHECK: %[[CB:.*]] = "cuesta.mul"(%[[C]],
// CHECK-NEXT: "cuesta.add"(%[[SA]], %[[CB]])
func.func @scaled(%c: tensor<4xf32>, %a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %0 = "cuesta.addmm"(%c, %a, %b) {beta = 2.0 : f64, alpha = 0.5 : f64, route = "columns"} : (tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// As in BLAS, beta = 0 leaves the bias out, NaN or not.
// CHECK-LABEL: func.func @no_bias
// CHECK-NOT: "cuesta.add"
// CHECK: return
func.func @no_bias(%c: tensor<4xf32>, %a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %0 = "cuesta.addmm"(%c, %a, %b) {beta = 0.0 : f64, alpha = 1.0 : f64, route = "rows"} : (tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// For tensor cores it stays a product of what is narrow, with its sums in f32; a bias is added before the rounding.
// CHECK-LABEL: func.func @tensor_cores
// CHECK-SAME: (%[[C:.*]]: tensor<40xbf16>, %[[A:.*]]: tensor<32x64xbf16>, %[[B:.*]]: tensor<64x40xbf16>)
// CHECK-NEXT: %[[P:.*]] = "cuesta.mm"(%[[A]], %[[B]]) {precision = "tf32", product = "32x64x64/4/3"} : {{.*}} -> tensor<32x40xf32>
// CHECK-NEXT: %[[W:.*]] = "cuesta.convert"(%[[C]])
// CHECK-NEXT: %[[S:.*]] = "cuesta.add"(%[[P]], %[[W]])
// CHECK-NEXT: %[[N:.*]] = "cuesta.convert"(%[[S]]) : (tensor<32x40xf32>) -> tensor<32x40xbf16>
// CHECK-NEXT: return %[[N]]
func.func @tensor_cores(%c: tensor<40xbf16>, %a: tensor<32x64xbf16>, %b: tensor<64x40xbf16>) -> tensor<32x40xbf16> {
  %0 = "cuesta.addmm"(%c, %a, %b) {beta = 1.0 : f64, alpha = 1.0 : f64, precision = "tf32", route = "tensor cores 32x64x64/4/3"} : (tensor<40xbf16>, tensor<32x64xbf16>, tensor<64x40xbf16>) -> tensor<32x40xbf16>
  return %0 : tensor<32x40xbf16>
}

// A long sum in parts: a batch of products, which are added up.
// CHECK-LABEL: func.func @parts
// CHECK-SAME: (%[[A:.*]]: tensor<32x1024xf16>, %[[B:.*]]: tensor<1024x16xf16>)
// CHECK: %[[AP:.*]] = "cuesta.permute"(%{{.*}}) {dims = [1, 0, 2]} : (tensor<32x4x256xf16>) -> tensor<4x32x256xf16>
// CHECK: %[[BP:.*]] = "cuesta.reshape"(%[[B]]) : (tensor<1024x16xf16>) -> tensor<4x256x16xf16>
// CHECK: %[[P:.*]] = "cuesta.mm"(%[[AP]], %[[BP]]) {product = "32x16x64/4/3"} : {{.*}} -> tensor<4x32x16xf32>
// CHECK: "cuesta.sum"(%[[P]]) {dims = [0], keepdim = 0 : i64} : (tensor<4x32x16xf32>) -> tensor<32x16xf32>
func.func @parts(%a: tensor<32x1024xf16>, %b: tensor<1024x16xf16>) -> tensor<32x16xf16> {
  %0 = "cuesta.mm"(%a, %b) {route = "tensor cores 32x16x64/4/3 in 4 parts"} : (tensor<32x1024xf16>, tensor<1024x16xf16>) -> tensor<32x16xf16>
  return %0 : tensor<32x16xf16>
}

// Behind parts that begin aligned, the terms that are left are a product beside them.
// CHECK-LABEL: func.func @parts_and_a_rest
// CHECK: "cuesta.permute"(%{{.*}}) {dims = [1, 0, 2]} : (tensor<32x4x256xf16>) -> tensor<4x32x256xf16>
// CHECK: "cuesta.mm"({{.*}}) {product = "32x16x64/4/3"} : (tensor<4x32x256xf16>, tensor<4x256x16xf16>) -> tensor<4x32x16xf32>
// CHECK: %[[S:.*]] = "cuesta.sum"
// CHECK: %[[A:.*]] = "cuesta.slice"(%arg0) {starts = [0, 1024], {{.*}} -> tensor<32x7xf16>
// CHECK: %[[B:.*]] = "cuesta.slice"(%arg1) {starts = [1024, 0], {{.*}} -> tensor<7x16xf16>
// CHECK: %[[R:.*]] = "cuesta.mm"(%[[A]], %[[B]]) {product = "32x16x64/4/3"}
// CHECK: "cuesta.add"(%[[S]], %[[R]])
func.func @parts_and_a_rest(%a: tensor<32x1031xf16>, %b: tensor<1031x16xf16>) -> tensor<32x16xf16> {
  %0 = "cuesta.mm"(%a, %b) {route = "tensor cores 32x16x64/4/3 in 4 parts"} : (tensor<32x1031xf16>, tensor<1031x16xf16>) -> tensor<32x16xf16>
  return %0 : tensor<32x16xf16>
}

// Its rows are those of what follows, so that no reshape stands between.
// CHECK-LABEL: func.func @rows_of_a_batch
// CHECK: "cuesta.mm"(%{{.*}}, %{{.*}}) {product = "32x16x64/4/3"} : (tensor<2x16x64xbf16>, tensor<64x16xbf16>) -> tensor<2x16x16xf32>
func.func @rows_of_a_batch(%a: tensor<32x64xbf16>, %b: tensor<64x16xbf16>) -> tensor<2x16x16xbf16> {
  %0 = "cuesta.mm"(%a, %b) {route = "tensor cores 32x16x64/4/3"} : (tensor<32x64xbf16>, tensor<64x16xbf16>) -> tensor<32x16xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<32x16xbf16>) -> tensor<2x16x16xbf16>
  %2 = "cuesta.relu"(%1) : (tensor<2x16x16xbf16>) -> tensor<2x16x16xbf16>
  return %2 : tensor<2x16x16xbf16>
}

// Nobody computes with the view.
// CHECK-LABEL: func.func @rows_of_its_own
// CHECK: "cuesta.mm"(%{{.*}}, %{{.*}}) {product = "32x16x64/4/3"} : (tensor<32x64xbf16>, tensor<64x16xbf16>) -> tensor<32x16xf32>
func.func @rows_of_its_own(%a: tensor<32x64xbf16>, %b: tensor<64x16xbf16>) -> tensor<2x16x16xbf16> {
  %0 = "cuesta.mm"(%a, %b) {route = "tensor cores 32x16x64/4/3"} : (tensor<32x64xbf16>, tensor<64x16xbf16>) -> tensor<32x16xbf16>
  %1 = "cuesta.reshape"(%0) : (tensor<32x16xbf16>) -> tensor<2x16x16xbf16>
  return %1 : tensor<2x16x16xbf16>
}

// In panels it stays a product too; a bias is added behind it.
// CHECK-LABEL: func.func @panels
// CHECK-SAME: (%[[C:.*]]: tensor<40xf32>, %[[A:.*]]: tensor<32x64xf32>, %[[B:.*]]: tensor<64x40xf32>)
// CHECK-NEXT: %[[P:.*]] = "cuesta.mm"(%[[A]], %[[B]]) {product = "32x40x64 by 8x48"} : {{.*}} -> tensor<32x40xf32>
// CHECK-NEXT: %[[S:.*]] = "cuesta.add"(%[[P]], %[[C]])
// CHECK-NEXT: return %[[S]]
func.func @panels(%c: tensor<40xf32>, %a: tensor<32x64xf32>, %b: tensor<64x40xf32>) -> tensor<32x40xf32> {
  %0 = "cuesta.addmm"(%c, %a, %b) {beta = 1.0 : f64, alpha = 1.0 : f64, route = "panels 32x40x64 by 8x48"} : (tensor<40xf32>, tensor<32x64xf32>, tensor<64x40xf32>) -> tensor<32x40xf32>
  return %0 : tensor<32x40xf32>
}

// In panels a batch has the dims that it has in what follows.
// CHECK-LABEL: func.func @heads
// CHECK-SAME: (%[[A:.*]]: tensor<6x32x64xf32>, %[[B:.*]]: tensor<6x64x48xf32>, %[[M:.*]]: tensor<2x1x1x48xf32>)
// CHECK-DAG: %[[AH:.*]] = "cuesta.reshape"(%[[A]]) : (tensor<6x32x64xf32>) -> tensor<2x3x32x64xf32>
// CHECK-DAG: %[[BH:.*]] = "cuesta.reshape"(%[[B]]) : (tensor<6x64x48xf32>) -> tensor<2x3x64x48xf32>
// CHECK: %[[P:.*]] = "cuesta.mm"(%[[AH]], %[[BH]]) {product = "32x48x64 by 8x48"} : {{.*}} -> tensor<2x3x32x48xf32>
// CHECK: "cuesta.add"(%{{.*}}, %[[M]])
func.func @heads(%a: tensor<6x32x64xf32>, %b: tensor<6x64x48xf32>, %mask: tensor<2x1x1x48xf32>) -> tensor<2x3x32x48xf32> {
  %0 = "cuesta.mm"(%a, %b) {route = "panels 32x48x64 by 8x48"} : (tensor<6x32x64xf32>, tensor<6x64x48xf32>) -> tensor<6x32x48xf32>
  %1 = "cuesta.reshape"(%0) : (tensor<6x32x48xf32>) -> tensor<2x3x32x48xf32>
  %2 = "cuesta.add"(%1, %mask) : (tensor<2x3x32x48xf32>, tensor<2x1x1x48xf32>) -> tensor<2x3x32x48xf32>
  return %2 : tensor<2x3x32x48xf32>
}
