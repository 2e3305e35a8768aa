// RUN: cuesta-opt --pass-pipeline='builtin.module(cuesta-to-linalg,form-kernels{target=gpu})' %s | filecheck %s

// A running sum has a program for each of four matrices, which also compute what it adds up. What is made of it for 40
// slots of each number, 655 KB for each of these programs, is a kernel of its own, with more programs.
// CHECK: func.func @graph
// CHECK: "host.launch"({{.*}}) {kernel = @kernels::@sin_exp_tanh_cumsum, {{.*}} (memref<4x512x8xf32>, memref<4x512x8xf32>) -> ()
// CHECK: "host.launch"({{.*}}) {kernel = @kernels::@mul, {{.*}}memref<16384x40xf32>) -> ()
// CHECK-NOT: "host.launch"
func.func @graph(%x: tensor<4x512x8xf32> {cuesta.strides = [4096, 8, 1]}, %slots: tensor<40xf32> {cuesta.strides = [1]}) -> (tensor<4x512x8x40xf32> {cuesta.strides = [163840, 320, 40, 1]}) {
  %s = "cuesta.sin"(%x) : (tensor<4x512x8xf32>) -> tensor<4x512x8xf32> loc("sin"("m.py":1:1))
  %e = "cuesta.exp"(%s) : (tensor<4x512x8xf32>) -> tensor<4x512x8xf32> loc("exp"("m.py":2:1))
  %t = "cuesta.tanh"(%e) : (tensor<4x512x8xf32>) -> tensor<4x512x8xf32> loc("tanh"("m.py":3:1))
  %0 = "cuesta.cumsum"(%t) {dim = 1 : i64} : (tensor<4x512x8xf32>) -> tensor<4x512x8xf32> loc("cumsum"("m.py":4:1))
  %1 = "cuesta.reshape"(%0) : (tensor<4x512x8xf32>) -> tensor<4x512x8x1xf32>
  %2 = "cuesta.expand"(%1) : (tensor<4x512x8x1xf32>) -> tensor<4x512x8x40xf32>
  %3 = "cuesta.expand"(%slots) : (tensor<40xf32>) -> tensor<4x512x8x40xf32>
  %4 = "cuesta.mul"(%2, %3) : (tensor<4x512x8x40xf32>, tensor<4x512x8x40xf32>) -> tensor<4x512x8x40xf32> loc("mul"("m.py":5:1))
  return %4 : tensor<4x512x8x40xf32>
}
