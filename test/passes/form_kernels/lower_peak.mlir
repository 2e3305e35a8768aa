// RUN: cuesta-opt --pass-pipeline='builtin.module(form-kernels)' --split-input-file %s | filecheck %s --check-prefix=USUAL
// RUN: cuesta-opt --pass-pipeline='builtin.module(form-kernels{lower-peak=true})' --split-input-file %s | filecheck %s

// What is made of %x is let go of before there is anything of %y.
// USUAL-LABEL: func.func @graph
// USUAL-SAME: (%[[X:[^:]*]]: {{[^%]*}}%[[Y:[^:]*]]:
// USUAL: "host.aten"(%[[X]]) {{.*}}aten.sinh
// USUAL: "host.aten"(%[[Y]]) {{.*}}aten.cosh
// CHECK-LABEL: func.func @graph
// CHECK-SAME: (%[[X:[^:]*]]: {{[^%]*}}%[[Y:[^:]*]]:
// CHECK: %[[A:.*]] = "host.aten"(%[[X]]) {{.*}}aten.sinh
// CHECK: "host.aten"(%[[A]]) {{.*}}aten.sum
// CHECK: "host.aten"(%[[Y]]) {{.*}}aten.cosh
func.func @graph(%x: tensor<64xf32> {cuesta.strides = [1]}, %y: tensor<64xf32> {cuesta.strides = [1]})
    -> (tensor<f32> {cuesta.strides = []}, tensor<f32> {cuesta.strides = []}) {
  %a = "aten.call"(%x) {overload = "aten.sinh.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1]]} : (tensor<64xf32>) -> tensor<64xf32>
  %b = "aten.call"(%y) {overload = "aten.cosh.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1]]} : (tensor<64xf32>) -> tensor<64xf32>
  %c = "aten.call"(%a) {overload = "aten.sum.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[]]} : (tensor<64xf32>) -> tensor<f32>
  %d = "aten.call"(%b) {overload = "aten.prod.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[]]} : (tensor<64xf32>) -> tensor<f32>
  return %c, %d : tensor<f32>, tensor<f32>
}

// -----

// What follows a check stays behind it (what comes before costs memory, and comes as late as it may); draws from the generator keep their order.
// CHECK-LABEL: func.func @graph
// CHECK-SAME: (%[[X:[^:]*]]: {{[^%]*}}%[[Y:[^:]*]]:
// CHECK: "host.check"
// CHECK: "host.aten"(%[[X]]) {{.*}}aten.sinh
// CHECK: "host.aten"(%[[Y]]) {{.*}}aten.rand_like
// CHECK: "host.aten"(%[[X]]) {{.*}}aten.bernoulli
func.func @graph(%x: tensor<64xf32> {cuesta.strides = [1]}, %y: tensor<64xf32> {cuesta.strides = [1]},
    %bad: tensor<i8> {cuesta.strides = []})
    -> (tensor<f32> {cuesta.strides = []}, tensor<f32> {cuesta.strides = []}, tensor<64xf32> {cuesta.strides = [1]}) {
  %a = "aten.call"(%x) {overload = "aten.sinh.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1]]} : (tensor<64xf32>) -> tensor<64xf32>
  "host.check"(%bad) {message = "out of range"} : (tensor<i8>) -> ()
  %b = "aten.call"(%y) {overload = "aten.rand_like.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1]]} : (tensor<64xf32>) -> tensor<64xf32>
  %r = "aten.call"(%x) {overload = "aten.bernoulli.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1]]} : (tensor<64xf32>) -> tensor<64xf32>
  %c = "aten.call"(%a) {overload = "aten.sum.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[]]} : (tensor<64xf32>) -> tensor<f32>
  %d = "aten.call"(%b) {overload = "aten.prod.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[]]} : (tensor<64xf32>) -> tensor<f32>
  return %c, %d, %r : tensor<f32>, tensor<f32>, tensor<64xf32>
}
