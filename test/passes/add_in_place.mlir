// RUN: cuesta-opt --pass-pipeline='builtin.module(add-in-place)' %s | filecheck %s

!image = memref<2x8x4x4xf32, strided<[128, 1, 32, 8]>>

// What a call made and what a kernel wrote are written over, one after the other; what is returned may be a call's.
// CHECK-LABEL: func.func @sums
// CHECK-SAME: (%[[X:.*]]: memref<2x8x4x4xf32, strided<[128, 1, 32, 8]>>, %[[HELD:.*]]: memref<2xi64>)
// CHECK: %[[FIRST:.*]] = "host.aten"(%[[X]], %[[HELD]]) {{.*}} overload = "cuesta.packed_convolution.default"
// CHECK-NEXT: "host.aten"(%[[X]], %[[FIRST]], %[[HELD]]) {{{.*}} dtypes = ["f32", "f32", "i64"], overload = "cuesta.packed_convolution_add_.default"{{.*}} -> ()
// CHECK: %[[VIEW:.*]] = "host.view"
// CHECK-NEXT: "host.launch"(%[[FIRST]], %[[VIEW]])
// CHECK-NEXT: "host.aten"(%[[FIRST]], %[[VIEW]], %[[HELD]]) {{{.*}}_add_.default"
// CHECK-NEXT: "host.aten"(%[[VIEW]], %[[FIRST]], %[[HELD]]) {{{.*}}_add_.default"
// CHECK-NEXT: return %[[FIRST]]
func.func @sums(%x: !image, %held: memref<2xi64>) -> !image {
  %first = "host.aten"(%x, %held) {overload = "cuesta.packed_convolution.default", args = "[\22%0\22, \22%1\22, true, [8, 8, 1, 1], [0, 0], [1, 1], [1, 1], 1, {\22str\22: \22none\22}, false]", dtypes = ["f32", "i64", "f32"], reason = "", route = "shim"} : (!image, memref<2xi64>) -> !image
  %second = "host.aten"(%x, %first, %held) {overload = "cuesta.packed_convolution_add.default", args = "[\22%0\22, \22%1\22, \22%2\22, true, [8, 8, 1, 1], [0, 0], [1, 1], [1, 1], 1, {\22str\22: \22relu\22}, false]", dtypes = ["f32", "f32", "i64", "f32"], reason = "", route = "shim"} : (!image, !image, memref<2xi64>) -> !image
  %buffer = "host.alloc"() {owner = "plan"} : () -> memref<256xf32>
  %view = "host.view"(%buffer) {offset = 0} : (memref<256xf32>) -> !image
  "host.launch"(%second, %view) {kernel = @kernels::@k, outputs = 1} : (!image, !image) -> ()
  %third = "host.aten"(%second, %view, %held) {overload = "cuesta.packed_convolution_add.default", args = "[\22%0\22, \22%1\22, \22%2\22, true, [8, 8, 1, 1], [0, 0], [1, 1], [1, 1], 1, {\22str\22: \22relu\22}, false]", dtypes = ["f32", "f32", "i64", "f32"], reason = "", route = "shim"} : (!image, !image, memref<2xi64>) -> !image
  %fourth = "host.aten"(%third, %second, %held) {overload = "cuesta.packed_convolution_add.default", args = "[\22%0\22, \22%1\22, \22%2\22, true, [8, 8, 1, 1], [0, 0], [1, 1], [1, 1], 1, {\22str\22: \22relu\22}, false]", dtypes = ["f32", "f32", "i64", "f32"], reason = "", route = "shim"} : (!image, !image, memref<2xi64>) -> !image
  return %fourth : !image
}

// Not an argument, which is the caller's; not what a call in Python returned, which may be one of its arguments; not
// what the convolution itself reads; not what is read later, through a view; and what is returned takes no buffer.
// CHECK-LABEL: func.func @leaves_alone
// CHECK-NOT: _add_.default
// CHECK: return
func.func @leaves_alone(%x: !image, %held: memref<2xi64>) -> (!image, !image, memref<256xf32>, !image, !image) {
  %argument = "host.aten"(%x, %x, %held) {overload = "cuesta.packed_convolution_add.default", args = "[\22%0\22, \22%1\22, \22%2\22, true, [8, 8, 1, 1], [0, 0], [1, 1], [1, 1], 1, {\22str\22: \22relu\22}, false]", dtypes = ["f32", "f32", "i64", "f32"], reason = "", route = "shim"} : (!image, !image, memref<2xi64>) -> !image
  %python = "host.aten"(%x) {overload = "aten.relu.default", args = "[\22%0\22]", dtypes = ["f32", "f32"], reason = "", route = "python"} : (!image) -> !image
  %second = "host.aten"(%x, %python, %held) {overload = "cuesta.packed_convolution_add.default", args = "[\22%0\22, \22%1\22, \22%2\22, true, [8, 8, 1, 1], [0, 0], [1, 1], [1, 1], 1, {\22str\22: \22relu\22}, false]", dtypes = ["f32", "f32", "i64", "f32"], reason = "", route = "shim"} : (!image, !image, memref<2xi64>) -> !image
  %own = "host.aten"(%second, %second, %held) {overload = "cuesta.packed_convolution_add.default", args = "[\22%0\22, \22%1\22, \22%2\22, true, [8, 8, 1, 1], [0, 0], [1, 1], [1, 1], 1, {\22str\22: \22relu\22}, false]", dtypes = ["f32", "f32", "i64", "f32"], reason = "", route = "shim"} : (!image, !image, memref<2xi64>) -> !image
  %later = "host.aten"(%x, %own, %held) {overload = "cuesta.packed_convolution_add.default", args = "[\22%0\22, \22%1\22, \22%2\22, true, [8, 8, 1, 1], [0, 0], [1, 1], [1, 1], 1, {\22str\22: \22relu\22}, false]", dtypes = ["f32", "f32", "i64", "f32"], reason = "", route = "shim"} : (!image, !image, memref<2xi64>) -> !image
  %flat = "host.view"(%own) {offset = 0} : (!image) -> memref<256xf32>
  %buffer = "host.alloc"() {owner = "plan"} : () -> memref<512xf32>
  %view = "host.view"(%buffer) {offset = 1024} : (memref<512xf32>) -> !image
  "host.launch"(%x, %view) {kernel = @kernels::@k, outputs = 1} : (!image, !image) -> ()
  %returned = "host.aten"(%x, %view, %held) {overload = "cuesta.packed_convolution_add.default", args = "[\22%0\22, \22%1\22, \22%2\22, true, [8, 8, 1, 1], [0, 0], [1, 1], [1, 1], 1, {\22str\22: \22relu\22}, false]", dtypes = ["f32", "f32", "i64", "f32"], reason = "", route = "shim"} : (!image, !image, memref<2xi64>) -> !image
  return %argument, %later, %flat, %returned, %own : !image, !image, memref<256xf32>, !image, !image
}
