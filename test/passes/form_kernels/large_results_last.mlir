// RUN: cuesta-opt --pass-pipeline='builtin.module(form-kernels)' --split-input-file %s | filecheck %s

// The gradient of a weight from two rows holds 4 MB, and what it is made of 16 KB: it comes after what is saved for
// others has been given back. One of 512 rows would hold more of those until then; one that two others read cannot wait.
// CHECK-LABEL: func.func @graph
// CHECK-SAME: (%[[FEW:[^:]*]]: {{[^%]*}}%[[ROWS:[^:]*]]: {{[^%]*}}%[[MANY:[^:]*]]: {{[^%]*}}%[[OTHERS:[^:]*]]: {{[^%]*}}%[[READ:[^:]*]]: {{[^%]*}}%[[SAVED:[^:]*]]:
// CHECK: "host.aten"(%[[MANY]], %[[OTHERS]], %{{.*}}) {{.*}}aten.mm
// CHECK: "host.aten"(%[[FEW]], %[[READ]], %{{.*}}) {{.*}}aten.mm
// CHECK: "host.aten"(%{{.*}}) {{.*}}aten.relu
// CHECK: "host.aten"(%[[SAVED]]) {{.*}}aten.sinh
// CHECK: "host.aten"(%[[FEW]], %[[ROWS]], %{{.*}}) {{.*}}aten.mm
// CHECK-NEXT: return
func.func @graph(%few: tensor<1024x2xf32> {cuesta.strides = [1, 1024], cuesta.donated}, %rows: tensor<2x1024xf32> {cuesta.strides = [1024, 1], cuesta.donated},
    %many: tensor<1024x512xf32> {cuesta.strides = [1, 1024], cuesta.donated}, %others: tensor<512x1024xf32> {cuesta.strides = [1024, 1], cuesta.donated},
    %read: tensor<2x1024xf32> {cuesta.strides = [1024, 1], cuesta.donated}, %saved: tensor<64xf32> {cuesta.strides = [1], cuesta.donated})
    -> (tensor<1024x1024xf32> {cuesta.strides = [1024, 1]}, tensor<1024x1024xf32> {cuesta.strides = [1024, 1]}, tensor<1024x1024xf32> {cuesta.strides = [1024, 1]}, tensor<1024x1024xf32> {cuesta.strides = [1024, 1]}, tensor<64xf32> {cuesta.strides = [1]}) {
  %a = "aten.call"(%few, %rows) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "", dtypes = ["f32", "f32", "f32"], result_strides = [[1024, 1]]} : (tensor<1024x2xf32>, tensor<2x1024xf32>) -> tensor<1024x1024xf32>
  %b = "aten.call"(%many, %others) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "", dtypes = ["f32", "f32", "f32"], result_strides = [[1024, 1]]} : (tensor<1024x512xf32>, tensor<512x1024xf32>) -> tensor<1024x1024xf32>
  %c = "aten.call"(%few, %read) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "", dtypes = ["f32", "f32", "f32"], result_strides = [[1024, 1]]} : (tensor<1024x2xf32>, tensor<2x1024xf32>) -> tensor<1024x1024xf32>
  %d = "aten.call"(%c) {overload = "aten.relu.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1024, 1]]} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %e = "aten.call"(%c) {overload = "aten.tanh.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1024, 1]]} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %f = "aten.call"(%saved) {overload = "aten.sinh.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1]]} : (tensor<64xf32>) -> tensor<64xf32>
  return %a, %b, %d, %e, %f : tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<64xf32>
}

// -----

// Random numbers keep their order, and what is done by ops that are not ATen's.
// CHECK-LABEL: func.func @graph
// CHECK: aten.rand_like
// CHECK: aten.bernoulli
// CHECK: aten.relu
// CHECK-NEXT: return
func.func @graph(%x: tensor<1024x1024xf32> {cuesta.strides = [1024, 1]}, %y: tensor<64xf32> {cuesta.strides = [1]})
    -> (tensor<1024x1024xf32> {cuesta.strides = [1024, 1]}, tensor<1024x1024xf32> {cuesta.strides = [1024, 1]}, tensor<64xf32> {cuesta.strides = [1]}) {
  %r = "aten.call"(%x) {overload = "aten.relu.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1024, 1]]} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %a = "aten.call"(%x) {overload = "aten.rand_like.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1024, 1]]} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %b = "aten.call"(%y) {overload = "aten.bernoulli.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1]]} : (tensor<64xf32>) -> tensor<64xf32>
  return %r, %a, %b : tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<64xf32>
}

// -----

// A product waits with what alone needs it, through a view.
// CHECK-LABEL: func.func @graph
// CHECK-SAME: (%[[FEW:[^:]*]]: {{[^%]*}}%[[ROWS:[^:]*]]: {{[^%]*}}%[[SAVED:[^:]*]]:
// CHECK: "host.aten"(%[[SAVED]]) {{.*}}aten.sinh
// CHECK: "host.aten"(%[[FEW]], %[[ROWS]], %{{.*}}) {{.*}}aten.mm
// CHECK: "host.aten"({{.*}}) {{.*}}aten.relu
// CHECK-NEXT: return
func.func @graph(%few: tensor<1024x2xf32> {cuesta.strides = [1, 1024], cuesta.donated}, %rows: tensor<2x1024xf32> {cuesta.strides = [1024, 1], cuesta.donated}, %saved: tensor<64xf32> {cuesta.strides = [1], cuesta.donated})
    -> (tensor<1048576xf32> {cuesta.strides = [1]}, tensor<64xf32> {cuesta.strides = [1]}) {
  %a = "aten.call"(%few, %rows) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "", dtypes = ["f32", "f32", "f32"], result_strides = [[1024, 1]]} : (tensor<1024x2xf32>, tensor<2x1024xf32>) -> tensor<1024x1024xf32>
  %b = "cuesta.reshape"(%a) : (tensor<1024x1024xf32>) -> tensor<1048576xf32>
  %c = "aten.call"(%b) {overload = "aten.relu.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1]]} : (tensor<1048576xf32>) -> tensor<1048576xf32>
  %d = "aten.call"(%saved) {overload = "aten.sinh.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1]]} : (tensor<64xf32>) -> tensor<64xf32>
  return %c, %d : tensor<1048576xf32>, tensor<64xf32>
}
