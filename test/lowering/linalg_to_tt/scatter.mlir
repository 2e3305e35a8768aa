// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt)' %s | filecheck %s

// What meets in one place is added up by atomic ops, masked where the block ends beyond the tensor; positions are clamped
// before they are narrowed.
// CHECK-LABEL: "tt.func"
// CHECK: sym_name = "copy"
// CHECK-LABEL: "tt.func"
// CHECK: ^bb0(%[[V:.*]]: !tt.ptr<f32>, %[[I:.*]]: !tt.ptr<i64>, %[[X:.*]]: !tt.ptr<f32>):
// CHECK: %[[VALUE:.*]] = "tt.load"{{.*}} -> tensor<{{.*}}xf32>
// CHECK: math.exp %[[VALUE]]
// CHECK: %[[LAST:.*]] = arith.constant dense<999> : tensor<{{.*}}xi64>
// CHECK: %[[LOW:.*]] = arith.minsi %{{.*}}, %[[LAST]]
// CHECK: %[[AT:.*]] = arith.maxsi %[[LOW]]
// CHECK: arith.trunci %[[AT]] : tensor<{{.*}}xi64> to tensor<{{.*}}xi32>
// CHECK: %[[P:.*]] = "tt.splat"(%[[X]])
// CHECK: %[[PLACE:.*]] = "tt.addptr"(%[[P]]
// CHECK: "tt.atomic_rmw"(%[[PLACE]], %{{.*}}, %{{.*}}) {atomic_rmw_op = 5 : i32
func.func @graph(%x: tensor<1000x100xf32> {cuesta.strides = [100, 1]}, %i: tensor<333xi64> {cuesta.strides = [1]}, %v: tensor<333x100xf32> {cuesta.strides = [100, 1]}) -> (tensor<1000x100xf32> {cuesta.strides = [100, 1]}) {
  %0 = "cuesta.exp"(%v) : (tensor<333x100xf32>) -> tensor<333x100xf32>
  %1 = "cuesta.reshape"(%i) : (tensor<333xi64>) -> tensor<333x1xi64>
  %2 = "cuesta.expand"(%1) : (tensor<333x1xi64>) -> tensor<333x100xi64>
  %3 = "cuesta.scatter"(%x, %0, %2) {walks = [-1, 1], combine = "add"} : (tensor<1000x100xf32>, tensor<333x100xf32>, tensor<333x100xi64>) -> tensor<1000x100xf32>
  return %3 : tensor<1000x100xf32>
}

// -----
// What takes another's place is stored.
// CHECK-LABEL: "tt.func"
// CHECK: sym_name = "copy"
// CHECK-LABEL: "tt.func"
// CHECK-NOT: tt.atomic_rmw
// CHECK: "tt.store"
func.func @graph(%x: tensor<1000xf32> {cuesta.strides = [1]}, %i: tensor<333xi64> {cuesta.strides = [1]}, %v: tensor<333xf32> {cuesta.strides = [1]}) -> (tensor<1000xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.scatter"(%x, %v, %i) {walks = [-1], combine = "set", wraps} : (tensor<1000xf32>, tensor<333xf32>, tensor<333xi64>) -> tensor<1000xf32>
  return %0 : tensor<1000xf32>
}

// -----
// Many rows that are read and added at computed positions: blocks of 2048 elements, as a GPU starts about one block in a
// nanosecond. Both positions are loaded before the rows, for which a program waits longest.
// CHECK-LABEL: sym_name = "copy"
// CHECK: ^bb0(%[[J:.*]]: !tt.ptr<i64>, %[[I:.*]]: !tt.ptr<i64>, %[[ROWS:.*]]: !tt.ptr<f32>, %[[X:.*]]: !tt.ptr<f32>):
// CHECK: "tt.splat"(%[[I]])
// CHECK: "tt.load"{{.*}} -> tensor<32x1xi64>
// CHECK: "tt.splat"(%[[J]])
// CHECK: "tt.load"{{.*}} -> tensor<32x1xi64>
// CHECK: "tt.splat"(%[[ROWS]])
// CHECK: "tt.load"{{.*}} -> tensor<32x64xf32>
// CHECK-NOT: "tt.load"
// CHECK: "tt.atomic_rmw"
func.func @graph(%x: tensor<1000x64xf32> {cuesta.strides = [64, 1]}, %i: tensor<65536xi64> {cuesta.strides = [1]}, %j: tensor<65536xi64> {cuesta.strides = [1]}, %rows: tensor<1000x64xf32> {cuesta.strides = [64, 1]}) -> (tensor<1000x64xf32> {cuesta.strides = [64, 1]}) {
  %0 = "cuesta.index"(%rows, %j) {dims = [0], from_zero} : (tensor<1000x64xf32>, tensor<65536xi64>) -> tensor<65536x64xf32>
  %1 = "cuesta.reshape"(%i) : (tensor<65536xi64>) -> tensor<65536x1xi64>
  %2 = "cuesta.expand"(%1) : (tensor<65536x1xi64>) -> tensor<65536x64xi64>
  %3 = "cuesta.scatter"(%x, %0, %2) {walks = [-1, 1], combine = "add"} : (tensor<1000x64xf32>, tensor<65536x64xf32>, tensor<65536x64xi64>) -> tensor<1000x64xf32>
  return %3 : tensor<1000x64xf32>
}
