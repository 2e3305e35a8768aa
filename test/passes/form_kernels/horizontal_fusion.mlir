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
