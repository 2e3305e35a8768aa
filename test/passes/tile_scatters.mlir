// RUN: cuesta-opt --split-input-file --pass-pipeline='builtin.module(cuesta-to-linalg{checks=false},form-kernels,plan-memory,tile-scatters)' %s | filecheck %s

// Strips of columns are shared out; rows follow one another, each to the place that its index says. What is written is
// computed on the way, into the argument, which was copied.
// CHECK-LABEL: func.func @copy
// CHECK-LABEL: func.func @kernel
// CHECK-SAME: %[[V:.*]]: tensor<300x512xf32> {{.*}}, %[[I:.*]]: tensor<300xi64> {{.*}}, %[[X:.*]]: tensor<40x512xf32> {bufferization.buffer_layout = strided<[512, 1]>, bufferization.writable = true}
// CHECK: scf.forall (%[[J:.*]]) = (0) to (512) step (256) shared_outs(%[[OUT:.*]] = %[[X]])
// CHECK: %[[STRIP:.*]] = tensor.extract_slice %[[OUT]][0, %[[J]]] [40, 256] [1, 1]
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C300:.*]] = arith.constant 300 : index
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK: scf.for %[[N:.*]] = %[[C0]] to %[[C300]] step %[[C1]] iter_args(%{{.*}} = %[[STRIP]])
// CHECK: %[[ROW:.*]] = tensor.extract_slice %[[V]][%[[N]], %[[J]]] [1, 256] [1, 1]
// CHECK: %[[EXP:.*]] = linalg.generic {{.*}} ins(%[[ROW]] : tensor<256xf32>)
// CHECK: math.exp
// CHECK: %[[PLACE:.*]] = arith.index_cast {{.*}} : i64 to index
// CHECK: %[[LOW:.*]] = arith.minsi %[[PLACE]]
// CHECK: %[[AT:.*]] = arith.maxsi %[[LOW]]
// CHECK-DAG: %[[C256:.*]] = arith.constant 256 : index
// CHECK: scf.for %[[K:.*]] = %{{.*}} to %[[C256]] step %{{.*}} iter_args(%[[HELD:.*]] = %{{.*}})
// CHECK: %[[NEW:.*]] = tensor.extract %[[EXP]][%[[K]]]
// CHECK: %[[OLD:.*]] = tensor.extract %[[HELD]][%[[AT]], %[[K]]]
// CHECK: %[[SUM:.*]] = arith.addf %[[OLD]], %[[NEW]]
// CHECK: tensor.insert %[[SUM]] into %[[HELD]][%[[AT]], %[[K]]]
// CHECK: tensor.parallel_insert_slice %{{.*}} into %[[OUT]][0, %[[J]]] [40, 256] [1, 1]
func.func @graph(%x: tensor<40x512xf32> {cuesta.strides = [512, 1]}, %i: tensor<300xi64> {cuesta.strides = [1]}, %v: tensor<300x512xf32> {cuesta.strides = [512, 1]}) -> (tensor<40x512xf32> {cuesta.strides = [512, 1]}) {
  %0 = "cuesta.exp"(%v) : (tensor<300x512xf32>) -> tensor<300x512xf32>
  %1 = "cuesta.reshape"(%i) : (tensor<300xi64>) -> tensor<300x1xi64>
  %2 = "cuesta.expand"(%1) : (tensor<300x1xi64>) -> tensor<300x512xi64>
  %3 = "cuesta.scatter"(%x, %0, %2) {walks = [-1, 1], combine = "add"} : (tensor<40x512xf32>, tensor<300x512xf32>, tensor<300x512xi64>) -> tensor<40x512xf32>
  return %3 : tensor<40x512xf32>
}

// -----
// No loop walks what is written: one after the other, in runs; of indices that count from the end, and lie inside.
// CHECK-LABEL: func.func @kernel
// CHECK-NOT: scf.forall
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C5000:.*]] = arith.constant 5000 : index
// CHECK-DAG: %[[C1000:.*]] = arith.constant 1000 : index
// CHECK: scf.for %[[N:.*]] = %[[C0]] to %[[C5000]] step %[[C1000]]
// CHECK: %[[RUN:.*]] = arith.constant 1000 : index
// CHECK: scf.for %[[K:.*]] = %{{.*}} to %[[RUN]] step
// CHECK: arith.cmpi slt
// CHECK: %[[AT:.*]] = arith.select
// CHECK-NOT: arith.minsi
// CHECK: %[[NEW:.*]] = tensor.extract
// CHECK: tensor.insert %[[NEW]] into %{{.*}}[%[[AT]]]
func.func @graph(%x: tensor<40xf32> {cuesta.strides = [1]}, %i: tensor<5000xi64> {cuesta.strides = [1]}, %v: tensor<5000xf32> {cuesta.strides = [1]}) -> (tensor<40xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.scatter"(%x, %v, %i) {walks = [-1], combine = "set", wraps, in_range} : (tensor<40xf32>, tensor<5000xf32>, tensor<5000xi64>) -> tensor<40xf32>
  return %0 : tensor<40xf32>
}
