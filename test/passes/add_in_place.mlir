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

// The rows of a table's gradient are added to what was there, which may be returned, since it fills its buffer.
// CHECK-LABEL: func.func @rows
// CHECK: %[[TABLE:.*]] = "host.view"
// CHECK: "host.aten"(%[[TABLE]], %{{.*}}, %{{.*}}) {{{.*}} dtypes = ["f32", "i64", "f32"], overload = "aten.index_put_.default"{{.*}} -> ()
// CHECK-NEXT: return %[[TABLE]]
func.func @rows(%x: memref<128xf32>, %at: memref<4xi64>, %rows: memref<4x8xf32>) -> memref<16x8xf32> {
  %buffer = "host.alloc"() {owner = "plan"} : () -> memref<128xf32>
  "host.launch"(%x, %buffer) {kernel = @kernels::@k, outputs = 1} : (memref<128xf32>, memref<128xf32>) -> ()
  %table = "host.view"(%buffer) {offset = 0} : (memref<128xf32>) -> memref<16x8xf32>
  %sum = "host.aten"(%table, %at, %rows) {overload = "aten._unsafe_index_put.default", args = "[\22%0\22, [\22%1\22], \22%2\22, true]", dtypes = ["f32", "i64", "f32", "f32"], reason = "", route = "shim"} : (memref<16x8xf32>, memref<4xi64>, memref<4x8xf32>) -> memref<16x8xf32>
  return %sum : memref<16x8xf32>
}

// Rows of the table itself are read while it is written.
// CHECK-LABEL: func.func @own_rows
// CHECK-NOT: index_put_.default
// CHECK: return
func.func @own_rows(%x: memref<128xf32>, %at: memref<16xi64>) -> memref<16x8xf32> {
  %buffer = "host.alloc"() {owner = "plan"} : () -> memref<128xf32>
  "host.launch"(%x, %buffer) {kernel = @kernels::@k, outputs = 1} : (memref<128xf32>, memref<128xf32>) -> ()
  %table = "host.view"(%buffer) {offset = 0} : (memref<128xf32>) -> memref<16x8xf32>
  %sum = "host.aten"(%table, %at, %table) {overload = "aten.index_put.default", args = "[\22%0\22, [\22%1\22], \22%2\22, true]", dtypes = ["f32", "i64", "f32", "f32"], reason = "", route = "shim"} : (memref<16x8xf32>, memref<16xi64>, memref<16x8xf32>) -> memref<16x8xf32>
  return %sum : memref<16x8xf32>
}
