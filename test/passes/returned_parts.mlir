// RUN: cuesta-opt --pass-pipeline='builtin.module(split-reductions{programs=16 symbolic=false returned=true})' %s | filecheck %s
// RUN: cuesta-opt --pass-pipeline='builtin.module(split-reductions{programs=16 symbolic=false})' %s | filecheck --check-prefix=APART %s

// What is returned is what the reduction computes in parts.
// CHECK-LABEL: func.func @returned
// CHECK: %[[A:.*]] = "cuesta.sub"(%{{.*}}, %{{.*}}) : (tensor<64x32x2048xf32>
// CHECK: "cuesta.abs"(%[[A]])
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[A]]) : (tensor<64x32x2048xf32>) -> tensor<2048x2048xf32>
// CHECK: return %{{.*}}, %[[R]]
// APART-LABEL: func.func @returned
// APART-SAME: (%[[X:.*]]: tensor<2048x2048xf32>, %[[Y:.*]]: tensor<2048x2048xf32>)
// APART: %[[A:.*]] = "cuesta.sub"(%[[X]], %[[Y]])
// APART: return %{{.*}}, %[[A]]
func.func @returned(%x: tensor<2048x2048xf32>, %y: tensor<2048x2048xf32>) -> (tensor<f32>, tensor<2048x2048xf32>) {
  %0 = "cuesta.sub"(%x, %y) : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %1 = "cuesta.abs"(%0) : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %2 = "cuesta.sum"(%1) {dims = [0, 1], keepdim = 0} : (tensor<2048x2048xf32>) -> tensor<f32>
  return %2, %0 : tensor<f32>, tensor<2048x2048xf32>
}

// An elementwise op between the two is in parts as well, with a number that is made later.
// CHECK-LABEL: func.func @between
// CHECK: %[[A:.*]] = "cuesta.sub"(%{{.*}}, %{{.*}}) : (tensor<64x32x2048xf32>
// CHECK: %[[C:.*]] = "cuesta.constant"
// CHECK: %[[B:.*]] = "cuesta.mul"(%[[A]], %[[C]]) : (tensor<64x32x2048xf32>
// CHECK: "cuesta.sum"
// CHECK: %[[R:.*]] = "cuesta.reshape"(%[[B]]) : (tensor<64x32x2048xf32>) -> tensor<2048x2048xf32>
// CHECK: return %{{.*}}, %[[R]]
func.func @between(%x: tensor<2048x2048xf32>, %y: tensor<2048x2048xf32>) -> (tensor<f32>, tensor<2048x2048xf32>) {
  %0 = "cuesta.sub"(%x, %y) : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %1 = "cuesta.abs"(%0) : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %2 = "cuesta.sum"(%1) {dims = [0, 1], keepdim = 0} : (tensor<2048x2048xf32>) -> tensor<f32>
  %c = "cuesta.constant"() {value = 2.0 : f64} : () -> tensor<f32>
  %3 = "cuesta.mul"(%0, %c) : (tensor<2048x2048xf32>, tensor<f32>) -> tensor<2048x2048xf32>
  return %2, %3 : tensor<f32>, tensor<2048x2048xf32>
}

// What is read in another way too is computed for that, and returned from there; so is what needs the reduction.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK-SAME: (%[[X:.*]]: tensor<2048x2048xf32>, %[[Y:.*]]: tensor<2048x2048xf32>)
// CHECK: %[[A:.*]] = "cuesta.sub"(%[[X]], %[[Y]])
// CHECK: return %{{.*}}, %[[A]], %{{.*}}
func.func @read_elsewhere(%x: tensor<2048x2048xf32>, %y: tensor<2048x2048xf32>) -> (tensor<f32>, tensor<2048x2048xf32>, tensor<2048xf32>) {
  %0 = "cuesta.sub"(%x, %y) : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %1 = "cuesta.abs"(%0) : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %2 = "cuesta.sum"(%1) {dims = [0, 1], keepdim = 0} : (tensor<2048x2048xf32>) -> tensor<f32>
  %3 = "cuesta.amax"(%0) {dims = [1], keepdim = 0} : (tensor<2048x2048xf32>) -> tensor<2048xf32>
  return %2, %0, %3 : tensor<f32>, tensor<2048x2048xf32>, tensor<2048xf32>
}

// CHECK-LABEL: func.func @needs_it
// CHECK-SAME: (%[[X:.*]]: tensor<2048x2048xf32>, %[[Y:.*]]: tensor<2048x2048xf32>)
// CHECK: %[[A:.*]] = "cuesta.sub"(%[[X]], %[[Y]])
// CHECK: %[[B:.*]] = "cuesta.div"(%[[A]], %{{.*}}) : (tensor<2048x2048xf32>
// CHECK: return %[[B]]
func.func @needs_it(%x: tensor<2048x2048xf32>, %y: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  %0 = "cuesta.sub"(%x, %y) : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %1 = "cuesta.abs"(%0) : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %2 = "cuesta.sum"(%1) {dims = [0, 1], keepdim = 0} : (tensor<2048x2048xf32>) -> tensor<f32>
  %3 = "cuesta.div"(%0, %2) : (tensor<2048x2048xf32>, tensor<f32>) -> tensor<2048x2048xf32>
  return %3 : tensor<2048x2048xf32>
}

// An argument's new value is computed where the old one lies.
// CHECK-LABEL: func.func @updates
// CHECK-SAME: (%[[X:.*]]: tensor<2048x2048xf32>, %[[Y:.*]]: tensor<2048x2048xf32>)
// CHECK: %[[A:.*]] = "cuesta.sub"(%[[X]], %[[Y]])
// CHECK: return %{{.*}}, %[[A]]
func.func @updates(%x: tensor<2048x2048xf32>, %y: tensor<2048x2048xf32>) -> (tensor<f32>, tensor<2048x2048xf32>) attributes {cuesta.mutates = [0]} {
  %0 = "cuesta.sub"(%x, %y) : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %1 = "cuesta.abs"(%0) : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %2 = "cuesta.sum"(%1) {dims = [0, 1], keepdim = 0} : (tensor<2048x2048xf32>) -> tensor<f32>
  return %2, %0 : tensor<f32>, tensor<2048x2048xf32>
}
