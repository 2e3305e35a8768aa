// RUN: cuesta-opt --pass-pipeline='builtin.module(choose-blocks)' %s | filecheck %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(choose-blocks,linalg-to-tt)' %s | filecheck %s --check-prefix=TT

#whole = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#shared = affine_map<(d0, d1, d2) -> (d1, d2)>

module {
  module @kernels {
    // Eight samples share the positions of a program, two for each thread. An address is that in the first sample and a
    // constant. Threads lie along the last dim, where nobody knows whether neighbours are neighbours in memory.
    // CHECK-LABEL: func.func @gather
    // CHECK-SAME: cuesta.blocks = [8, 1, 256]
    // CHECK-SAME: cuesta.looked_up = [1, 2]
    // CHECK-SAME: cuesta.warps = 4
    // CHECK: tensor.extract {{.*}} {cuesta.apart}
    // TT: "tt.load"({{.*}}) {{.*}}-> tensor<1x256xi64>
    // TT: "tt.addptr"({{.*}} : (tensor<1x256x!tt.ptr<bf16>>, tensor<1x256xi32>)
    // TT: "tt.addptr"({{.*}} {tt.contiguity = dense<[1, 2]> : tensor<2xi32>, tt.divisibility = dense<1> : tensor<2xi32>} : (tensor<8x256x!tt.ptr<bf16>>, tensor<8x256xi32>)
    // TT: "tt.addptr"({{.*}} {tt.contiguity = dense<[1, 2]> : tensor<2xi32>} : (tensor<8x256x!tt.ptr<bf16>>, tensor<8x256xi32>)
    // TT: "tt.store"
    // TT: sym_name = "gather"
    func.func @gather(%at: tensor<512x512xi64>, %x: tensor<96x512x512xbf16>, %out: tensor<96x512x512xbf16> {bufferization.writable = true}) -> tensor<96x512x512xbf16> attributes {cuesta.parallel = [0, 1, 2], cuesta.sizes = [96, 512, 512]} {
      %0 = linalg.generic {indexing_maps = [#shared, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%at : tensor<512x512xi64>) outs(%out : tensor<96x512x512xbf16>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%in: i64, %old: bf16):
        %1 = linalg.index 0 : index
        %2 = linalg.index 1 : index
        %3 = arith.index_cast %in : i64 to index
        %4 = tensor.extract %x[%1, %2, %3] : tensor<96x512x512xbf16>
        linalg.yield %4 : bf16
      } -> tensor<96x512x512xbf16>
      return %0 : tensor<96x512x512xbf16>
    }

    // A row of three that is padded to four: positions are only kept within the row.
    // CHECK-LABEL: func.func @padded
    // CHECK-NOT: cuesta.looked_up
    // CHECK-NOT: cuesta.apart
    // CHECK: return
    func.func @padded(%x: tensor<96x512x3xbf16>, %out: tensor<96x512x4xbf16> {bufferization.writable = true}) -> tensor<96x512x4xbf16> attributes {cuesta.parallel = [0, 1, 2], cuesta.sizes = [96, 512, 4]} {
      %0 = linalg.generic {indexing_maps = [#whole], iterator_types = ["parallel", "parallel", "parallel"]} outs(%out : tensor<96x512x4xbf16>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%old: bf16):
        %1 = linalg.index 0 : index
        %2 = linalg.index 1 : index
        %3 = linalg.index 2 : index
        %last = arith.constant 2 : index
        %4 = arith.minsi %3, %last : index
        %5 = tensor.extract %x[%1, %2, %4] : tensor<96x512x3xbf16>
        linalg.yield %5 : bf16
      } -> tensor<96x512x4xbf16>
      return %0 : tensor<96x512x4xbf16>
    }

    // Of four positions for each row, a program would have too few elements.
    // CHECK-LABEL: func.func @few_positions
    // CHECK-NOT: cuesta.looked_up
    // CHECK: return
    func.func @few_positions(%at4: tensor<4xi64>, %x: tensor<96x512x3xbf16>, %out: tensor<96x512x4xbf16> {bufferization.writable = true}) -> tensor<96x512x4xbf16> attributes {cuesta.parallel = [0, 1, 2], cuesta.sizes = [96, 512, 4]} {
      %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2)>, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%at4 : tensor<4xi64>) outs(%out : tensor<96x512x4xbf16>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%in: i64, %old: bf16):
        %1 = linalg.index 0 : index
        %2 = linalg.index 1 : index
        %3 = arith.index_cast %in : i64 to index
        %4 = tensor.extract %x[%1, %2, %3] : tensor<96x512x3xbf16>
        linalg.yield %4 : bf16
      } -> tensor<96x512x4xbf16>
      return %0 : tensor<96x512x4xbf16>
    }

    // A pool of a row-major image, written with its channels last: the neighbours of what is read are other columns.
    // CHECK-LABEL: func.func @channels_last
    // CHECK-NOT: cuesta.looked_up
    // CHECK-NOT: cuesta.apart
    // CHECK: return
    func.func @channels_last(%x: tensor<32x64x56x56xbf16>, %out: tensor<32x28x28x64xbf16> {bufferization.writable = true}) -> tensor<32x28x28x64xbf16> attributes {cuesta.parallel = [0, 1, 2, 3], cuesta.sizes = [32, 28, 28, 64]} {
      %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%out : tensor<32x28x28x64xbf16>) attrs = {cuesta.classes = [0, 1, 2, 3]} {
      ^bb0(%old: bf16):
        %n = linalg.index 0 : index
        %h = linalg.index 1 : index
        %w = linalg.index 2 : index
        %c = linalg.index 3 : index
        %two = arith.constant 2 : index
        %row = arith.muli %h, %two : index
        %column = arith.muli %w, %two : index
        %1 = tensor.extract %x[%n, %c, %row, %column] : tensor<32x64x56x56xbf16>
        linalg.yield %1 : bf16
      } -> tensor<32x28x28x64xbf16>
      return %0 : tensor<32x28x28x64xbf16>
    }

    // What steps over nine elements is nearest along the last dim all the same, but Triton knows of no neighbours.
    // CHECK-LABEL: func.func @steps
    // CHECK: tensor.extract {{.*}} {cuesta.apart}
    func.func @steps(%x: tensor<16x512x384xbf16> {bufferization.buffer_layout = strided<[1769472, 3456, 9]>}, %out: tensor<16x512x384xbf16> {bufferization.writable = true}) -> tensor<16x512x384xbf16> attributes {cuesta.parallel = [0, 1, 2], cuesta.sizes = [16, 512, 384]} {
      %0 = linalg.generic {indexing_maps = [#whole], iterator_types = ["parallel", "parallel", "parallel"]} outs(%out : tensor<16x512x384xbf16>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%old: bf16):
        %1 = linalg.index 0 : index
        %2 = linalg.index 1 : index
        %3 = linalg.index 2 : index
        %four = arith.constant 4 : index
        %last = arith.constant 511 : index
        %4 = arith.addi %2, %four : index
        %5 = arith.minsi %4, %last : index
        %6 = tensor.extract %x[%1, %5, %3] : tensor<16x512x384xbf16>
        linalg.yield %6 : bf16
      } -> tensor<16x512x384xbf16>
      return %0 : tensor<16x512x384xbf16>
    }

    // The second half of a row follows itself: Triton loads it as it loads rows.
    // CHECK-LABEL: func.func @second_half
    // CHECK-NOT: cuesta.looked_up
    // CHECK-NOT: cuesta.apart
    // CHECK: return
    func.func @second_half(%x: tensor<96x512x512xbf16>, %out: tensor<96x512x256xbf16> {bufferization.writable = true}) -> tensor<96x512x256xbf16> attributes {cuesta.parallel = [0, 1, 2], cuesta.sizes = [96, 512, 256]} {
      %0 = linalg.generic {indexing_maps = [#whole], iterator_types = ["parallel", "parallel", "parallel"]} outs(%out : tensor<96x512x256xbf16>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%old: bf16):
        %1 = linalg.index 0 : index
        %2 = linalg.index 1 : index
        %3 = linalg.index 2 : index
        %c256 = arith.constant 256 : index
        %4 = arith.addi %3, %c256 : index
        %5 = tensor.extract %x[%1, %2, %4] : tensor<96x512x512xbf16>
        linalg.yield %5 : bf16
      } -> tensor<96x512x256xbf16>
      return %0 : tensor<96x512x256xbf16>
    }

    // Of rows that are looked up, and read along, neighbours are neighbours.
    // CHECK-LABEL: func.func @rows
    // CHECK-NOT: cuesta.looked_up
    // CHECK-NOT: cuesta.apart
    // CHECK: return
    func.func @rows(%at: tensor<96x512xi64>, %x: tensor<1000x256xbf16>, %out: tensor<96x512x256xbf16> {bufferization.writable = true}) -> tensor<96x512x256xbf16> attributes {cuesta.parallel = [0, 1, 2], cuesta.sizes = [96, 512, 256]} {
      %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1)>, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%at : tensor<96x512xi64>) outs(%out : tensor<96x512x256xbf16>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%in: i64, %old: bf16):
        %1 = arith.index_cast %in : i64 to index
        %2 = linalg.index 2 : index
        %3 = tensor.extract %x[%1, %2] : tensor<1000x256xbf16>
        linalg.yield %3 : bf16
      } -> tensor<96x512x256xbf16>
      return %0 : tensor<96x512x256xbf16>
    }
  }
}
