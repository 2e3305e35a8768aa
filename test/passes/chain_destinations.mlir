// RUN: cuesta-opt --pass-pipeline='builtin.module(chain-destinations)' %s | filecheck %s

// One value in two destinations: the second is a copy of the first.
// CHECK-LABEL: func.func @twice
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>, %[[A:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[E:.*]] = linalg.exp
// CHECK-NEXT: %[[FIRST:.*]] = bufferization.materialize_in_destination %[[E]] in %[[A]]
// CHECK-NEXT: %[[SECOND:.*]] = bufferization.materialize_in_destination %[[FIRST]] in %[[B]]
// CHECK-NEXT: return %[[FIRST]], %[[SECOND]]
func.func @twice(%x: tensor<8xf32>, %a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %e = linalg.exp ins(%x : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
  %0 = bufferization.materialize_in_destination %e in %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = bufferization.materialize_in_destination %e in %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// The third comes from the second: a chain, not a fan.
// CHECK-LABEL: func.func @three
// CHECK-SAME: (%{{.*}}: tensor<f32>, %[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>, %[[C:.*]]: tensor<f32>)
// CHECK: %[[FIRST:.*]] = bufferization.materialize_in_destination %{{.*}} in %[[A]]
// CHECK-NEXT: %[[SECOND:.*]] = bufferization.materialize_in_destination %[[FIRST]] in %[[B]]
// CHECK-NEXT: bufferization.materialize_in_destination %[[SECOND]] in %[[C]]
func.func @three(%x: tensor<f32>, %a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %e = linalg.exp ins(%x : tensor<f32>) outs(%a : tensor<f32>) -> tensor<f32>
  %0 = bufferization.materialize_in_destination %e in %a : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = bufferization.materialize_in_destination %e in %b : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = bufferization.materialize_in_destination %e in %c : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1, %2 : tensor<f32>, tensor<f32>, tensor<f32>
}

// Different values stay as they are.
// CHECK-LABEL: func.func @different
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>, %[[Y:.*]]: tensor<8xf32>, %[[A:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: bufferization.materialize_in_destination %[[X]] in %[[A]]
// CHECK-NEXT: bufferization.materialize_in_destination %[[Y]] in %[[B]]
func.func @different(%x: tensor<8xf32>, %y: tensor<8xf32>, %a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = bufferization.materialize_in_destination %x in %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = bufferization.materialize_in_destination %y in %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// An argument that is written in place is copied before that, whatever order the results have.
// CHECK-LABEL: func.func @argument
// CHECK-SAME: (%[[ARG_X:.*]]: tensor<8xf32>, %[[A:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[COPY:.*]] = bufferization.materialize_in_destination %[[ARG_X]] in %[[A]]
// CHECK: %[[T:.*]] = linalg.tanh
// CHECK-NEXT: %[[X:.*]] = bufferization.materialize_in_destination %[[T]] in %[[ARG_X]]
// CHECK-NEXT: return %[[X]], %[[COPY]]
func.func @argument(%x: tensor<8xf32>, %a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %t = linalg.tanh ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %0 = bufferization.materialize_in_destination %t in %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = bufferization.materialize_in_destination %x in %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// Not where what the destination holds is read: that comes first.
// CHECK-LABEL: func.func @read
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>, %[[A:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK-NEXT: linalg.tanh
// CHECK-NEXT: bufferization.materialize_in_destination %{{.*}} in %[[B]]
// CHECK-NEXT: bufferization.materialize_in_destination %[[X]] in %[[A]]
func.func @read(%x: tensor<8xf32>, %a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %t = linalg.tanh ins(%a : tensor<8xf32>) outs(%b : tensor<8xf32>) -> tensor<8xf32>
  %0 = bufferization.materialize_in_destination %t in %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = bufferization.materialize_in_destination %x in %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
