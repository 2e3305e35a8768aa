// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries)' --split-input-file %s | filecheck %s

// Rows of 2006 bytes: the library has slow kernels only. So has a factor with such rows, as it lies in memory.
// CHECK-LABEL: func.func @ragged
// CHECK: "cuesta.mm"({{.*}}) {product = "{{.*}}"} : (tensor<512x512xbf16>, tensor<512x1003xbf16>) -> tensor<512x1003xf32>
// CHECK: "cuesta.mm"({{.*}}) {product = "{{.*}}"} : (tensor<512x1003xbf16>, tensor<1003x512xbf16>) -> tensor<512x512xf32>
module attributes {cuesta.target = "cuda:90"} {
func.func @ragged(%x: tensor<512x512xbf16>, %w: tensor<512x1003xbf16>, %v: tensor<1003x512xbf16>) -> tensor<512x512xbf16> {
  %0 = "cuesta.mm"(%x, %w) : (tensor<512x512xbf16>, tensor<512x1003xbf16>) -> tensor<512x1003xbf16>
  %1 = "cuesta.mm"(%0, %v) : (tensor<512x1003xbf16>, tensor<1003x512xbf16>) -> tensor<512x512xbf16>
  return %1 : tensor<512x512xbf16>
}
}

// -----

// Large results with such rows are computed by one program for each multiprocessor, on Hopper.
// CHECK-LABEL: func.func @in_turns
// CHECK: "cuesta.mm"({{.*}}) {product = "128x256x64/8/3 on 132"} : (tensor<4096x512xbf16>, tensor<512x3999xbf16>)
// CHECK-LABEL: func.func @elsewhere
// CHECK: "cuesta.mm"({{.*}}) {product = "{{[0-9x/]*}}"} : (tensor<4096x512xbf16>, tensor<512x3999xbf16>)
module attributes {cuesta.target = "cuda:90"} {
func.func @in_turns(%x: tensor<4096x512xbf16> {cuesta.strides = [512, 1]}, %w: tensor<3999x512xbf16> {cuesta.strides = [512, 1]}) -> tensor<4096x3999xbf16> {
  %0 = "cuesta.permute"(%w) {dims = [1, 0]} : (tensor<3999x512xbf16>) -> tensor<512x3999xbf16>
  %1 = "cuesta.mm"(%x, %0) : (tensor<4096x512xbf16>, tensor<512x3999xbf16>) -> tensor<4096x3999xbf16>
  return %1 : tensor<4096x3999xbf16>
}
}

// -----

module attributes {cuesta.target = "cuda:80"} {
func.func @elsewhere(%x: tensor<4096x512xbf16> {cuesta.strides = [512, 1]}, %w: tensor<3999x512xbf16> {cuesta.strides = [512, 1]}) -> tensor<4096x3999xbf16> {
  %0 = "cuesta.permute"(%w) {dims = [1, 0]} : (tensor<3999x512xbf16>) -> tensor<512x3999xbf16>
  %1 = "cuesta.mm"(%x, %0) : (tensor<4096x512xbf16>, tensor<512x3999xbf16>) -> tensor<4096x3999xbf16>
  return %1 : tensor<4096x3999xbf16>
}
}

// -----

// Aligned rows, f32 and small products stay the library's; so does everything on a CPU.
// CHECK-LABEL: func.func @left_to_the_library
// CHECK-NOT: "cuesta.mm"
// CHECK: return
module attributes {cuesta.target = "cuda:90"} {
func.func @left_to_the_library(%x: tensor<512x512xbf16>, %w: tensor<512x1000xbf16>, %f: tensor<512x512xf32>, %g: tensor<512x1003xf32>, %a: tensor<8x16xbf16>, %b: tensor<16x9xbf16>) -> (tensor<512x1000xbf16>, tensor<512x1003xf32>, tensor<8x9xbf16>) {
  %0 = "cuesta.mm"(%x, %w) : (tensor<512x512xbf16>, tensor<512x1000xbf16>) -> tensor<512x1000xbf16>
  %1 = "cuesta.mm"(%f, %g) : (tensor<512x512xf32>, tensor<512x1003xf32>) -> tensor<512x1003xf32>
  %2 = "cuesta.mm"(%a, %b) : (tensor<8x16xbf16>, tensor<16x9xbf16>) -> tensor<8x9xbf16>
  return %0, %1, %2 : tensor<512x1000xbf16>, tensor<512x1003xf32>, tensor<8x9xbf16>
}
}

// -----

// CHECK-LABEL: func.func @cpu
// CHECK-NOT: "cuesta.mm"
// CHECK: return
func.func @cpu(%x: tensor<512x512xbf16>, %w: tensor<512x1003xbf16>) -> tensor<512x1003xbf16> {
  %0 = "cuesta.mm"(%x, %w) : (tensor<512x512xbf16>, tensor<512x1003xbf16>) -> tensor<512x1003xbf16>
  return %0 : tensor<512x1003xbf16>
}

// -----

// How many rows there are may depend on the call, how long they are may not.
// CHECK-LABEL: func.func @of_any_length
// CHECK: "cuesta.mm"({{.*}}) {product = "{{.*}}"} : (tensor<?x512xbf16, ["s0"]>, tensor<512x1003xbf16>) -> tensor<?x1003xf32, ["s0"]>
// CHECK: aten.mm
module attributes {cuesta.target = "cuda:90", cuesta.hints = {s0 = 512 : i64}} {
func.func @of_any_length(%x: tensor<?x512xbf16, ["s0"]>, %w: tensor<512x1003xbf16>, %y: tensor<1003x?xbf16, ["s0"]>) -> tensor<1003x1003xbf16> {
  %0 = "cuesta.mm"(%x, %w) : (tensor<?x512xbf16, ["s0"]>, tensor<512x1003xbf16>) -> tensor<?x1003xbf16, ["s0"]>
  %1 = "cuesta.mm"(%y, %0) : (tensor<1003x?xbf16, ["s0"]>, tensor<?x1003xbf16, ["s0"]>) -> tensor<1003x1003xbf16>
  return %1 : tensor<1003x1003xbf16>
}
}

// -----

// A weight's gradient has few results and a sum over all rows: it is cut into parts, also by what is no power of two. The
// transposed factor is cut before it is transposed, so that the kernel computes it.

// CHECK-LABEL: func.func @gradient_of_a_weight
// CHECK: %[[COS:.*]] = "cuesta.cos"
// CHECK: %[[X:.*]] = "cuesta.reshape"(%[[COS]]) {{.*}} -> tensor<[[PARTS:[0-9]+]]x[[LENGTH:[0-9]+]]x9xbf16>
// CHECK: %[[L:.*]] = "cuesta.permute"(%[[X]]) {dims = [0, 2, 1]}
// CHECK: %[[R:.*]] = "cuesta.reshape"(%arg1) {{.*}} -> tensor<[[PARTS]]x[[LENGTH]]x3xbf16>
// CHECK: %[[MM:.*]] = "cuesta.mm"(%[[L]], %[[R]]) {{.*}} -> tensor<[[PARTS]]x9x3xf32>
// CHECK: "cuesta.sum"(%[[MM]]) {dims = [0]
module attributes {cuesta.target = "cuda:90"} {
func.func @gradient_of_a_weight(%g: tensor<1229312x9xbf16> {cuesta.strides = [9, 1]}, %x: tensor<1229312x3xbf16> {cuesta.strides = [3, 1]}) -> tensor<9x3xbf16> {
  %0 = "cuesta.cos"(%g) : (tensor<1229312x9xbf16>) -> tensor<1229312x9xbf16>
  %1 = "cuesta.permute"(%0) {dims = [1, 0]} : (tensor<1229312x9xbf16>) -> tensor<9x1229312xbf16>
  %2 = "cuesta.mm"(%1, %x) {operand_strides = [[1, 9], [3, 1]], result_strides = [[3, 1]]} : (tensor<9x1229312xbf16>, tensor<1229312x3xbf16>) -> tensor<9x3xbf16>
  return %2 : tensor<9x3xbf16>
}
}
