// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// Counters that arguments alone decide are one kernel, on a GPU; a number that a call gives is another's.
// CHECK: func.func @graph(%{{.*}}: memref<8xf32> {{.*}}, %[[A:.*]]: memref<i64> {{.*}}, %[[B:.*]]: memref<i64> {
// CHECK: "host.launch"(%[[A]], %[[B]]) {{.*}}outputs = 2
// CHECK: "host.aten"
// CHECK: "host.launch"{{.*}}outputs = 1
// CHECK-NOT: "host.launch"
func.func @graph(%x: tensor<8xf32> {cuesta.strides = [1]}, %a: tensor<i64> {cuesta.strides = []}, %b: tensor<i64> {cuesta.strides = []}) -> (tensor<f32> {cuesta.strides = []}, tensor<i64> {cuesta.strides = []}, tensor<i64> {cuesta.strides = []}) attributes {cuesta.mutates = [1, 2]} {
  %one = "cuesta.constant"() {value = 1 : i64} : () -> tensor<i64>
  %0 = "cuesta.add"(%a, %one) : (tensor<i64>, tensor<i64>) -> tensor<i64> loc("add"("m.py":1:1))
  %1 = "aten.call"(%x) {args = "[\22%0\22]", overload = "aten.linalg_vector_norm.default", reason = "", result_strides = [[]]} : (tensor<8xf32>) -> tensor<f32>
  %2 = "cuesta.exp"(%1) : (tensor<f32>) -> tensor<f32> loc("exp"("m.py":2:1))
  %3 = "cuesta.add"(%b, %one) : (tensor<i64>, tensor<i64>) -> tensor<i64> loc("add"("m.py":3:1))
  return %2, %0, %3 : tensor<f32>, tensor<i64>, tensor<i64>
}
