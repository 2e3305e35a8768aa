// RUN: cuesta-opt --pass-pipeline='builtin.module(call-libraries)' %s | filecheck %s

// The module says what was measured: kernels for linear layers, the library where a right factor is [K, N].
module attributes {cuesta.products = {across = "kernel", along = "library"}} {
  // CHECK-LABEL: func.func @across
  // CHECK: "cuesta.mm"{{.*}}product = "256x96x384 by {{8x48|6x16}}"
  func.func @across(%a: tensor<256x768xf32>, %w: tensor<768x768xf32>) -> tensor<256x768xf32> {
    %0 = "cuesta.permute"(%w) {dims = [1, 0]} : (tensor<768x768xf32>) -> tensor<768x768xf32>
    %1 = "cuesta.mm"(%a, %0) : (tensor<256x768xf32>, tensor<768x768xf32>) -> tensor<256x768xf32>
    return %1 : tensor<256x768xf32>
  }

  // CHECK-LABEL: func.func @along
  // CHECK: "aten.call"
  func.func @along(%a: tensor<256x768xf32>, %b: tensor<768x768xf32>) -> tensor<256x768xf32> {
    %0 = "cuesta.mm"(%a, %b) : (tensor<256x768xf32>, tensor<768x768xf32>) -> tensor<256x768xf32>
    return %0 : tensor<256x768xf32>
  }

  // Nobody measured it.
  // CHECK-LABEL: func.func @turned
  // CHECK: "aten.call"
  func.func @turned(%a: tensor<768x256xf32>, %b: tensor<768x768xf32>) -> tensor<256x768xf32> {
    %0 = "cuesta.permute"(%a) {dims = [1, 0]} : (tensor<768x256xf32>) -> tensor<256x768xf32>
    %1 = "cuesta.mm"(%0, %b) : (tensor<256x768xf32>, tensor<768x768xf32>) -> tensor<256x768xf32>
    return %1 : tensor<256x768xf32>
  }

  // Rows that the call counts are cut as those of large products are; other sizes have to be numbers.
  // CHECK-LABEL: func.func @any_rows
  // CHECK: "cuesta.mm"{{.*}}product = "256x96x384 by {{8x48|6x16}}"
  func.func @any_rows(%a: tensor<?x768xf32, ["s0"]>, %w: tensor<768x768xf32>) -> tensor<?x768xf32, ["s0"]> {
    %0 = "cuesta.permute"(%w) {dims = [1, 0]} : (tensor<768x768xf32>) -> tensor<768x768xf32>
    %1 = "cuesta.mm"(%a, %0) : (tensor<?x768xf32, ["s0"]>, tensor<768x768xf32>) -> tensor<?x768xf32, ["s0"]>
    return %1 : tensor<?x768xf32, ["s0"]>
  }

  // CHECK-LABEL: func.func @any_columns
  // CHECK: "aten.call"
  func.func @any_columns(%a: tensor<256x768xf32>, %w: tensor<?x768xf32, ["s0"]>) -> tensor<256x?xf32, ["s0"]> {
    %0 = "cuesta.permute"(%w) {dims = [1, 0]} : (tensor<?x768xf32, ["s0"]>) -> tensor<768x?xf32, ["s0"]>
    %1 = "cuesta.mm"(%a, %0) : (tensor<256x768xf32>, tensor<768x?xf32, ["s0"]>) -> tensor<256x?xf32, ["s0"]>
    return %1 : tensor<256x?xf32, ["s0"]>
  }
}
