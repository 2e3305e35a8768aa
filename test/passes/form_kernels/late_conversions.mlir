// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// The kernel behind the call reads what is narrow and widens it: the kernel before it need not write it wide.
// CHECK: func.func @graph(%[[X:[^:]*]]:
// CHECK: "host.launch"(%[[X]], %[[N:.*]]) {{.*}}ops = ["neg"], outputs = 1
// CHECK: "host.aten"
// CHECK: "host.launch"({{.*}}%[[N]]{{.*}}) {{.*}}ops = ["to_copy", "add"], outputs = 1 : i64} : (memref<4096xbf16>, memref<4096xf32>, memref<4096xf32>)
func.func @graph(%x: tensor<4096xbf16> {cuesta.strides = [1]}) -> (tensor<4096xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.neg"(%x) : (tensor<4096xbf16>) -> tensor<4096xbf16> loc("neg"("m.py":1:1))
  %1 = "cuesta.convert"(%0) : (tensor<4096xbf16>) -> tensor<4096xf32> loc("to_copy"("m.py":2:1))
  %2 = "aten.call"(%0) {args = "[\22%0\22, 0, {\22kwargs\22: {\22dtype\22: {\22dtype\22: \22float32\22}}}]", overload = "aten.cumsum.default", reason = "", result_strides = [[1]]} : (tensor<4096xbf16>) -> tensor<4096xf32>
  %3 = "cuesta.add"(%1, %2) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32> loc("add"("m.py":3:1))
  return %3 : tensor<4096xf32>
}
