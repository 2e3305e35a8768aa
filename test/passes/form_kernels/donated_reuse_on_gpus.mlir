// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// What only the function needs lies in a donated argument on a GPU.
// CHECK: func.func @graph(%[[SAVED:[^:]*]]:
// CHECK-NOT: "host.alloc"
// CHECK: %[[S:.*]] = "host.view"(%[[SAVED]]) {offset = 0 : i64} : (memref<128x128xf32>) -> memref<16384xf32>
// CHECK-NEXT: "host.launch"(%[[S]]) {{.*}}outputs = 1 : i64
// CHECK: "host.aten"(%[[SAVED]], %[[SAVED]], %{{.*}})
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.donated})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %0 = "cuesta.exp"(%saved) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %m = "aten.call"(%0, %0) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "library", dtypes = ["f32", "f32", "f32"], result_strides = [[128, 1]]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %m : tensor<128x128xf32>
}

// CHECK: // -----
// -----

// So does a padded tensor whose elements are where the argument's were: the padding is written after them.
// CHECK: func.func @graph(%[[SAVED:[^:]*]]:
// CHECK-NOT: "host.alloc"
// CHECK: %[[S:.*]] = "host.view"(%[[SAVED]]) {offset = 0 : i64} : (memref<128x128xf32>) -> memref<128x100xf32, strided<[128, 1]>>
// CHECK-NEXT: "host.launch"(%[[S]]) {{.*}}outputs = 1 : i64
// CHECK: "host.view"(%[[SAVED]]) {offset = 400 : i64}
// CHECK: "host.aten"(%[[SAVED]], %[[SAVED]], %{{.*}})
func.func @graph(%saved: tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.donated})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}) {
  %s = "cuesta.slice"(%saved) {starts = [0, 0], steps = [1, 1]} : (tensor<128x128xf32>) -> tensor<128x100xf32>
  %0 = "cuesta.exp"(%s) : (tensor<128x100xf32>) -> tensor<128x100xf32>
  %z = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<f32>
  %e = "cuesta.expand"(%z) : (tensor<f32>) -> tensor<128x28xf32>
  %c = "cuesta.cat"(%0, %e) {dim = 1 : i64} : (tensor<128x100xf32>, tensor<128x28xf32>) -> tensor<128x128xf32>
  %m = "aten.call"(%c, %c) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "library", dtypes = ["f32", "f32", "f32"], result_strides = [[128, 1]]} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %m : tensor<128x128xf32>
}

// CHECK: // -----
// -----

// And what the kernel sums down the columns, too, as a bias's gradient is summed.
// CHECK: func.func @graph(%[[SAVED:[^:]*]]:
// CHECK: "host.launch"(%[[SAVED]], %{{.*}}) {{.*}}outputs = 2 : i64
// CHECK: "host.aten"(%[[SAVED]], %[[SAVED]], %{{.*}})
func.func @graph(%saved: tensor<128x4096xf32> {cuesta.strides = [4096, 1], cuesta.donated})
    -> (tensor<128x128xf32> {cuesta.strides = [128, 1], cuesta.storage = 9 : i64}, tensor<4096xf32> {cuesta.strides = [1], cuesta.storage = 10 : i64}) {
  %0 = "cuesta.exp"(%saved) : (tensor<128x4096xf32>) -> tensor<128x4096xf32>
  %t = "cuesta.sum"(%0) {dims = [0], keepdim = false} : (tensor<128x4096xf32>) -> tensor<4096xf32>
  %m = "aten.call"(%0, %0) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "library", dtypes = ["f32", "f32", "f32"], result_strides = [[128, 1]]} : (tensor<128x4096xf32>, tensor<128x4096xf32>) -> tensor<128x128xf32>
  return %m, %t : tensor<128x128xf32>, tensor<4096xf32>
}
