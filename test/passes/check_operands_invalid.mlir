// RUN: cuesta-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(check-operands)' %s

// What a buffer in the arena has is its own memory alone, not that of the arena.
func.func @graph() -> memref<4xf32> {
  %arena = "host.arena"() : () -> memref<256xi8>
  %a = "host.view"(%arena) {offset = 64} : (memref<256xi8>) -> memref<4xf32>
  %b = "host.view"(%a) {offset = 4} : (memref<4xf32>) -> memref<4xf32>
  %y = "host.alloc"() {owner = "caller"} : () -> memref<4xf32>
  // expected-error @+1 {{operand 0 of kernel k takes the bytes from 4 to 20 of a buffer in the arena, which has 16}}
  "host.launch"(%b, %y) {kernel = @kernels::@k, outputs = 1} : (memref<4xf32>, memref<4xf32>) -> ()
  return %y : memref<4xf32>
}

// -----

// Of sizes that depend on the call, a difference may be a number.
func.func @graph(%x: memref<?xf32, {at = ["s0"]}>) -> memref<?xf32, {at = ["s0"]}> {
  %v = "host.view"(%x) {offset = 0} : (memref<?xf32, {at = ["s0"]}>) -> memref<?xf32, {at = ["s0 + 2"]}>
  %y = "host.alloc"() {owner = "caller"} : () -> memref<?xf32, {at = ["s0"]}>
  // expected-error @+1 {{operand 0 of kernel k takes the bytes from 0 to 4*s0 + 8 of argument 0, which has 4*s0}}
  "host.launch"(%v, %y) {kernel = @kernels::@k, outputs = 1} : (memref<?xf32, {at = ["s0 + 2"]}>, memref<?xf32, {at = ["s0"]}>) -> ()
  return %y : memref<?xf32, {at = ["s0"]}>
}

// -----

// A call into ATen, and what is returned.
func.func @graph(%x: memref<4x4xf32>, %y: memref<4x4xf32>) -> memref<4x4xf32> {
  %v = "host.view"(%x) {offset = -4} : (memref<4x4xf32>) -> memref<4x4xf32>
  // expected-error @+1 {{operand 0 of aten.mm.default takes the bytes from -4 to 60 of argument 0, which has 64}}
  "host.aten"(%v, %v, %y) {overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", dtypes = ["f32", "f32", "f32"], reason = "", route = "out"} : (memref<4x4xf32>, memref<4x4xf32>, memref<4x4xf32>) -> ()
  return %y : memref<4x4xf32>
}

// -----

func.func @graph(%x: memref<4x4xf32>) -> memref<4xf32, strided<[5]>> {
  %v = "host.view"(%x) {offset = 4} : (memref<4x4xf32>) -> memref<4xf32, strided<[5]>>
  // expected-error @+1 {{result 0 takes the bytes from 4 to 68 of argument 0, which has 64}}
  return %v : memref<4xf32, strided<[5]>>
}
