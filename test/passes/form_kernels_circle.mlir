// RUN: cuesta-opt --pass-pipeline='builtin.module(form-kernels)' %s | filecheck %s

// Groups of which one has a member before the other's first and one after it: that they depend on one another shows only
// where the whole of a group is looked at. Merged all the same, they stood in a circle that no order resolves.

// CHECK: func.func @graph(
// CHECK: "host.launch"
// CHECK: return
#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0, d1) -> (d1)>
#map3 = affine_map<(d0, d1) -> (d0, d1)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
module {
  func.func @graph(%x0: tensor<8xi64> {cuesta.dtype = "i64", cuesta.strides = [1]}, %x1: tensor<2x8x8x8xi64> {cuesta.dtype = "i64", cuesta.strides = [512, 64, 8, 1]}, %x2: tensor<2x8x8x8xi8> {cuesta.dtype = "i8", cuesta.strides = [512, 64, 8, 1]}, %x3: tensor<2x8x8x8xi8> {cuesta.dtype = "i8", cuesta.strides = [512, 64, 8, 1]}, %x4: tensor<8x8xi64> {cuesta.dtype = "i64", cuesta.strides = [8, 1]}, %x5: tensor<2x8x8x8xi8> {cuesta.dtype = "i8", cuesta.strides = [512, 64, 8, 1]}, %x6: tensor<8x8xi64> {cuesta.dtype = "i64", cuesta.strides = [8, 1]}, %x7: tensor<2x8x8x8xi8> {cuesta.dtype = "i8", cuesta.strides = [512, 64, 8, 1]}, %x8: tensor<8x8xi64> {cuesta.dtype = "i64", cuesta.strides = [8, 1]}, %x9: tensor<2x8x8x8xi8> {cuesta.dtype = "i8", cuesta.strides = [512, 64, 8, 1]}, %x10: tensor<8x8xi64> {cuesta.dtype = "i64", cuesta.strides = [8, 1]}, %x11: tensor<2x8x8x8xi8> {cuesta.dtype = "i8", cuesta.strides = [512, 64, 8, 1]}, %x12: tensor<2x8x8x8xi8> {cuesta.dtype = "i8", cuesta.strides = [512, 64, 8, 1]}, %x13: tensor<2x8x8x8xf32> {cuesta.dtype = "f32", cuesta.strides = [512, 64, 8, 1]}) -> (tensor<2x8x8x8xf32> {cuesta.dtype = "f32", cuesta.storage = 6 : i64, cuesta.strides = [512, 64, 8, 1]}, tensor<2x8x8x8xi64> {cuesta.dtype = "i64", cuesta.storage = 7 : i64, cuesta.strides = [512, 64, 8, 1]}) {
    %0 = tensor.empty() : tensor<8xi64>
    %1 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%0 : tensor<8xi64>) {
    ^bb0(%out: i64):
      %26 = linalg.index 0 : index
      %27 = arith.index_cast %26 : index to i64
      %c-1_i64 = arith.constant -1 : i64
      %c2_i64 = arith.constant 2 : i64
      %28 = arith.muli %27, %c2_i64 : i64
      %29 = arith.addi %c-1_i64, %28 : i64
      %c16_i64 = arith.constant 16 : i64
      %30 = arith.muli %29, %c16_i64 : i64
      linalg.yield %30 : i64
    } -> tensor<8xi64>
    %2 = tensor.empty() : tensor<8xi64>
    %3 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%2 : tensor<8xi64>) {
    ^bb0(%out: i64):
      %26 = linalg.index 0 : index
      %27 = arith.index_cast %26 : index to i64
      %c1_i64 = arith.constant 1 : i64
      %c2_i64 = arith.constant 2 : i64
      %28 = arith.muli %27, %c2_i64 : i64
      %29 = arith.addi %c1_i64, %28 : i64
      %c1_i64_0 = arith.constant 1 : i64
      %30 = arith.muli %29, %c1_i64_0 : i64
      linalg.yield %30 : i64
    } -> tensor<8xi64>
    %4 = tensor.empty() : tensor<8x8xi64>
    %5 = linalg.generic {indexing_maps = [#map1, #map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%1, %3 : tensor<8xi64>, tensor<8xi64>) outs(%4 : tensor<8x8xi64>) {
    ^bb0(%in: i64, %in_0: i64, %out: i64):
      %26 = arith.addi %in, %in_0 : i64
      linalg.yield %26 : i64
    } -> tensor<8x8xi64>
    %6 = tensor.empty() : tensor<2x8x8x8xi64>
    %7 = linalg.generic {indexing_maps = [#map4, #map5, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x2, %5, %x1 : tensor<2x8x8x8xi8>, tensor<8x8xi64>, tensor<2x8x8x8xi64>) outs(%6 : tensor<2x8x8x8xi64>) {
    ^bb0(%in: i8, %in_0: i64, %in_1: i64, %out: i64):
      %c0_i8 = arith.constant 0 : i8
      %26 = arith.cmpi ne, %in, %c0_i8 : i8
      %27 = arith.select %26, %in_0, %in_1 : i64
      linalg.yield %27 : i64
    } -> tensor<2x8x8x8xi64>
    %8 = tensor.empty() : tensor<2x8x8x8xi64>
    %9 = linalg.generic {indexing_maps = [#map4, #map5, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x3, %x4, %7 : tensor<2x8x8x8xi8>, tensor<8x8xi64>, tensor<2x8x8x8xi64>) outs(%8 : tensor<2x8x8x8xi64>) {
    ^bb0(%in: i8, %in_0: i64, %in_1: i64, %out: i64):
      %c0_i8 = arith.constant 0 : i8
      %26 = arith.cmpi ne, %in, %c0_i8 : i8
      %27 = arith.select %26, %in_0, %in_1 : i64
      linalg.yield %27 : i64
    } -> tensor<2x8x8x8xi64>
    %10 = tensor.empty() : tensor<2x8x8x8xi64>
    %11 = linalg.generic {indexing_maps = [#map4, #map5, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x5, %x6, %9 : tensor<2x8x8x8xi8>, tensor<8x8xi64>, tensor<2x8x8x8xi64>) outs(%10 : tensor<2x8x8x8xi64>) {
    ^bb0(%in: i8, %in_0: i64, %in_1: i64, %out: i64):
      %c0_i8 = arith.constant 0 : i8
      %26 = arith.cmpi ne, %in, %c0_i8 : i8
      %27 = arith.select %26, %in_0, %in_1 : i64
      linalg.yield %27 : i64
    } -> tensor<2x8x8x8xi64>
    %12 = tensor.empty() : tensor<2x8x8x8xi64>
    %13 = linalg.generic {indexing_maps = [#map4, #map5, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x7, %x8, %11 : tensor<2x8x8x8xi8>, tensor<8x8xi64>, tensor<2x8x8x8xi64>) outs(%12 : tensor<2x8x8x8xi64>) {
    ^bb0(%in: i8, %in_0: i64, %in_1: i64, %out: i64):
      %c0_i8 = arith.constant 0 : i8
      %26 = arith.cmpi ne, %in, %c0_i8 : i8
      %27 = arith.select %26, %in_0, %in_1 : i64
      linalg.yield %27 : i64
    } -> tensor<2x8x8x8xi64>
    %14 = tensor.empty() : tensor<8xi64>
    %15 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%14 : tensor<8xi64>) {
    ^bb0(%out: i64):
      %26 = linalg.index 0 : index
      %27 = arith.index_cast %26 : index to i64
      %c1_i64 = arith.constant 1 : i64
      %c2_i64 = arith.constant 2 : i64
      %28 = arith.muli %27, %c2_i64 : i64
      %29 = arith.addi %c1_i64, %28 : i64
      %c16_i64 = arith.constant 16 : i64
      %30 = arith.muli %29, %c16_i64 : i64
      linalg.yield %30 : i64
    } -> tensor<8xi64>
    %16 = tensor.empty() : tensor<2x8x8x8xi64>
    %17 = linalg.generic {indexing_maps = [#map4, #map5, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x9, %x10, %13 : tensor<2x8x8x8xi8>, tensor<8x8xi64>, tensor<2x8x8x8xi64>) outs(%16 : tensor<2x8x8x8xi64>) {
    ^bb0(%in: i8, %in_0: i64, %in_1: i64, %out: i64):
      %c0_i8 = arith.constant 0 : i8
      %26 = arith.cmpi ne, %in, %c0_i8 : i8
      %27 = arith.select %26, %in_0, %in_1 : i64
      linalg.yield %27 : i64
    } -> tensor<2x8x8x8xi64>
    %18 = tensor.empty() : tensor<8x8xi64>
    %19 = linalg.generic {indexing_maps = [#map1, #map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%15, %x0 : tensor<8xi64>, tensor<8xi64>) outs(%18 : tensor<8x8xi64>) {
    ^bb0(%in: i64, %in_0: i64, %out: i64):
      %26 = arith.addi %in, %in_0 : i64
      linalg.yield %26 : i64
    } -> tensor<8x8xi64>
    %20 = tensor.empty() : tensor<2x8x8x8xi64>
    %21 = linalg.generic {indexing_maps = [#map4, #map5, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x11, %19, %17 : tensor<2x8x8x8xi8>, tensor<8x8xi64>, tensor<2x8x8x8xi64>) outs(%20 : tensor<2x8x8x8xi64>) {
    ^bb0(%in: i8, %in_0: i64, %in_1: i64, %out: i64):
      %c0_i8 = arith.constant 0 : i8
      %26 = arith.cmpi ne, %in, %c0_i8 : i8
      %27 = arith.select %26, %in_0, %in_1 : i64
      linalg.yield %27 : i64
    } -> tensor<2x8x8x8xi64>
    %22 = tensor.empty() : tensor<8x8xi64>
    %23 = linalg.generic {indexing_maps = [#map1, #map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%15, %3 : tensor<8xi64>, tensor<8xi64>) outs(%22 : tensor<8x8xi64>) {
    ^bb0(%in: i64, %in_0: i64, %out: i64):
      %26 = arith.addi %in, %in_0 : i64
      linalg.yield %26 : i64
    } -> tensor<8x8xi64>
    %24 = tensor.empty() : tensor<2x8x8x8xi64>
    %25 = linalg.generic {indexing_maps = [#map4, #map5, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x12, %23, %21 : tensor<2x8x8x8xi8>, tensor<8x8xi64>, tensor<2x8x8x8xi64>) outs(%24 : tensor<2x8x8x8xi64>) {
    ^bb0(%in: i8, %in_0: i64, %in_1: i64, %out: i64):
      %c0_i8 = arith.constant 0 : i8
      %26 = arith.cmpi ne, %in, %c0_i8 : i8
      %27 = arith.select %26, %in_0, %in_1 : i64
      linalg.yield %27 : i64
    } -> tensor<2x8x8x8xi64>
    return %x13, %25 : tensor<2x8x8x8xf32>, tensor<2x8x8x8xi64>
  }
}
