// RUN: cuesta-opt --pass-pipeline='builtin.module(choose-blocks)' %s | filecheck %s

#id1 = affine_map<(d0) -> (d0)>
#id = affine_map<(d0, d1) -> (d0, d1)>
#t = affine_map<(d0, d1) -> (d1, d0)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>
#id3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#id6 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4, d5)>
#channels = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d4, d1, d3, d5)>
#of_row = affine_map<(d0, d1, d2) -> (d0, d1)>
#of_column = affine_map<(d0, d1, d2) -> (d0, d2)>

module {
  module @kernels {
    // One class: runs of 1024, and the smallest offset of all launches tells the alignment.
    // CHECK-LABEL: func.func @flat
    // CHECK-SAME: cuesta.align = [4, 16], cuesta.blocks = [1024]
    // CHECK-SAME: cuesta.warps = 4
    func.func @flat(%x: tensor<1048576xf32>, %y: tensor<1048576xf32>) -> tensor<1048576xf32> attributes {cuesta.parallel = [0], cuesta.sizes = [1048576]} {
      %0 = linalg.generic {indexing_maps = [#id1, #id1], iterator_types = ["parallel"]} ins(%x : tensor<1048576xf32>) outs(%y : tensor<1048576xf32>) attrs = {cuesta.classes = [0]} {
      ^bb0(%a: f32, %o: f32):
        %r = math.exp %a : f32
        linalg.yield %r : f32
      } -> tensor<1048576xf32>
      return %0 : tensor<1048576xf32>
    }

    // Many rows that are apart: 2048 elements to a program as well.
    // CHECK-LABEL: func.func @many_rows
    // CHECK-SAME: cuesta.blocks = [64, 32]
    // CHECK-SAME: cuesta.warps = 4
    func.func @many_rows(%x: tensor<200704x24xbf16>, %y: tensor<200704x24xbf16> {bufferization.buffer_layout = strided<[48, 1]>}) -> tensor<200704x24xbf16> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [200704, 24]} {
      %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<200704x24xbf16>) outs(%y : tensor<200704x24xbf16>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: bf16, %o: bf16):
        linalg.yield %a : bf16
      } -> tensor<200704x24xbf16>
      return %0 : tensor<200704x24xbf16>
    }

    // A block of a row's 257 elements is half empty, but parts of the row would be, too: the last of five has one.
    // CHECK-LABEL: func.func @parts_of_rows
    // CHECK-SAME: cuesta.blocks = [4, 512]
    func.func @parts_of_rows(%x: tensor<49152x257xbf16>, %y: tensor<49152x257xbf16> {bufferization.buffer_layout = strided<[770, 1]>}) -> tensor<49152x257xbf16> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [49152, 257]} {
      %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<49152x257xbf16>) outs(%y : tensor<49152x257xbf16>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: bf16, %o: bf16):
        linalg.yield %a : bf16
      } -> tensor<49152x257xbf16>
      return %0 : tensor<49152x257xbf16>
    }

    // Pixels from channels: both tensors end in the same two columns, and neighbours go on in other dims. 32 of each are
    // in a block: eight channels of 2x2 that are read, and 16 or more pixels of a row that are written.
    // CHECK-LABEL: func.func @pixels
    // CHECK-SAME: cuesta.blocks = [1, 8, 2, 2, 32, 2]
    func.func @pixels(%x: tensor<16x96x96x64x2x2xbf16>, %y: tensor<16x64x96x2x96x2xbf16>) -> tensor<16x64x96x2x96x2xbf16> attributes {cuesta.parallel = [0, 1, 2, 3, 4, 5], cuesta.sizes = [16, 64, 96, 2, 96, 2]} {
      %0 = linalg.generic {indexing_maps = [#channels, #id6], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<16x96x96x64x2x2xbf16>) outs(%y : tensor<16x64x96x2x96x2xbf16>) attrs = {cuesta.classes = [0, 1, 2, 3, 4, 5]} {
      ^bb0(%a: bf16, %o: bf16):
        linalg.yield %a : bf16
      } -> tensor<16x64x96x2x96x2xbf16>
      return %0 : tensor<16x64x96x2x96x2xbf16>
    }

    // Three orders, each with 32 neighbours of its own: a block of them all would have 32,768 elements.
    // CHECK-LABEL: func.func @three_orders
    // CHECK-SAME: cuesta.blocks = [16, 16, 8]
    func.func @three_orders(%x: tensor<64x64x64xf32>, %y: tensor<64x64x64xf32>, %z: tensor<64x64x64xf32>) -> tensor<64x64x64xf32> attributes {cuesta.parallel = [0, 1, 2], cuesta.sizes = [64, 64, 64]} {
      %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2, d1)>, affine_map<(d0, d1, d2) -> (d2, d1, d0)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %y : tensor<64x64x64xf32>, tensor<64x64x64xf32>) outs(%z : tensor<64x64x64xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %s = arith.addf %a, %b : f32
        linalg.yield %s : f32
      } -> tensor<64x64x64xf32>
      return %0 : tensor<64x64x64xf32>
    }

    // Rows that fit: whole, several to a program.
    // CHECK-LABEL: func.func @rows
    // CHECK-SAME: cuesta.blocks = [4, 256]
    func.func @rows(%x: tensor<3072x250xf32>, %y: tensor<3072xf32>) -> tensor<3072xf32> attributes {cuesta.parallel = [0], cuesta.sizes = [3072, 250]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<3072xf32>) -> tensor<3072xf32>
      %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3072x250xf32>) outs(%f : tensor<3072xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<3072xf32>
      return %s : tensor<3072xf32>
    }

    // A product by a vector: 8192 bytes of the matrix to a program, 64 to a thread.
    // CHECK-LABEL: func.func @by_a_vector
    // CHECK-SAME: cuesta.blocks = [1, 2048]
    // CHECK-SAME: cuesta.warps = 4
    func.func @by_a_vector(%x: tensor<2048x2048xf32>, %v: tensor<2048xf32>, %y: tensor<2048xf32>) -> tensor<2048xf32> attributes {cuesta.parallel = [0], cuesta.sizes = [2048, 2048]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<2048xf32>) -> tensor<2048xf32>
      %s = linalg.generic {indexing_maps = [#id, #col, #row], iterator_types = ["parallel", "reduction"]} ins(%x, %v : tensor<2048x2048xf32>, tensor<2048xf32>) outs(%f : tensor<2048xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %p = arith.mulf %a, %b : f32
        %r = arith.addf %o, %p : f32
        linalg.yield %r : f32
      } -> tensor<2048xf32>
      return %s : tensor<2048xf32>
    }

    // Two loops that no op walks together: the part that one takes at a time leaves the other its own.
    // CHECK-LABEL: func.func @one_after_the_other
    // CHECK-SAME: cuesta.blocks = [1, 4096, 4096], cuesta.loops = [1, 2]
    func.func @one_after_the_other(%x: tensor<64x20000xf32>, %z: tensor<64x30000xf32>, %sum: tensor<64xf32>, %y: tensor<64x30000xf32>) -> (tensor<64xf32>, tensor<64x30000xf32>) attributes {cuesta.parallel = [0], cuesta.sizes = [64, 20000, 30000]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%sum : tensor<64xf32>) -> tensor<64xf32>
      %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x20000xf32>) outs(%f : tensor<64xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<64xf32>
      %d = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%z, %s : tensor<64x30000xf32>, tensor<64xf32>) outs(%y : tensor<64x30000xf32>) attrs = {cuesta.classes = [0, 2]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %r = arith.divf %a, %b : f32
        linalg.yield %r : f32
      } -> tensor<64x30000xf32>
      return %s, %d : tensor<64xf32>, tensor<64x30000xf32>
    }

    // Read at computed rows, along columns that lie side by side, and written along rows: a block of both.
    // CHECK-LABEL: func.func @read_at_positions
    // CHECK-SAME: cuesta.blocks = [32, 32]
    func.func @read_at_positions(%x: tensor<520x384xf32>, %at: tensor<512xi64>, %y: tensor<384x512xf32>) -> tensor<384x512xf32> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [384, 512]} {
      %0 = linalg.generic {indexing_maps = [#col, #id], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<512xi64>) outs(%y : tensor<384x512xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%i: i64, %o: f32):
        %row = arith.index_cast %i : i64 to index
        %column = linalg.index 0 : index
        %r = tensor.extract %x[%row, %column] : tensor<520x384xf32>
        linalg.yield %r : f32
      } -> tensor<384x512xf32>
      return %0 : tensor<384x512xf32>
    }

    // A number for each column: a thread's rows share what it loads. A block has all columns, if they are few.
    // CHECK-LABEL: func.func @shared_columns
    // CHECK-SAME: cuesta.blocks = [8, 256]
    // CHECK-SAME: cuesta.warps = 4
    func.func @shared_columns(%x: tensor<200704x144xbf16>, %f: tensor<144xbf16>, %y: tensor<200704x144xbf16>) -> tensor<200704x144xbf16> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [200704, 144]} {
      %0 = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %f : tensor<200704x144xbf16>, tensor<144xbf16>) outs(%y : tensor<200704x144xbf16>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: bf16, %b: bf16, %o: bf16):
        %r = arith.mulf %a, %b : bf16
        linalg.yield %r : bf16
      } -> tensor<200704x144xbf16>
      return %0 : tensor<200704x144xbf16>
    }

    // Of many columns it has as many as leave few for nothing, and so more rows share their numbers.
    // CHECK-LABEL: func.func @many_columns
    // CHECK-SAME: cuesta.blocks = [32, 64]
    // CHECK-SAME: cuesta.warps = 4
    func.func @many_columns(%x: tensor<12544x320xbf16>, %f: tensor<320xbf16>, %y: tensor<12544x320xbf16>) -> tensor<12544x320xbf16> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [12544, 320]} {
      %0 = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %f : tensor<12544x320xbf16>, tensor<320xbf16>) outs(%y : tensor<12544x320xbf16>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: bf16, %b: bf16, %o: bf16):
        %r = arith.mulf %a, %b : bf16
        linalg.yield %r : bf16
      } -> tensor<12544x320xbf16>
      return %0 : tensor<12544x320xbf16>
    }

    // Sums down columns: a program walks 32 rows at a time, with the loads of three turns in flight.
    // CHECK-LABEL: func.func @down
    // CHECK-SAME: cuesta.blocks = [1, 32, 32], cuesta.loops = [1]
    // CHECK-SAME: cuesta.stages = 3 : i64, cuesta.warps = 2
    func.func @down(%x: tensor<256x784x144xf32>, %y: tensor<256x144xf32>) -> tensor<256x144xf32> attributes {cuesta.parallel = [0, 2], cuesta.sizes = [256, 784, 144]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<256x144xf32>) -> tensor<256x144xf32>
      %0 = linalg.generic {indexing_maps = [#id3, #of_column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<256x784x144xf32>) outs(%f : tensor<256x144xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<256x144xf32>
      return %0 : tensor<256x144xf32>
    }

    // The same of rows that begin at whole sectors, though they end within one; of rows that are only read, 64 at a time.
    // CHECK-LABEL: func.func @of_columns_apart
    // CHECK-SAME: cuesta.blocks = [64, 32], cuesta.loops = [0]
    // CHECK-SAME: cuesta.sizes = [8192, 30522], cuesta.stages = 3 : i64, cuesta.warps = 4
    func.func @of_columns_apart(%x: tensor<8192x30522xbf16> {bufferization.buffer_layout = strided<[30528, 1]>}, %y: tensor<30522xf32>) -> tensor<30522xf32> attributes {cuesta.parallel = [1], cuesta.sizes = [8192, 30522]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<30522xf32>) -> tensor<30522xf32>
      %0 = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<8192x30522xbf16>) outs(%f : tensor<30522xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: bf16, %o: f32):
        %w = arith.extf %a : bf16 to f32
        %r = arith.addf %o, %w : f32
        linalg.yield %r : f32
      } -> tensor<30522xf32>
      return %0 : tensor<30522xf32>
    }

    // A sum along other loops takes no room of a turn. Eight columns have more rows, eight elements of each thread.
    // CHECK-LABEL: func.func @beside_another_sum
    // CHECK-SAME: cuesta.blocks = [1, 8, 128, 32], cuesta.loops = [2]
    // CHECK-SAME: cuesta.warps = 4
    func.func @beside_another_sum(%x: tensor<2048x8x32xf32>, %g: tensor<2048x2048x8xf32>, %y: tensor<2048x8xf32>, %z: tensor<2048x2048x8xf32>) -> (tensor<2048x8xf32>, tensor<2048x2048x8xf32>) attributes {cuesta.parallel = [0, 1], cuesta.sizes = [2048, 8, 2048, 32]} {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<2048x8xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2048x8xf32>) -> tensor<2048x8xf32>
      %l = linalg.generic {indexing_maps = [#id3, #of_row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2048x8x32xf32>) outs(%f : tensor<2048x8xf32>) attrs = {cuesta.classes = [0, 1, 3]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<2048x8xf32>
      %b = linalg.generic {indexing_maps = [#id3, #of_column, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%g, %l : tensor<2048x2048x8xf32>, tensor<2048x8xf32>) outs(%z : tensor<2048x2048x8xf32>) attrs = {cuesta.classes = [0, 2, 1]} {
      ^bb0(%a: f32, %m: f32, %o: f32):
        %r = arith.addf %a, %m : f32
        linalg.yield %r : f32
      } -> tensor<2048x2048x8xf32>
      %h = linalg.fill ins(%zero : f32) outs(%y : tensor<2048x8xf32>) -> tensor<2048x8xf32>
      %d = linalg.generic {indexing_maps = [#id3, #of_column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%b : tensor<2048x2048x8xf32>) outs(%h : tensor<2048x8xf32>) attrs = {cuesta.classes = [0, 2, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<2048x8xf32>
      return %d, %b : tensor<2048x8xf32>, tensor<2048x2048x8xf32>
    }

    // Several sums down few rows: a program walks them one by one, and each thread has sums of its own.
    // CHECK-LABEL: func.func @short_columns
    // CHECK-SAME: cuesta.blocks = [2, 1, 512], cuesta.loops = [1]
    // CHECK-SAME: cuesta.warps = 4
    func.func @short_columns(%x: tensor<784x16x384xf32>, %g: tensor<784x16x384xf32>, %y: tensor<784x384xf32>, %z: tensor<784x384xf32>) -> (tensor<784x384xf32>, tensor<784x384xf32>) attributes {cuesta.parallel = [0, 2], cuesta.sizes = [784, 16, 384]} {
      %zero = arith.constant 0.0 : f32
      %f0 = linalg.fill ins(%zero : f32) outs(%y : tensor<784x384xf32>) -> tensor<784x384xf32>
      %0 = linalg.generic {indexing_maps = [#id3, #id3, #of_column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x, %g : tensor<784x16x384xf32>, tensor<784x16x384xf32>) outs(%f0 : tensor<784x384xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %p = arith.mulf %a, %b : f32
        %r = arith.addf %o, %p : f32
        linalg.yield %r : f32
      } -> tensor<784x384xf32>
      %f1 = linalg.fill ins(%zero : f32) outs(%z : tensor<784x384xf32>) -> tensor<784x384xf32>
      %1 = linalg.generic {indexing_maps = [#id3, #id3, #of_column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x, %g : tensor<784x16x384xf32>, tensor<784x16x384xf32>) outs(%f1 : tensor<784x384xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %p = arith.subf %a, %b : f32
        %r = arith.addf %o, %p : f32
        linalg.yield %r : f32
      } -> tensor<784x384xf32>
      return %0, %1 : tensor<784x384xf32>, tensor<784x384xf32>
    }

    // Columns of less than a sector: their programs have several of them whole.
    // CHECK-LABEL: func.func @two_columns
    // CHECK-SAME: cuesta.blocks = [8, 128, 2], cuesta.parallel
    // CHECK-SAME: cuesta.warps = 4
    func.func @two_columns(%x: tensor<8192x100x2xf32>, %y: tensor<8192x2xf32>) -> tensor<8192x2xf32> attributes {cuesta.parallel = [0, 2], cuesta.sizes = [8192, 100, 2]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<8192x2xf32>) -> tensor<8192x2xf32>
      %0 = linalg.generic {indexing_maps = [#id3, #of_column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<8192x100x2xf32>) outs(%f : tensor<8192x2xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<8192x2xf32>
      return %0 : tensor<8192x2xf32>
    }

    // Few columns in all: each program has them whole, as a loop's turns would wait one for the other.
    // CHECK-LABEL: func.func @few_columns
    // CHECK-SAME: cuesta.blocks = [1024, 8]
    // CHECK-NOT: cuesta.loops
    func.func @few_columns(%x: tensor<784x320xf32>, %y: tensor<320xf32>) -> tensor<320xf32> attributes {cuesta.parallel = [1], cuesta.sizes = [784, 320]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<320xf32>) -> tensor<320xf32>
      %0 = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<784x320xf32>) outs(%f : tensor<320xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<320xf32>
      return %0 : tensor<320xf32>
    }

    // Rows that are reduced both along and down: a program walks those of its part, 512 elements at a time, each row in
    // one warp.
    // CHECK-LABEL: func.func @narrow_rows
    // CHECK-SAME: cuesta.blocks = [1, 16, 32], cuesta.loops = [1]
    // CHECK-SAME: cuesta.warps = 1
    func.func @narrow_rows(%x: tensor<784x128x24xf32>, %y: tensor<784x24xf32>, %z: tensor<784x128x24xf32>) -> (tensor<784x24xf32>, tensor<784x128x24xf32>) attributes {cuesta.parallel = [0], cuesta.sizes = [784, 128, 24]} {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<784x128xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<784x128xf32>) -> tensor<784x128xf32>
      %g = linalg.fill ins(%zero : f32) outs(%y : tensor<784x24xf32>) -> tensor<784x24xf32>
      %along = linalg.generic {indexing_maps = [#id3, #of_row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<784x128x24xf32>) outs(%f : tensor<784x128xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<784x128xf32>
      %down = linalg.generic {indexing_maps = [#id3, #of_column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<784x128x24xf32>) outs(%g : tensor<784x24xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<784x24xf32>
      %d = linalg.generic {indexing_maps = [#id3, #of_row, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %along : tensor<784x128x24xf32>, tensor<784x128xf32>) outs(%z : tensor<784x128x24xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %r = arith.subf %a, %b : f32
        linalg.yield %r : f32
      } -> tensor<784x128x24xf32>
      return %down, %d : tensor<784x24xf32>, tensor<784x128x24xf32>
    }

    // Many of them are four warps' work, each of which takes as many rows.
    // CHECK-LABEL: func.func @many_narrow_rows
    // CHECK-SAME: cuesta.blocks = [1, 32, 64], cuesta.loops = [1]
    // CHECK-SAME: cuesta.warps = 4
    func.func @many_narrow_rows(%x: tensor<784x256x48xf32>, %y: tensor<784x48xf32>, %z: tensor<784x256x48xf32>) -> (tensor<784x48xf32>, tensor<784x256x48xf32>) attributes {cuesta.parallel = [0], cuesta.sizes = [784, 256, 48]} {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<784x256xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<784x256xf32>) -> tensor<784x256xf32>
      %g = linalg.fill ins(%zero : f32) outs(%y : tensor<784x48xf32>) -> tensor<784x48xf32>
      %along = linalg.generic {indexing_maps = [#id3, #of_row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<784x256x48xf32>) outs(%f : tensor<784x256xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<784x256xf32>
      %down = linalg.generic {indexing_maps = [#id3, #of_column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<784x256x48xf32>) outs(%g : tensor<784x48xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<784x48xf32>
      %d = linalg.generic {indexing_maps = [#id3, #of_row, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %along : tensor<784x256x48xf32>, tensor<784x256xf32>) outs(%z : tensor<784x256x48xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %r = arith.subf %a, %b : f32
        linalg.yield %r : f32
      } -> tensor<784x256x48xf32>
      return %down, %d : tensor<784x48xf32>, tensor<784x256x48xf32>
    }

    // Of wide rows, one at a time.
    // CHECK-LABEL: func.func @wide_rows
    // CHECK-SAME: cuesta.blocks = [1, 1, 1024], cuesta.loops = [1]
    // CHECK-SAME: cuesta.warps = 1
    func.func @wide_rows(%x: tensor<788x8x768xf32>, %y: tensor<788x768xf32>, %z: tensor<788x8x768xf32>) -> (tensor<788x768xf32>, tensor<788x8x768xf32>) attributes {cuesta.parallel = [0], cuesta.sizes = [788, 8, 768]} {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<788x8xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<788x8xf32>) -> tensor<788x8xf32>
      %g = linalg.fill ins(%zero : f32) outs(%y : tensor<788x768xf32>) -> tensor<788x768xf32>
      %along = linalg.generic {indexing_maps = [#id3, #of_row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<788x8x768xf32>) outs(%f : tensor<788x8xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<788x8xf32>
      %down = linalg.generic {indexing_maps = [#id3, #of_column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<788x8x768xf32>) outs(%g : tensor<788x768xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<788x768xf32>
      %d = linalg.generic {indexing_maps = [#id3, #of_row, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %along : tensor<788x8x768xf32>, tensor<788x8xf32>) outs(%z : tensor<788x8x768xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %r = arith.subf %a, %b : f32
        linalg.yield %r : f32
      } -> tensor<788x8x768xf32>
      return %down, %d : tensor<788x768xf32>, tensor<788x8x768xf32>
    }

    // A sum of few elements that lie apart, all that a kernel reduces: a loop of one at a time.
    // CHECK-LABEL: func.func @sum_of_two
    // CHECK-SAME: cuesta.blocks = [16, 1, 64], cuesta.loops = [1]
    // CHECK-SAME: cuesta.warps = 4
    func.func @sum_of_two(%x: tensor<100352x2x64xf32>, %y: tensor<100352x64xf32>) -> tensor<100352x64xf32> attributes {cuesta.parallel = [0, 2], cuesta.sizes = [100352, 2, 64]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<100352x64xf32>) -> tensor<100352x64xf32>
      %s = linalg.generic {indexing_maps = [#id3, #of_column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<100352x2x64xf32>) outs(%f : tensor<100352x64xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<100352x64xf32>
      return %s : tensor<100352x64xf32>
    }

    // But not where the elements are read again: the program holds them, each in a block of its own.
    // CHECK-LABEL: func.func @read_again
    // CHECK-SAME: cuesta.blocks = [8, 1, 64]
    // CHECK-NOT: cuesta.loops
    // CHECK-SAME: cuesta.singles = [1]
    // CHECK-SAME: cuesta.sizes = [100352, 2, 64]
    func.func @read_again(%x: tensor<100352x2x64xf32>, %y: tensor<100352x2x64xf32>) -> tensor<100352x2x64xf32> attributes {cuesta.parallel = [0, 2], cuesta.sizes = [100352, 2, 64]} {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<100352x64xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<100352x64xf32>) -> tensor<100352x64xf32>
      %s = linalg.generic {indexing_maps = [#id3, #of_column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<100352x2x64xf32>) outs(%f : tensor<100352x64xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<100352x64xf32>
      %d = linalg.generic {indexing_maps = [#id3, #of_column, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %s : tensor<100352x2x64xf32>, tensor<100352x64xf32>) outs(%y : tensor<100352x2x64xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %r = arith.divf %a, %b : f32
        linalg.yield %r : f32
      } -> tensor<100352x2x64xf32>
      return %d : tensor<100352x2x64xf32>
    }

    // A sum of very many columns, in rows that begin anywhere: programs are enough to wait for each other's loads, and keep their warps.
    // CHECK-LABEL: func.func @sum_of_many_columns
    // CHECK-SAME: cuesta.blocks = [32, 32], cuesta.loops = [0]
    // CHECK-SAME: cuesta.warps = 4
    func.func @sum_of_many_columns(%x: tensor<8192x30522xbf16>, %y: tensor<30522xf32>) -> tensor<30522xf32> attributes {cuesta.parallel = [1], cuesta.sizes = [8192, 30522]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<30522xf32>) -> tensor<30522xf32>
      %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<8192x30522xbf16>) outs(%f : tensor<30522xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: bf16, %o: f32):
        %w = arith.extf %a : bf16 to f32
        %r = arith.addf %o, %w : f32
        linalg.yield %r : f32
      } -> tensor<30522xf32>
      return %0 : tensor<30522xf32>
    }

    // Nor where what is summed is summed again, down columns. Few programs: turns of 256 rows, as many as keep memory
    // busy, 32 elements of a thread.
    // CHECK-LABEL: func.func @sum_of_sums
    // CHECK-SAME: cuesta.blocks = [1, 256, 1, 16], cuesta.loops = [1]
    // CHECK-SAME: cuesta.singles = [2]
    // CHECK-SAME: cuesta.warps = 8
    func.func @sum_of_sums(%x: tensor<32x3136x2x128xbf16>, %y: tensor<32x128xbf16>) -> tensor<32x128xbf16> attributes {cuesta.parallel = [0, 3], cuesta.sizes = [32, 3136, 2, 128]} {
      %zero = arith.constant 0.0 : bf16
      %e = tensor.empty() : tensor<32x3136x128xbf16>
      %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<32x3136x128xbf16>) -> tensor<32x3136x128xbf16>
      %g = linalg.fill ins(%zero : bf16) outs(%y : tensor<32x128xbf16>) -> tensor<32x128xbf16>
      %s = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%x : tensor<32x3136x2x128xbf16>) outs(%f : tensor<32x3136x128xbf16>) attrs = {cuesta.classes = [0, 1, 2, 3]} {
      ^bb0(%a: bf16, %o: bf16):
        %r = arith.addf %o, %a : bf16
        linalg.yield %r : bf16
      } -> tensor<32x3136x128xbf16>
      %d = linalg.generic {indexing_maps = [#id3, #of_column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%s : tensor<32x3136x128xbf16>) outs(%g : tensor<32x128xbf16>) attrs = {cuesta.classes = [0, 1, 3]} {
      ^bb0(%a: bf16, %o: bf16):
        %r = arith.addf %o, %a : bf16
        linalg.yield %r : bf16
      } -> tensor<32x128xbf16>
      return %d : tensor<32x128xbf16>
    }

    // Rows that do not: a loop over parts of one.
    // CHECK-LABEL: func.func @long_rows
    // CHECK-SAME: cuesta.blocks = [1, 4096], cuesta.loops = [1]
    func.func @long_rows(%x: tensor<512x50257xf32>, %y: tensor<512xf32>) -> tensor<512xf32> attributes {cuesta.parallel = [0], cuesta.sizes = [512, 50257]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<512xf32>) -> tensor<512xf32>
      %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<512x50257xf32>) outs(%f : tensor<512xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<512xf32>
      return %s : tensor<512xf32>
    }

    // Two classes, neither of which fits beside the strip of columns: one loop walks both.
    // CHECK-LABEL: func.func @two_loops
    // CHECK-SAME: cuesta.blocks = [1, 8, 512], cuesta.loops = [0, 2]
    func.func @two_loops(%z: tensor<20000x9000x64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> attributes {cuesta.parallel = [1], cuesta.sizes = [9000, 64, 20000]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<64xf32>) -> tensor<64xf32>
      %s = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0, d1)>, affine_map<(d0, d1, d2) -> (d1)>], iterator_types = ["reduction", "parallel", "reduction"]} ins(%z : tensor<20000x9000x64xf32>) outs(%f : tensor<64xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<64xf32>
      return %s : tensor<64xf32>
    }

    // Sums down columns: a strip of columns, so that a warp reads whole sectors.
    // CHECK-LABEL: func.func @columns
    // CHECK-SAME: cuesta.blocks = [256, 8]
    func.func @columns(%x: tensor<256x768xf32>, %y: tensor<768xf32>) -> tensor<768xf32> attributes {cuesta.parallel = [1], cuesta.sizes = [256, 768]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<768xf32>) -> tensor<768xf32>
      %s = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<256x768xf32>) outs(%f : tensor<768xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<768xf32>
      return %s : tensor<768xf32>
    }

    // Of a large tensor with few rows each program reads more columns, and each thread more of them.
    // CHECK-LABEL: func.func @few_rows_of_columns
    // CHECK-SAME: cuesta.blocks = [64, 1, 64]
    // CHECK-SAME: cuesta.warps = 4
    func.func @few_rows_of_columns(%x: tensor<64x2364x197xbf16>, %y: tensor<2364x197xbf16>) -> tensor<2364x197xbf16> attributes {cuesta.parallel = [1, 2], cuesta.sizes = [64, 2364, 197]} {
      %zero = arith.constant 0.0 : bf16
      %f = linalg.fill ins(%zero : bf16) outs(%y : tensor<2364x197xbf16>) -> tensor<2364x197xbf16>
      %s = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>], iterator_types = ["reduction", "parallel", "parallel"]} ins(%x : tensor<64x2364x197xbf16>) outs(%f : tensor<2364x197xbf16>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: bf16, %o: bf16):
        %r = arith.addf %o, %a : bf16
        linalg.yield %r : bf16
      } -> tensor<2364x197xbf16>
      return %s : tensor<2364x197xbf16>
    }

    // Read along one class and written along the other: a square, so that both are walked fast.
    // CHECK-LABEL: func.func @transpose
    // CHECK-SAME: cuesta.blocks = [32, 32]
    func.func @transpose(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [1024, 1024]} {
      %0 = linalg.generic {indexing_maps = [#id, #t], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1024x1024xf32>) outs(%y : tensor<1024x1024xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        linalg.yield %a : f32
      } -> tensor<1024x1024xf32>
      return %0 : tensor<1024x1024xf32>
    }

    // Little work: small blocks, to give more programs.
    // CHECK-LABEL: func.func @small
    // CHECK-SAME: cuesta.blocks = [64]
    // CHECK-SAME: cuesta.warps = 1
    func.func @small(%x: tensor<4096xf32>, %y: tensor<4096xf32>) -> tensor<4096xf32> attributes {cuesta.parallel = [0], cuesta.sizes = [4096]} {
      %0 = linalg.generic {indexing_maps = [#id1, #id1], iterator_types = ["parallel"]} ins(%x : tensor<4096xf32>) outs(%y : tensor<4096xf32>) attrs = {cuesta.classes = [0]} {
      ^bb0(%a: f32, %o: f32):
        %r = math.exp %a : f32
        linalg.yield %r : f32
      } -> tensor<4096xf32>
      return %0 : tensor<4096xf32>
    }

    // Two classes that no generic walks together are both whole: a program holds one block at a time.
    // CHECK-LABEL: func.func @side_by_side
    // CHECK-SAME: cuesta.blocks = [1, 512, 1024]
    // CHECK-NOT: cuesta.loops
    // CHECK-SAME: cuesta.sizes = [2048, 512, 1024]
    func.func @side_by_side(%x: tensor<2048x512xf32>, %y: tensor<2048x1024xf32>, %a: tensor<2048x512xf32>, %b: tensor<2048x1024xf32>) -> (tensor<2048x512xf32>, tensor<2048x1024xf32>) attributes {cuesta.parallel = [0], cuesta.sizes = [2048, 512, 1024]} {
      %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2048x512xf32>) outs(%a : tensor<2048x512xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%i: f32, %o: f32):
        %r = math.exp %i : f32
        linalg.yield %r : f32
      } -> tensor<2048x512xf32>
      %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<2048x1024xf32>) outs(%b : tensor<2048x1024xf32>) attrs = {cuesta.classes = [0, 2]} {
      ^bb0(%i: f32, %o: f32):
        %r = math.exp %i : f32
        linalg.yield %r : f32
      } -> tensor<2048x1024xf32>
      return %0, %1 : tensor<2048x512xf32>, tensor<2048x1024xf32>
    }

    // Where there would be room for several rows of two such classes, a program has one all the same.
    // CHECK-LABEL: func.func @one_row
    // CHECK-SAME: cuesta.blocks = [1, 256, 256]
    // CHECK-NOT: cuesta.loops
    // CHECK-SAME: cuesta.sizes = [2048, 192, 256]
    func.func @one_row(%x: tensor<2048x192xf32>, %y: tensor<2048x256xf32>, %a: tensor<2048x192xf32>, %b: tensor<2048x256xf32>) -> (tensor<2048x192xf32>, tensor<2048x256xf32>) attributes {cuesta.parallel = [0], cuesta.sizes = [2048, 192, 256]} {
      %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2048x192xf32>) outs(%a : tensor<2048x192xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%i: f32, %o: f32):
        %r = math.exp %i : f32
        linalg.yield %r : f32
      } -> tensor<2048x192xf32>
      %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<2048x256xf32>) outs(%b : tensor<2048x256xf32>) attrs = {cuesta.classes = [0, 2]} {
      ^bb0(%i: f32, %o: f32):
        %r = math.exp %i : f32
        linalg.yield %r : f32
      } -> tensor<2048x256xf32>
      return %0, %1 : tensor<2048x192xf32>, tensor<2048x256xf32>
    }
  }

  func.func @graph(%x: memref<2097152xf32>, %y: memref<1048576xf32>) {
    %0 = "host.view"(%x) {offset = 64 : i64} : (memref<2097152xf32>) -> memref<1048576xf32>
    %1 = "host.view"(%x) {offset = 36 : i64} : (memref<2097152xf32>) -> memref<1048576xf32>
    "host.launch"(%0, %y) {kernel = @kernels::@flat, ops = ["exp"], outputs = 1} : (memref<1048576xf32>, memref<1048576xf32>) -> ()
    "host.launch"(%1, %y) {kernel = @kernels::@flat, ops = ["exp"], outputs = 1} : (memref<1048576xf32>, memref<1048576xf32>) -> ()
    return
  }
}
