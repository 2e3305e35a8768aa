// RUN: cuesta-opt --pass-pipeline='builtin.module(check-bounds)' %s | filecheck %s

// A kernel is passed where to record an access outside, and the bytes of its buffers, before its sizes. Each address is
// looked at before it is used, and may be that of a dummy then; nothing promises any more that it does not overflow.
// CHECK: module attributes {cuesta.accesses = {{\[\[}}0, "read", "{{.*}}"], [1, "write", "{{.*}}"], [0, "read", "{{.*}}"]
// CHECK: llvm.func @k__tiles__inside(
// CHECK-SAME: passthrough = ["alwaysinline"]
// CHECK: llvm.cmpxchg
// CHECK: llvm.func @k__tiles(%[[X:.*]]: !llvm.ptr {llvm.noalias}, %[[Y:.*]]: !llvm.ptr {llvm.noalias}, %[[RECORD:.*]]: !llvm.ptr, %[[XS:.*]]: i64, %[[YS:.*]]: i64, %[[N:.*]]: i64, %[[LO:.*]]: i64, %[[HI:.*]]: i64)
// CHECK-SAME: cuesta.tiles = 4
// CHECK: %[[BYTES:.*]] = llvm.mlir.constant(64 : i64) : i64
// CHECK: %[[DUMMY:.*]] = llvm.alloca %[[BYTES]] x i8 {alignment = 64 : i64}
// CHECK: llvm.intr.memset
// CHECK: %[[I:.*]] = llvm.add %[[N]], %[[LO]] : i64
// CHECK: %[[P:.*]] = llvm.getelementptr %[[X]][%[[I]]] :
// CHECK: %[[FOUR:.*]] = llvm.mlir.constant(4 : i64)
// CHECK: %[[SITE:.*]] = llvm.mlir.constant(1 : i64)
// CHECK: %[[CHECKED:.*]] = llvm.call @k__tiles__inside(%[[P]], %{{.*}}, %[[FOUR]], %[[X]], %[[XS]], %[[SITE]], %[[RECORD]], %[[DUMMY]])
// CHECK: %[[V:.*]] = llvm.load %[[CHECKED]]
// CHECK: %[[CHECKED:.*]] = llvm.call @k__tiles__inside(%[[Y]], %{{.*}}, %{{.*}}, %[[Y]], %[[YS]],
// CHECK: llvm.store %[[V]], %[[CHECKED]]
module {
  module @kernels {
    llvm.func @k__tiles(%x: !llvm.ptr {llvm.noalias}, %y: !llvm.ptr {llvm.noalias}, %n: i64, %lo: i64, %hi: i64) attributes {cuesta.tiles = 4 : i64, cuesta.work = 100 : i64} {
      %i = llvm.add %n, %lo overflow<nsw, nuw> : i64
      %p = llvm.getelementptr inbounds|nuw %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v = llvm.load %p : !llvm.ptr -> f32
      llvm.store %v, %y : f32, !llvm.ptr

      // Of a masked access, the bytes from the first active element to behind the last.
      // CHECK: %[[BITS:.*]] = llvm.bitcast %{{.*}} : vector<16xi1> to i16
      // CHECK: %[[WIDE:.*]] = llvm.zext %[[BITS]] : i16 to i64
      // CHECK: %[[FIRST:.*]] = "llvm.intr.cttz"(%[[WIDE]])
      // CHECK: "llvm.intr.ctlz"(%[[WIDE]])
      // CHECK: %[[COUNT:.*]] = llvm.select
      // CHECK: %[[START:.*]] = llvm.mul %[[FIRST]], %[[SIZE:.*]] : i64
      // CHECK: %[[WIDTH:.*]] = llvm.mul %[[COUNT]], %[[SIZE]] : i64
      // CHECK: %[[CHECKED:.*]] = llvm.call @k__tiles__inside(%[[X]], %[[START]], %[[WIDTH]], %[[X]], %[[XS]],
      // CHECK: llvm.intr.masked.load %[[CHECKED]],
      %m = llvm.mlir.constant(dense<true> : vector<16xi1>) : vector<16xi1>
      %z = llvm.mlir.constant(dense<0.0> : vector<16xf32>) : vector<16xf32>
      %w = llvm.intr.masked.load %x, %m, %z {alignment = 4 : i32} : (!llvm.ptr, vector<16xi1>, vector<16xf32>) -> vector<16xf32>

      // Scratch memory has its own size; so has that of malloc, whose begin is moved on to a multiple of 64.
      // CHECK: %[[S:.*]] = llvm.alloca %[[N]] x f32
      // CHECK: %[[SS:.*]] = llvm.mul %[[N]], %{{.*}} : i64
      // CHECK: llvm.call @k__tiles__inside(%[[S]], %{{.*}}, %{{.*}}, %[[S]], %[[SS]],
      %s = llvm.alloca %n x f32 {alignment = 64 : i64} : (i64) -> !llvm.ptr
      llvm.store %w, %s {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
      // CHECK: %[[MORE:.*]] = llvm.add %[[N]], %[[A:.*]] : i64
      // CHECK: llvm.call @malloc(%[[MORE]])
      // CHECK: %[[T:.*]] = llvm.inttoptr
      // CHECK-NEXT: %[[TS:.*]] = llvm.sub %[[MORE]], %[[A]] : i64
      // CHECK: llvm.call @k__tiles__inside(%[[T]], %{{.*}}, %{{.*}}, %[[T]], %[[TS]],
      %a = llvm.mlir.constant(64 : i64) : i64
      %b = llvm.mlir.constant(63 : i64) : i64
      %more = llvm.add %n, %a : i64
      %made = llvm.call @malloc(%more) : (i64) -> !llvm.ptr
      %number = llvm.ptrtoint %made : !llvm.ptr to i64
      %past = llvm.add %number, %b : i64
      %rest = llvm.urem %past, %a : i64
      %first = llvm.sub %past, %rest : i64
      %t = llvm.inttoptr %first : i64 to !llvm.ptr
      llvm.store %v, %t {alignment = 4 : i64} : f32, !llvm.ptr
      // CHECK: llvm.call @free(
      llvm.call @free(%made) : (!llvm.ptr) -> ()

      // Another function of the kernel's is passed the same.
      // CHECK: llvm.call @k__aligned(%[[X]], %[[Y]], %[[RECORD]], %[[XS]], %[[YS]], %[[N]])
      llvm.call @k__aligned(%x, %y, %n) : (!llvm.ptr, !llvm.ptr, i64) -> ()
      llvm.return
    }
    // A prefetch has no effect.
    // CHECK: llvm.func @k__aligned(%[[X:[^:]*]]: !llvm.ptr,
    // CHECK-NOT: llvm.call
    // CHECK: llvm.intr.prefetch"(%[[X]])
    llvm.func @k__aligned(%x: !llvm.ptr, %y: !llvm.ptr, %n: i64) {
      "llvm.intr.prefetch"(%x) <{cache = 1 : i32, hint = 3 : i32, rw = 0 : i32}> : (!llvm.ptr) -> ()
      llvm.return
    }
    llvm.func @malloc(i64) -> !llvm.ptr
    llvm.func @free(!llvm.ptr)
  }
}
