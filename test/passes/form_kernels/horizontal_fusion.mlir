// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// The same done to tensors of equal sizes is one kernel, whose tiles do both; other sizes have one of their own.
// CHECK: func.func @graph
// CHECK-DAG: "host.launch"({{.*}}outputs = 2 : i64
// CHECK-DAG: "host.launch"({{.*}}outputs = 1 : i64
// CHECK-NOT: "host.launch"
func.func @graph(
    %p: tensor<32x512xf32> {cuesta.strides = [512, 1]}, %g: tensor<32x512xf32> {cuesta.strides = [512, 1]},
    %q: tensor<32x512xf32> {cuesta.strides = [512, 1]}, %h: tensor<32x512xf32> {cuesta.strides = [512, 1]},
    %r: tensor<32x256xf32> {cuesta.strides = [256, 1]}, %i: tensor<32x256xf32> {cuesta.strides = [256, 1]}
) -> (tensor<32x512xf32> {cuesta.strides = [512, 1]}, tensor<32x512xf32> {cuesta.strides = [512, 1]}, tensor<32x256xf32> {cuesta.strides = [256, 1]}) {
  %0 = "cuesta.sub"(%p, %g) : (tensor<32x512xf32>, tensor<32x512xf32>) -> tensor<32x512xf32>
  %1 = "cuesta.sub"(%q, %h) : (tensor<32x512xf32>, tensor<32x512xf32>) -> tensor<32x512xf32>
  %2 = "cuesta.sub"(%r, %i) : (tensor<32x256xf32>, tensor<32x256xf32>) -> tensor<32x256xf32>
  return %0, %1, %2 : tensor<32x512xf32>, tensor<32x512xf32>, tensor<32x256xf32>
}

// -----

// One lies in memory across the other; what is made for a call, and is not small, is made when it is due.
// CHECK: func.func @graph
// CHECK-COUNT-4: outputs = 1 : i64
func.func @graph(
    %x: tensor<512x512xf32> {cuesta.strides = [512, 1]}, %y: tensor<512x512xf32> {cuesta.strides = [1, 512]},
    %z: tensor<512x512xf32> {cuesta.strides = [512, 1]}, %w: tensor<512x512xf32> {cuesta.strides = [512, 1]}
) -> (tensor<512x512xf32> {cuesta.strides = [512, 1]}, tensor<512x512xf32> {cuesta.strides = [1, 512]}, tensor<512x512xf32> {cuesta.strides = [512, 1]}) {
  %0 = "cuesta.exp"(%x) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = "cuesta.exp"(%y) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = "cuesta.sin"(%z) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %3 = "aten.call"(%2) {
    overload = "aten.matrix_exp.default", args = "[\"%0\"]", reason = "-", result_strides = [[512, 1]]
  } : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %4 = "cuesta.sin"(%w) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %5 = "aten.call"(%3, %4) {
    overload = "aten.mm.default", args = "[\"%0\", \"%1\"]", reason = "-", result_strides = [[512, 1]]
  } : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %0, %1, %5 : tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>
}

// -----

// A program has in registers what it writes of each tensor: there are at most 16.
// CHECK: func.func @graph
// CHECK: "host.launch"({{.*}}outputs = 16 : i64
// CHECK: "host.launch"({{.*}}outputs = 1 : i64
// CHECK-NOT: "host.launch"
func.func @graph(
    %x0: tensor<512xf32> {cuesta.strides = [1]}, %x1: tensor<512xf32> {cuesta.strides = [1]}, %x2: tensor<512xf32> {cuesta.strides = [1]},
    %x3: tensor<512xf32> {cuesta.strides = [1]}, %x4: tensor<512xf32> {cuesta.strides = [1]}, %x5: tensor<512xf32> {cuesta.strides = [1]},
    %x6: tensor<512xf32> {cuesta.strides = [1]}, %x7: tensor<512xf32> {cuesta.strides = [1]}, %x8: tensor<512xf32> {cuesta.strides = [1]},
    %x9: tensor<512xf32> {cuesta.strides = [1]}, %x10: tensor<512xf32> {cuesta.strides = [1]}, %x11: tensor<512xf32> {cuesta.strides = [1]},
    %x12: tensor<512xf32> {cuesta.strides = [1]}, %x13: tensor<512xf32> {cuesta.strides = [1]}, %x14: tensor<512xf32> {cuesta.strides = [1]},
    %x15: tensor<512xf32> {cuesta.strides = [1]}, %x16: tensor<512xf32> {cuesta.strides = [1]}
) -> (
    tensor<512xbf16> {cuesta.strides = [1]}, tensor<512xbf16> {cuesta.strides = [1]}, tensor<512xbf16> {cuesta.strides = [1]},
    tensor<512xbf16> {cuesta.strides = [1]}, tensor<512xbf16> {cuesta.strides = [1]}, tensor<512xbf16> {cuesta.strides = [1]},
    tensor<512xbf16> {cuesta.strides = [1]}, tensor<512xbf16> {cuesta.strides = [1]}, tensor<512xbf16> {cuesta.strides = [1]},
    tensor<512xbf16> {cuesta.strides = [1]}, tensor<512xbf16> {cuesta.strides = [1]}, tensor<512xbf16> {cuesta.strides = [1]},
    tensor<512xbf16> {cuesta.strides = [1]}, tensor<512xbf16> {cuesta.strides = [1]}, tensor<512xbf16> {cuesta.strides = [1]},
    tensor<512xbf16> {cuesta.strides = [1]}, tensor<512xbf16> {cuesta.strides = [1]}
) {
  %0 = "cuesta.convert"(%x0) : (tensor<512xf32>) -> tensor<512xbf16>
  %1 = "cuesta.convert"(%x1) : (tensor<512xf32>) -> tensor<512xbf16>
  %2 = "cuesta.convert"(%x2) : (tensor<512xf32>) -> tensor<512xbf16>
  %3 = "cuesta.convert"(%x3) : (tensor<512xf32>) -> tensor<512xbf16>
  %4 = "cuesta.convert"(%x4) : (tensor<512xf32>) -> tensor<512xbf16>
  %5 = "cuesta.convert"(%x5) : (tensor<512xf32>) -> tensor<512xbf16>
  %6 = "cuesta.convert"(%x6) : (tensor<512xf32>) -> tensor<512xbf16>
  %7 = "cuesta.convert"(%x7) : (tensor<512xf32>) -> tensor<512xbf16>
  %8 = "cuesta.convert"(%x8) : (tensor<512xf32>) -> tensor<512xbf16>
  %9 = "cuesta.convert"(%x9) : (tensor<512xf32>) -> tensor<512xbf16>
  %10 = "cuesta.convert"(%x10) : (tensor<512xf32>) -> tensor<512xbf16>
  %11 = "cuesta.convert"(%x11) : (tensor<512xf32>) -> tensor<512xbf16>
  %12 = "cuesta.convert"(%x12) : (tensor<512xf32>) -> tensor<512xbf16>
  %13 = "cuesta.convert"(%x13) : (tensor<512xf32>) -> tensor<512xbf16>
  %14 = "cuesta.convert"(%x14) : (tensor<512xf32>) -> tensor<512xbf16>
  %15 = "cuesta.convert"(%x15) : (tensor<512xf32>) -> tensor<512xbf16>
  %16 = "cuesta.convert"(%x16) : (tensor<512xf32>) -> tensor<512xbf16>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16 : tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>, tensor<512xbf16>
}
