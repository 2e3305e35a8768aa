// RUN: cuesta-opt --pass-pipeline='builtin.module(decompose,cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// The encoding is first read beside zeros, and long after beside what was made of it: it lies in the smaller buffer. The
// larger one, and the ones in it, are written when its other part is there.
// CHECK-LABEL: func.func @graph
// CHECK: %[[LARGE:.*]] = "host.alloc"() {{.*}} -> memref<5242880xf32>
// CHECK: %[[SMALL:.*]] = "host.alloc"() {{.*}} -> memref<1048576xf32>
// CHECK-NOT: "host.view"(%[[LARGE]])
// CHECK: "host.aten"{{.*}}aten.mm
// CHECK: "host.aten"{{.*}}aten.mm
// CHECK-DAG: %[[TO:.*]] = "host.view"(%[[LARGE]]) {offset = 256 : i64}
// CHECK-DAG: %[[FROM:.*]] = "host.view"(%[[SMALL]]) {offset = 0 : i64} {{.*}} -> memref<65536x15xf32
// CHECK: "host.launch"(%[[FROM]], %[[TO]])
// CHECK: "host.aten"{{.*}}aten.sinh
func.func @graph(%x: tensor<65536x8xf32> {cuesta.strides = [8, 1]}, %w: tensor<16x32xf32> {cuesta.strides = [32, 1]}, %v: tensor<32x64xf32> {cuesta.strides = [64, 1]}) -> (tensor<65536x80xf32> {cuesta.strides = [80, 1]}) {
  %zero = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<65536x1xf32>
  %0 = "cuesta.exp"(%x) : (tensor<65536x8xf32>) -> tensor<65536x8xf32> loc("exp"("m.py":1:1))
  %1 = "cuesta.slice"(%x) {starts = [0, 0], steps = [1, 1]} : (tensor<65536x8xf32>) -> tensor<65536x7xf32>
  %2 = "cuesta.sin"(%1) : (tensor<65536x7xf32>) -> tensor<65536x7xf32> loc("sin"("m.py":2:1))
  %enc = "cuesta.cat"(%0, %2) {dim = 1 : i64} : (tensor<65536x8xf32>, tensor<65536x7xf32>) -> tensor<65536x15xf32> loc("cat"("m.py":3:1))
  %padded = "cuesta.cat"(%enc, %zero) {dim = 1 : i64} : (tensor<65536x15xf32>, tensor<65536x1xf32>) -> tensor<65536x16xf32> loc("pad"("m.py":4:1))
  %3 = "aten.call"(%padded, %w) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[32, 1]]} : (tensor<65536x16xf32>, tensor<16x32xf32>) -> tensor<65536x32xf32> loc("mm"("m.py":5:1))
  %4 = "aten.call"(%3, %v) {args = "[\22%0\22, \22%1\22]", overload = "aten.mm.default", reason = "", result_strides = [[64, 1]]} : (tensor<65536x32xf32>, tensor<32x64xf32>) -> tensor<65536x64xf32> loc("mm"("m.py":6:1))
  %5 = "cuesta.relu"(%4) : (tensor<65536x64xf32>) -> tensor<65536x64xf32> loc("relu"("m.py":7:1))
  %last = "cuesta.constant"() {value = 1.0 : f64} : () -> tensor<65536x1xf32>
  %both = "cuesta.cat"(%5, %enc) {dim = 1 : i64} : (tensor<65536x64xf32>, tensor<65536x15xf32>) -> tensor<65536x79xf32> loc("cat"("m.py":8:1))
  %6 = "cuesta.cat"(%both, %last) {dim = 1 : i64} : (tensor<65536x79xf32>, tensor<65536x1xf32>) -> tensor<65536x80xf32> loc("pad"("m.py":8:1))
  %7 = "aten.call"(%6) {args = "[\22%0\22]", overload = "aten.sinh.default", reason = "", result_strides = [[80, 1]]} : (tensor<65536x80xf32>) -> tensor<65536x80xf32> loc("sinh"("m.py":9:1))
  return %7 : tensor<65536x80xf32>
}
