// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(check-operands)' %s | filecheck %s

// A launch says how many bytes each of its operands reaches over, with the gaps between rows; of no elements 0.
// CHECK: module attributes {cuesta.checked
// CHECK-LABEL: func.func @graph(
// CHECK: "host.launch"({{.*}}) {extents = [116, 64, 0], kernel = @kernels::@k
func.func @graph(%x: memref<8x4xf32>, %none: memref<0x4xf32>) -> memref<4x4xf32> {
  %v = "host.view"(%x) {offset = 8} : (memref<8x4xf32>) -> memref<4x1xf32, strided<[8, 1]>>
  %w = "host.view"(%v) {offset = 4} : (memref<4x1xf32, strided<[8, 1]>>) -> memref<4x2xf32, strided<[9, 1]>>
  %y = "host.alloc"() {owner = "caller"} : () -> memref<4x4xf32>
  "host.launch"(%w, %y, %none) {kernel = @kernels::@k, outputs = 2} : (memref<4x2xf32, strided<[9, 1]>>, memref<4x4xf32>, memref<0x4xf32>) -> ()
  return %y : memref<4x4xf32>
}

// -----

// Bytes that depend on the call are spelled; whether they lie in their memory, the runtime looks.
// CHECK-LABEL: func.func @graph(
// CHECK: "host.launch"({{.*}}) {extents = ["16*s0", "16*s0 + 16"], kernel = @kernels::@k
func.func @graph(%x: memref<?x4xf32, {at = ["s0"]}>) -> memref<?x4xf32, {at = ["s0 + 1"]}> {
  %y = "host.alloc"() {owner = "caller"} : () -> memref<?x4xf32, {at = ["s0 + 1"]}>
  "host.launch"(%x, %y) {kernel = @kernels::@k, outputs = 1} : (memref<?x4xf32, {at = ["s0"]}>, memref<?x4xf32, {at = ["s0 + 1"]}>) -> ()
  return %y : memref<?x4xf32, {at = ["s0 + 1"]}>
}
