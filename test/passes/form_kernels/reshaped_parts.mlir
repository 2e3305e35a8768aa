// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// Rows that are padded each, then all together: all is written where it stays.
// CHECK-LABEL: func.func @graph
// CHECK: %[[ALL:.*]] = "host.alloc"{{.*}} : () -> memref<1360xbf16>
// CHECK-NOT: "host.alloc"
// CHECK: "host.view"(%[[ALL]]) {offset = 0 : i64} : (memref<1360xbf16>) -> memref<8x16x9xbf16, strided<[170, 10, 1]>>
// CHECK: "host.view"(%[[ALL]]) {offset = 18 : i64} : (memref<1360xbf16>) -> memref<8x16xbf16, strided<[170, 10]>>
// CHECK: "host.view"(%[[ALL]]) {offset = 320 : i64} : (memref<1360xbf16>) -> memref<8x10xbf16, strided<[170, 1]>>
// CHECK: "host.view"(%[[ALL]]) {offset = 0 : i64} : (memref<1360xbf16>) -> memref<8x17x10xbf16>
func.func @graph(%x: tensor<8x16x9xbf16>) -> tensor<8x17x10xbf16> {
  %0 = "cuesta.exp"(%x) : (tensor<8x16x9xbf16>) -> tensor<8x16x9xbf16>
  %1 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<8x16x1xbf16>
  %2 = "cuesta.cat"(%0, %1) {dim = 2 : i64} : (tensor<8x16x9xbf16>, tensor<8x16x1xbf16>) -> tensor<8x16x10xbf16>
  %3 = "cuesta.reshape"(%2) : (tensor<8x16x10xbf16>) -> tensor<8x160xbf16>
  %4 = "cuesta.constant"() {value = 0.0 : f64} : () -> tensor<8x10xbf16>
  %5 = "cuesta.cat"(%3, %4) {dim = 1 : i64} : (tensor<8x160xbf16>, tensor<8x10xbf16>) -> tensor<8x170xbf16>
  %6 = "cuesta.reshape"(%5) : (tensor<8x170xbf16>) -> tensor<8x17x10xbf16>
  return %6 : tensor<8x17x10xbf16>
}
