// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels)' %s | filecheck %s

// Where windows begin is computed from what an element's place is: again in each row, whose loops stay parallel.
// CHECK: func.func @starts_windows_sum(
// CHECK-SAME: cuesta.parallel = [0, 1], cuesta.sizes = [512, 255, 16]
// CHECK: func.func @graph
// CHECK: "host.launch"
// CHECK-NOT: "host.launch"
func.func @graph(%x: tensor<512x2048xf32> {cuesta.strides = [2048, 1]}) -> (tensor<512x255xf32> {cuesta.strides = [255, 1]}) {
  %0 = "cuesta.iota"() {start = 0 : i64, step = 8 : i64} : () -> tensor<255xi64>
  %1 = "cuesta.reshape"(%0) : (tensor<255xi64>) -> tensor<255x1xi64>
  %2 = "cuesta.iota"() {start = 0 : i64, step = 1 : i64} : () -> tensor<16xi64>
  %3 = "cuesta.add"(%1, %2) : (tensor<255x1xi64>, tensor<16xi64>) -> tensor<255x16xi64> loc("starts"("m.py":1:1))
  %4 = "cuesta.index"(%x, %3) {dims = [1], in_range} : (tensor<512x2048xf32>, tensor<255x16xi64>) -> tensor<512x255x16xf32> loc("windows"("m.py":1:1))
  %5 = "cuesta.sum"(%4) {dims = [2], keepdim = 0 : i64} : (tensor<512x255x16xf32>) -> tensor<512x255xf32> loc("sum"("m.py":2:1))
  return %5 : tensor<512x255xf32>
}

// CHECK: // -----
// -----

// Many positions are checked where they are read: what the rows say of theirs is put together behind the tiles.
// CHECK: func.func @gather
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: tensor.extract
// CHECK: cuesta.tail
// CHECK: func.func @graph
// CHECK: "host.launch"
// CHECK: "host.check"
// CHECK-NOT: "host.launch"
func.func @graph(%x: tensor<256x256xf32> {cuesta.strides = [256, 1]}, %i: tensor<256x256xi64> {cuesta.strides = [256, 1]})
    -> (tensor<256x256xf32> {cuesta.strides = [256, 1]}) {
  %0 = "cuesta.gather"(%x, %i) {dim = 1 : i64} : (tensor<256x256xf32>, tensor<256x256xi64>) -> tensor<256x256xf32> loc("gather"("m.py":1:1))
  return %0 : tensor<256x256xf32>
}
