// RUN: cuesta-opt --pass-pipeline='builtin.module(tile-kernels)' %s | filecheck %s

#swap = affine_map<(d0, d1) -> (d1, d0)>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

module {
  module @kernels {
    // One row a tile; the row's maximum stays inside it.
    // CHECK-LABEL: func.func @rows
    // CHECK-SAME: (%[[ARG_X:[^:]*]]: {{[^%]*}}%[[Y:[^:]*]]:
    // CHECK: scf.forall (%[[I:.*]]) in (256) shared_outs(%[[O:.*]] = %[[Y]])
    // CHECK: %[[X:.*]] = tensor.extract_slice %[[ARG_X]][%[[I]], 0] [1, 512] [1, 1] : tensor<256x512xf32> to tensor<512xf32>
    // CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]} ins(%[[X]]
    // CHECK: %[[D:.*]] = tensor.extract_slice %[[O]][%[[I]], 0] [1, 512] [1, 1]
    // CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%[[X]], {{.*}} outs(%[[D]]
    // CHECK: tensor.parallel_insert_slice {{.*}} into %[[O]][%[[I]], 0] [1, 512] [1, 1]
    func.func @rows(%x: tensor<256x512xf32>, %y: tensor<256x512xf32> {bufferization.writable = true}) -> tensor<256x512xf32> attributes {cuesta.parallel = [0], cuesta.sizes = [256, 512]} {
      %low = arith.constant 0xFF800000 : f32
      %e = tensor.empty() : tensor<256xf32>
      %f = linalg.fill ins(%low : f32) outs(%e : tensor<256xf32>) -> tensor<256xf32>
      %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<256x512xf32>) outs(%f : tensor<256xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.maximumf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<256xf32>
      %s = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<256x512xf32>, tensor<256xf32>) outs(%y : tensor<256x512xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %r = arith.subf %a, %b : f32
        linalg.yield %r : f32
      } -> tensor<256x512xf32>
      return %s : tensor<256x512xf32>
    }

    // Rows that share what is done to a column go together, so that it is not done for each of them.
    // CHECK-LABEL: func.func @shared_by_rows
    // CHECK: scf.forall (%{{.*}}) = (0) to (4096) step (64)
    func.func @shared_by_rows(%x: tensor<4096x64xf32>, %v: tensor<64xf32>, %y: tensor<4096x64xf32> {bufferization.writable = true}) -> tensor<4096x64xf32> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [4096, 64]} {
      %e = tensor.empty() : tensor<64xf32>
      %d = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%v : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {cuesta.classes = [1]} {
      ^bb0(%a: f32, %o: f32):
        %r = math.sqrt %a : f32
        linalg.yield %r : f32
      } -> tensor<64xf32>
      %s = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %d : tensor<4096x64xf32>, tensor<64xf32>) outs(%y : tensor<4096x64xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %r = arith.mulf %a, %b : f32
        linalg.yield %r : f32
      } -> tensor<4096x64xf32>
      return %s : tensor<4096x64xf32>
    }

    // So do 16 where a row is as large as a tile.
    // CHECK-LABEL: func.func @shared_by_wide_rows
    // CHECK: scf.forall (%{{.*}}) = (0) to (4096) step (16)
    func.func @shared_by_wide_rows(%x: tensor<4096x8192xf32>, %v: tensor<8192xf32>, %y: tensor<4096x8192xf32> {bufferization.writable = true}) -> tensor<4096x8192xf32> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [4096, 8192]} {
      %e = tensor.empty() : tensor<8192xf32>
      %d = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%v : tensor<8192xf32>) outs(%e : tensor<8192xf32>) attrs = {cuesta.classes = [1]} {
      ^bb0(%a: f32, %o: f32):
        %r = math.sqrt %a : f32
        linalg.yield %r : f32
      } -> tensor<8192xf32>
      %s = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %d : tensor<4096x8192xf32>, tensor<8192xf32>) outs(%y : tensor<4096x8192xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %r = arith.mulf %a, %b : f32
        linalg.yield %r : f32
      } -> tensor<4096x8192xf32>
      return %s : tensor<4096x8192xf32>
    }

    // What is read across is transposed first, so that loops walk along its rows.
    // CHECK-LABEL: func.func @across
    // CHECK-SAME: (%[[ARG_X:[^:]*]]:
    // CHECK: scf.forall (%[[I:.*]], %[[J:.*]]) = (0, 0) to (1024, 1024) step (32, 128)
    // CHECK: %[[X:.*]] = tensor.extract_slice %[[ARG_X]][%[[J]], %[[I]]] [128, 32] [1, 1]
    // CHECK: %[[OWN:.*]] = tensor.empty() : tensor<32x128xf32>
    // CHECK: %[[TURNED:.*]] = linalg.transpose ins(%[[X]] : tensor<128x32xf32>) outs(%[[OWN]] : tensor<32x128xf32>) permutation = [1, 0]
    // CHECK: linalg.generic {indexing_maps = [#[[ID:.*]], #[[ID]]]{{.*}} ins(%[[TURNED]] : tensor<32x128xf32>)
    func.func @across(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32> {bufferization.writable = true}) -> tensor<1024x1024xf32> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [1024, 1024]} {
      %s = linalg.generic {indexing_maps = [#swap, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1024x1024xf32>) outs(%y : tensor<1024x1024xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = math.exp %a : f32
        linalg.yield %r : f32
      } -> tensor<1024x1024xf32>
      return %s : tensor<1024x1024xf32>
    }

    // Squares fill vectors: the last tiles reach back into those before, but not where what they add to is computed twice.
    // CHECK-LABEL: func.func @reaching_back
    // CHECK-SAME: (%[[X:[^:]*]]:
    // CHECK: scf.forall (%[[I:.*]], %[[J:.*]]) = (0, 0) to (1000, 1000) step (32, 128)
    // CHECK-DAG: %[[C968:.*]] = arith.constant 968 : index
    // CHECK-DAG: %[[ROW:.*]] = arith.minui %[[I]], %[[C968]]
    // CHECK-DAG: %[[C872:.*]] = arith.constant 872 : index
    // CHECK-DAG: %[[COLUMN:.*]] = arith.minui %[[J]], %[[C872]]
    // CHECK: tensor.extract_slice %[[X]][%[[COLUMN]], %[[ROW]]] [128, 32]
    // CHECK-LABEL: func.func @across_in_place
    // CHECK: step (25, 125)
    func.func @reaching_back(%x: tensor<1000x1000xf32>, %y: tensor<1000x1000xf32> {bufferization.writable = true}) -> tensor<1000x1000xf32> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [1000, 1000]} {
      %s = linalg.generic {indexing_maps = [#swap, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1000x1000xf32>) outs(%y : tensor<1000x1000xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %a, %a : f32
        linalg.yield %r : f32
      } -> tensor<1000x1000xf32>
      return %s : tensor<1000x1000xf32>
    }
    func.func @across_in_place(%x: tensor<1000x1000xf32>, %y: tensor<1000x1000xf32> {bufferization.writable = true}) -> tensor<1000x1000xf32> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [1000, 1000]} {
      %s = linalg.generic {indexing_maps = [#swap, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%y : tensor<1000x1000xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %r = arith.addf %a, %b : f32
        linalg.yield %r : f32
      } -> tensor<1000x1000xf32>
      return %s : tensor<1000x1000xf32>
    }

    // Where rows of one side are short, tiles are long along the other, along which they follow one another too.
    // CHECK-LABEL: func.func @to_short_rows
    // CHECK-SAME: (%[[X:[^:]*]]:
    // CHECK: scf.forall (%[[IMAGE:.*]], %[[CHANNEL:.*]], %[[AT:.*]]) = (0, 0, 0) to (8, 64, 1000) step (1, 16, 256)
    // CHECK-DAG: %[[C744:.*]] = arith.constant 744 : index
    // CHECK: %[[PIXEL:.*]] = arith.minui %[[AT]], %[[C744]]
    // CHECK: tensor.extract_slice %[[X]][%[[IMAGE]], %[[CHANNEL]], %[[PIXEL]]] [1, 16, 256]
    func.func @to_short_rows(%x: tensor<8x64x1000xf32>, %y: tensor<8x1000x64xf32> {bufferization.writable = true}) -> tensor<8x1000x64xf32> attributes {cuesta.parallel = [0, 1, 2], cuesta.sizes = [8, 1000, 64]} {
      %s = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<8x64x1000xf32>) outs(%y : tensor<8x1000x64xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        linalg.yield %a : f32
      } -> tensor<8x1000x64xf32>
      return %s : tensor<8x1000x64xf32>
    }

    // CHECK-LABEL: func.func @from_short_rows
    // CHECK-SAME: (%[[X:[^:]*]]:
    // CHECK: scf.forall (%[[IMAGE:.*]], %[[CHANNEL:.*]], %[[AT:.*]]) = (0, 0, 0) to (8, 64, 1000) step (1, 16, 256)
    // CHECK: tensor.extract_slice %[[X]][%[[IMAGE]], %{{.*}}, %[[CHANNEL]]] [1, 256, 16]
    func.func @from_short_rows(%x: tensor<8x1000x64xf32>, %y: tensor<8x64x1000xf32> {bufferization.writable = true}) -> tensor<8x64x1000xf32> attributes {cuesta.parallel = [0, 1, 2], cuesta.sizes = [8, 64, 1000]} {
      %s = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<8x1000x64xf32>) outs(%y : tensor<8x64x1000xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %o: f32):
        linalg.yield %a : f32
      } -> tensor<8x64x1000xf32>
      return %s : tensor<8x64x1000xf32>
    }

    // Of sizes that depend on the call too, into a part of a whole tile.
    // CHECK-LABEL: func.func @symbolic_across
    // CHECK-SAME: (%[[ARG_X:[^:]*]]:
    // CHECK-DAG: %[[C32:.*]] = arith.constant 32 : index
    // CHECK: %[[I:.*]] = arith.minsi %[[C32]], %{{.*}} : index
    // CHECK-DAG: %[[C128:.*]] = arith.constant 128 : index
    // CHECK: %[[J:.*]] = arith.minsi %[[C128]], %{{.*}} : index
    // CHECK: %[[X:.*]] = tensor.extract_slice %[[ARG_X]][%{{.*}}, %{{.*}}] [%[[J]], %[[I]]] [1, 1]
    // CHECK: %[[WHOLE:.*]] = tensor.empty() : tensor<32x128xf32>
    // CHECK: %[[PART:.*]] = tensor.extract_slice %[[WHOLE]][0, 0] [%[[I]], %[[J]]] [1, 1]
    // CHECK: %[[TURNED:.*]] = linalg.transpose ins(%[[X]] : tensor<?x?xf32>) outs(%[[PART]] : tensor<?x?xf32>) permutation = [1, 0]
    // CHECK: linalg.generic {{.*}} ins(%[[TURNED]] : tensor<?x?xf32>)
    func.func @symbolic_across(%x: tensor<?x?xf32> {cuesta.bound = [["p1", "p0"], ["p0", 1]]}, %y: tensor<?x?xf32> {bufferization.writable = true, cuesta.bound = [["p0", "p1"], ["p1", 1]]}, %p0: index, %p1: index) -> tensor<?x?xf32> attributes {cuesta.parallel = [0, 1], cuesta.sizes = ["p0", "p1"]} {
      %s = linalg.generic {indexing_maps = [#swap, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xf32>) outs(%y : tensor<?x?xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = math.exp %a : f32
        linalg.yield %r : f32
      } -> tensor<?x?xf32>
      return %s : tensor<?x?xf32>
    }

    // Sums down columns: eight strips of columns, the rows walked outside them.
    // CHECK-LABEL: func.func @columns
    // CHECK-SAME: (%[[X:[^:]*]]:
    // CHECK: scf.forall (%[[J:.*]]) = (0) to (768) step (96)
    // CHECK: tensor.extract_slice %[[X]][0, %[[J]]] [256, 96] [1, 1]
    // CHECK: iterator_types = ["reduction", "parallel"]
    func.func @columns(%x: tensor<256x768xf32>, %y: tensor<768xf32> {bufferization.writable = true}) -> tensor<768xf32> attributes {cuesta.parallel = [1], cuesta.sizes = [256, 768]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<768xf32>) -> tensor<768xf32>
      %s = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<256x768xf32>) outs(%f : tensor<768xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<768xf32>
      return %s : tensor<768xf32>
    }

    // Windows that lie side by side are reduced together: what is read of a row is 56 elements long, not 8.
    // CHECK-LABEL: func.func @windows
    // CHECK-SAME: (%[[X:[^:]*]]:
    // CHECK: scf.forall (%[[I:.*]]) in (448)
    // CHECK: tensor.extract_slice %[[X]][%[[I]], 0, 0, 0] [1, 8, 7, 8]
    func.func @windows(%x: tensor<448x8x7x8xf32>, %y: tensor<448x7xf32> {bufferization.writable = true}) -> tensor<448x7xf32> attributes {cuesta.parallel = [0, 2], cuesta.sizes = [448, 8, 7, 8]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<448x7xf32>) -> tensor<448x7xf32>
      %s = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, c)>], iterator_types = ["parallel", "reduction", "parallel", "reduction"]} ins(%x : tensor<448x8x7x8xf32>) outs(%f : tensor<448x7xf32>) attrs = {cuesta.classes = [0, 1, 2, 3]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<448x7xf32>
      return %s : tensor<448x7xf32>
    }

    // What is read across serves several rows once it is transposed: tiles have 16 of them.
    // CHECK-LABEL: func.func @distances
    // CHECK: scf.forall (%[[I:.*]], %[[J:.*]]) = (0, 0) to (256, 256) step (16, 64)
    // CHECK: linalg.transpose ins(%{{.*}} : tensor<64x32xf32>)
    func.func @distances(%x: tensor<256x32xf32>, %y: tensor<256x32xf32>, %o: tensor<256x256xf32> {bufferization.writable = true}) -> tensor<256x256xf32> attributes {cuesta.parallel = [0, 2], cuesta.sizes = [256, 32, 256]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%o : tensor<256x256xf32>) -> tensor<256x256xf32>
      %s = linalg.generic {indexing_maps = [affine_map<(i, k, j) -> (i, k)>, affine_map<(i, k, j) -> (j, k)>, affine_map<(i, k, j) -> (i, j)>], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x, %y : tensor<256x32xf32>, tensor<256x32xf32>) outs(%f : tensor<256x256xf32>) attrs = {cuesta.classes = [0, 1, 2]} {
      ^bb0(%a: f32, %b: f32, %r: f32):
        %d = arith.subf %a, %b : f32
        %n = arith.addf %r, %d : f32
        linalg.yield %n : f32
      } -> tensor<256x256xf32>
      return %s : tensor<256x256xf32>
    }

    // Four tensors of which two are written, one loop after the other: all of a tile stays in L1.
    // CHECK-LABEL: func.func @two_results
    // CHECK: scf.forall (%{{.*}}) = (0) to (65536) step (1024)
    func.func @two_results(%x: tensor<65536xf32>, %y: tensor<65536xf32>, %a: tensor<65536xf32> {bufferization.writable = true}, %b: tensor<65536xf32> {bufferization.writable = true}) -> (tensor<65536xf32>, tensor<65536xf32>) attributes {cuesta.parallel = [0], cuesta.sizes = [65536]} {
      %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<65536xf32>) outs(%a : tensor<65536xf32>) attrs = {cuesta.classes = [0]} {
      ^bb0(%p: f32, %q: f32):
        %n = arith.negf %p : f32
        linalg.yield %n : f32
      } -> tensor<65536xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%0, %y : tensor<65536xf32>, tensor<65536xf32>) outs(%b : tensor<65536xf32>) attrs = {cuesta.classes = [0]} {
      ^bb0(%p: f32, %q: f32, %r: f32):
        %n = arith.addf %p, %q : f32
        linalg.yield %n : f32
      } -> tensor<65536xf32>
      return %0, %1 : tensor<65536xf32>, tensor<65536xf32>
    }

    // A kernel without parallel classes has no tiles; its result is anchored in its destination.
    // CHECK-LABEL: func.func @serial
    // CHECK-SAME: (%{{[^:]*}}: {{[^%]*}}%[[Y:[^:]*]]:
    // CHECK-NOT: scf.forall
    // CHECK: %[[S:.*]] = linalg.generic
    // CHECK: %[[R:.*]] = bufferization.materialize_in_destination %[[S]] in %[[Y]]
    // CHECK: return %[[R]]
    func.func @serial(%x: tensor<8xf32>, %y: tensor<f32> {bufferization.writable = true}) -> tensor<f32> attributes {cuesta.parallel = [], cuesta.sizes = [8]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<f32>) -> tensor<f32>
      %s = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%x : tensor<8xf32>) outs(%f : tensor<f32>) attrs = {cuesta.classes = [0]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<f32>
      return %s : tensor<f32>
    }

    // What was measured goes before the rule of thumb.
    // CHECK-LABEL: func.func @measured
    // CHECK: scf.forall (%{{.*}}) = (0) to (768) step (256)
    func.func @measured(%x: tensor<256x768xf32>, %y: tensor<768xf32> {bufferization.writable = true}) -> tensor<768xf32> attributes {cuesta.parallel = [1], cuesta.sizes = [256, 768], cuesta.tile = [256]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<768xf32>) -> tensor<768xf32>
      %s = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<256x768xf32>) outs(%f : tensor<768xf32>) attrs = {cuesta.classes = [0, 1]} {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        linalg.yield %r : f32
      } -> tensor<768xf32>
      return %s : tensor<768xf32>
    }

    // A matrix product has tiles of its own size, or what divides the rows; they say where M, N and K are.
    // CHECK-LABEL: func.func @product
    // CHECK: scf.forall (%{{.*}}, %{{.*}}) = (0, 0) to (12, 96) step (6, 48)
    // CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<6x32xf32>, tensor<48x32xf32>) outs(%{{.*}} : tensor<6x48xf32>) attrs = {cuesta.product = [0, 1, 2], cuesta.product_tile = "8x48x32 by 8x48"}
    func.func @product(%x: tensor<12x32xf32>, %w: tensor<96x32xf32>, %y: tensor<12x96xf32> {bufferization.writable = true}) -> tensor<12x96xf32> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [12, 96, 32]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<12x96xf32>) -> tensor<12x96xf32>
      %s = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<12x32xf32>, tensor<96x32xf32>) outs(%f : tensor<12x96xf32>) attrs = {cuesta.classes = [0, 1, 2], cuesta.product = [0, 1, 2], cuesta.product_tile = "8x48x32 by 8x48"} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %p = arith.mulf %a, %b : f32
        %r = arith.addf %o, %p : f32
        linalg.yield %r : f32
      } -> tensor<12x96xf32>
      return %s : tensor<12x96xf32>
    }

    // Where nothing of about that size divides rows or columns, the last tile is smaller.
    // CHECK-LABEL: func.func @cut
    // CHECK: scf.forall (%[[I:.*]], %[[J:.*]]) = (0, 0) to (11, 97) step (8, 48)
    // CHECK-DAG: %[[M:.*]] = arith.minsi
    // CHECK-DAG: %[[N:.*]] = arith.minsi
    // CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [%[[M]], 32] [1, 1] : tensor<11x32xf32> to tensor<?x32xf32>
    // CHECK: tensor.extract_slice %{{.*}}[%[[J]], 0] [%[[N]], 32] [1, 1] : tensor<97x32xf32> to tensor<?x32xf32>
    // CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<?x32xf32>, tensor<?x32xf32>) outs(%{{.*}} : tensor<?x?xf32>)
    func.func @cut(%x: tensor<11x32xf32>, %w: tensor<97x32xf32>, %y: tensor<11x97xf32> {bufferization.writable = true}) -> tensor<11x97xf32> attributes {cuesta.parallel = [0, 1], cuesta.sizes = [11, 97, 32]} {
      %zero = arith.constant 0.0 : f32
      %f = linalg.fill ins(%zero : f32) outs(%y : tensor<11x97xf32>) -> tensor<11x97xf32>
      %s = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<11x32xf32>, tensor<97x32xf32>) outs(%f : tensor<11x97xf32>) attrs = {cuesta.classes = [0, 1, 2], cuesta.product = [0, 1, 2], cuesta.product_tile = "8x48x32 by 8x48"} {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %p = arith.mulf %a, %b : f32
        %r = arith.addf %o, %p : f32
        linalg.yield %r : f32
      } -> tensor<11x97xf32>
      return %s : tensor<11x97xf32>
    }
  }
}
