// RUN: cuesta-opt --pass-pipeline='builtin.module(keep-groups,fold-views)' %s | filecheck %s

// What follows a norm over groups is computed with the groups' dims: scale and residual are viewed with them.
// CHECK-LABEL: func.func @group_norm
// CHECK-SAME: (%[[X:.*]]: tensor<8x32x4x16x16xf32>, %[[RSTD:.*]]: tensor<8x32x1x1x1xf32>, %[[W:.*]]: tensor<128xbf16>, %[[R:.*]]: tensor<8x128x16x16xf32>)
// CHECK: %[[Y:.*]] = "cuesta.mul"(%[[X]], %[[RSTD]])
// CHECK: %[[SCALE:.*]] = "cuesta.reshape"(%[[W]]) : (tensor<128xbf16>) -> tensor<1x32x4x1x1xbf16>
// CHECK: %[[WIDE:.*]] = "cuesta.convert"(%[[SCALE]])
// CHECK: %[[SCALED:.*]] = "cuesta.mul"(%[[Y]], %[[WIDE]]) : {{.*}} -> tensor<8x32x4x16x16xf32>
// CHECK: %[[GATE:.*]] = "cuesta.silu"(%[[SCALED]])
// CHECK: %[[RESIDUAL:.*]] = "cuesta.reshape"(%[[R]])
// CHECK: %[[SUM:.*]] = "cuesta.add"(%[[GATE]], %[[RESIDUAL]]) : {{.*}} -> tensor<8x32x4x16x16xf32>
// CHECK: %[[RESULT:.*]] = "cuesta.reshape"(%[[SUM]]) : {{.*}} -> tensor<8x128x16x16xf32>
// CHECK: return %[[RESULT]]
func.func @group_norm(%x: tensor<8x32x4x16x16xf32>, %rstd: tensor<8x32x1x1x1xf32>, %w: tensor<128xbf16>, %r: tensor<8x128x16x16xf32>) -> tensor<8x128x16x16xf32> {
  %y = "cuesta.mul"(%x, %rstd) : (tensor<8x32x4x16x16xf32>, tensor<8x32x1x1x1xf32>) -> tensor<8x32x4x16x16xf32>
  %images = "cuesta.reshape"(%y) : (tensor<8x32x4x16x16xf32>) -> tensor<8x128x16x16xf32>
  %narrow = "cuesta.reshape"(%w) : (tensor<128xbf16>) -> tensor<1x128x1x1xbf16>
  %scale = "cuesta.convert"(%narrow) : (tensor<1x128x1x1xbf16>) -> tensor<1x128x1x1xf32>
  %scaled = "cuesta.mul"(%images, %scale) : (tensor<8x128x16x16xf32>, tensor<1x128x1x1xf32>) -> tensor<8x128x16x16xf32>
  %gate = "cuesta.silu"(%scaled) : (tensor<8x128x16x16xf32>) -> tensor<8x128x16x16xf32>
  %sum = "cuesta.add"(%gate, %r) : (tensor<8x128x16x16xf32>, tensor<8x128x16x16xf32>) -> tensor<8x128x16x16xf32>
  return %sum : tensor<8x128x16x16xf32>
}

// A reshape that parts dims, or one that hoist-reshapes can move up, stays where it is.
// CHECK-LABEL: func.func @others
// CHECK: "cuesta.mul"
// CHECK-NEXT: %[[PARTED:.*]] = "cuesta.reshape"
// CHECK-NEXT: "cuesta.silu"(%[[PARTED]])
// CHECK: "cuesta.exp"
// CHECK-NEXT: %[[MERGED:.*]] = "cuesta.reshape"
// CHECK-NEXT: "cuesta.silu"(%[[MERGED]])
func.func @others(%x: tensor<8x32x4x256xf32>, %rstd: tensor<8x32x1x1xf32>) -> (tensor<8x128x16x16xf32>, tensor<8x128x256xf32>) {
  %y = "cuesta.mul"(%x, %rstd) : (tensor<8x32x4x256xf32>, tensor<8x32x1x1xf32>) -> tensor<8x32x4x256xf32>
  %images = "cuesta.reshape"(%y) : (tensor<8x32x4x256xf32>) -> tensor<8x128x16x16xf32>
  %gate = "cuesta.silu"(%images) : (tensor<8x128x16x16xf32>) -> tensor<8x128x16x16xf32>
  %e = "cuesta.exp"(%x) : (tensor<8x32x4x256xf32>) -> tensor<8x32x4x256xf32>
  %rows = "cuesta.reshape"(%e) : (tensor<8x32x4x256xf32>) -> tensor<8x128x256xf32>
  %other = "cuesta.silu"(%rows) : (tensor<8x128x256xf32>) -> tensor<8x128x256xf32>
  return %gate, %other : tensor<8x128x16x16xf32>, tensor<8x128x256xf32>
}
