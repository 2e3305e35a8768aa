// RUN: cuesta-opt --pass-pipeline='builtin.module(decompose,cuesta-to-linalg,form-kernels)' %s | filecheck %s

// 8 MB of numbers made of nothing are written where a view of them is first needed, so that they are not in memory
// before.
// CHECK-LABEL: func.func @graph
// CHECK: "host.aten"(%arg0) {{.*}}aten.sinh
// CHECK: "host.launch"(%[[MADE:.*]]) {{.*}} : (memref<1048576xi64>)
// CHECK: %[[SQUARE:.*]] = "host.view"(%[[MADE]])
// CHECK: "host.aten"(%[[SQUARE]]) {{.*}}aten.sum
// CHECK: "host.aten"(%arg0) {{.*}}aten.cosh
func.func @graph(%x: tensor<64xf32> {cuesta.strides = [1]})
    -> (tensor<64xf32> {cuesta.strides = [1]}, tensor<i64> {cuesta.strides = []}, tensor<64xf32> {cuesta.strides = [1]}) {
  %many = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<1048576xi64>
  %square = "cuesta.reshape"(%many) : (tensor<1048576xi64>) -> tensor<1024x1024xi64>
  %a = "aten.call"(%x) {overload = "aten.sinh.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1]]} : (tensor<64xf32>) -> tensor<64xf32>
  %b = "aten.call"(%square) {overload = "aten.sum.default", args = "[\"%0\"]", reason = "", dtypes = ["i64", "i64"], result_strides = [[]]} : (tensor<1024x1024xi64>) -> tensor<i64>
  %c = "aten.call"(%x) {overload = "aten.cosh.default", args = "[\"%0\"]", reason = "", dtypes = ["f32", "f32"], result_strides = [[1]]} : (tensor<64xf32>) -> tensor<64xf32>
  return %a, %b, %c : tensor<64xf32>, tensor<i64>, tensor<64xf32>
}
