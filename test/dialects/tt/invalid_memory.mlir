// RUN: cuesta-opt --split-input-file --verify-diagnostics %s

func.func @pointer_to_bool(%x: !tt.ptr<i1>) {
  // expected-error@below {{has a pointer to i1; memory holds bf16, f16, f32, f64, f8E4M3FN, f8E5M2, i16, i32, i64, i8; a bool in memory is a byte: !tt.ptr<i8>}}
  %0 = "tt.splat"(%x) : (!tt.ptr<i1>) -> tensor<64x!tt.ptr<i1>>
  return
}

// -----

func.func @moved_by_floats(%p: tensor<64x!tt.ptr<f32>>, %o: tensor<64xf32>) {
  // expected-error@below {{moves tensor<64x!tt.ptr<f32>> by integers of the shape [64], not by tensor<64xf32>}}
  %0 = "tt.addptr"(%p, %o) : (tensor<64x!tt.ptr<f32>>, tensor<64xf32>) -> tensor<64x!tt.ptr<f32>>
  return
}

// -----

func.func @moved_by_another_shape(%p: tensor<64x!tt.ptr<f32>>, %o: tensor<32xi32>) {
  // expected-error@below {{moves tensor<64x!tt.ptr<f32>> by integers of the shape [64], not by tensor<32xi32>}}
  %0 = "tt.addptr"(%p, %o) : (tensor<64x!tt.ptr<f32>>, tensor<32xi32>) -> tensor<64x!tt.ptr<f32>>
  return
}

// -----

func.func @moved_number(%x: tensor<64xi32>) {
  // expected-error@below {{moves pointers, not tensor<64xi32>}}
  %0 = "tt.addptr"(%x, %x) : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>
  return
}

// -----

func.func @moved_to_another_type(%p: tensor<64x!tt.ptr<f32>>, %o: tensor<64xi32>) {
  // expected-error@below {{gives tensor<64x!tt.ptr<f32>>, not tensor<64x!tt.ptr<i8>>}}
  %0 = "tt.addptr"(%p, %o) : (tensor<64x!tt.ptr<f32>>, tensor<64xi32>) -> tensor<64x!tt.ptr<i8>>
  return
}

// -----

func.func @segments(%p: tensor<64x!tt.ptr<f32>>, %m: tensor<64xi1>) {
  // expected-error@below {{operandSegmentSizes [1, 0, 0] do not split 2 operands into pointer, mask and other}}
  %0 = "tt.load"(%p, %m) {operandSegmentSizes = array<i32: 1, 0, 0>, boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false} : (tensor<64x!tt.ptr<f32>>, tensor<64xi1>) -> tensor<64xf32>
  return
}

// -----

func.func @other_without_mask(%p: tensor<64x!tt.ptr<f32>>, %v: tensor<64xf32>) {
  // expected-error@below {{has a value for where the mask is false, but no mask}}
  %0 = "tt.load"(%p, %v) {operandSegmentSizes = array<i32: 1, 0, 1>, boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false} : (tensor<64x!tt.ptr<f32>>, tensor<64xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @other_of_another_type(%p: tensor<64x!tt.ptr<f32>>, %m: tensor<64xi1>, %v: tensor<64xf16>) {
  // expected-error@below {{takes tensor<64xf32> for where the mask is false, not tensor<64xf16>}}
  %0 = "tt.load"(%p, %m, %v) {operandSegmentSizes = array<i32: 1, 1, 1>, boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false} : (tensor<64x!tt.ptr<f32>>, tensor<64xi1>, tensor<64xf16>) -> tensor<64xf32>
  return
}

// -----

func.func @load_of_a_number(%x: tensor<64xi64>) {
  // expected-error@below {{goes through pointers, not tensor<64xi64>}}
  %0 = "tt.load"(%x) {operandSegmentSizes = array<i32: 1, 0, 0>, boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false} : (tensor<64xi64>) -> tensor<64xi64>
  return
}

// -----

func.func @mask_of_another_shape(%p: tensor<64x!tt.ptr<f32>>, %m: tensor<1xi1>) {
  // expected-error@below {{takes a mask of type tensor<64xi1>, not tensor<1xi1>}}
  %0 = "tt.load"(%p, %m) {operandSegmentSizes = array<i32: 1, 1, 0>, boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false} : (tensor<64x!tt.ptr<f32>>, tensor<1xi1>) -> tensor<64xf32>
  return
}

// -----

func.func @loaded_type(%p: tensor<64x!tt.ptr<f32>>) {
  // expected-error@below {{gives tensor<64xf32>, not tensor<64xf64>}}
  %0 = "tt.load"(%p) {operandSegmentSizes = array<i32: 1, 0, 0>, boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32, isVolatile = false} : (tensor<64x!tt.ptr<f32>>) -> tensor<64xf64>
  return
}

// -----

func.func @eviction(%p: tensor<64x!tt.ptr<f32>>) {
  // expected-error@below {{attribute 'evict' is 0; it is one of 1 (normal), 2 (first), 3 (last)}}
  %0 = "tt.load"(%p) {operandSegmentSizes = array<i32: 1, 0, 0>, boundaryCheck = array<i32>, cache = 1 : i32, evict = 0 : i32, isVolatile = false} : (tensor<64x!tt.ptr<f32>>) -> tensor<64xf32>
  return
}

// -----

func.func @stored_type(%p: tensor<64x!tt.ptr<f32>>, %v: tensor<64xf16>) {
  // expected-error@below {{stores tensor<64xf32> through tensor<64x!tt.ptr<f32>>, not tensor<64xf16>}}
  "tt.store"(%p, %v) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<64x!tt.ptr<f32>>, tensor<64xf16>) -> ()
  return
}

// -----

func.func @store_mask(%p: tensor<64x!tt.ptr<f32>>, %v: tensor<64xf32>) {
  // expected-error@below {{takes a mask of type tensor<64xi1>, not tensor<64xf32>}}
  "tt.store"(%p, %v, %v) {boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32} : (tensor<64x!tt.ptr<f32>>, tensor<64xf32>, tensor<64xf32>) -> ()
  return
}

// -----

func.func @integer_atomic_on_floats(%p: tensor<64x!tt.ptr<f32>>, %v: tensor<64xf32>) {
  // expected-error@below {{combines floats by fadd or exch}}
  %0 = "tt.atomic_rmw"(%p, %v) {atomic_rmw_op = 4 : i32, sem = 1 : i32, scope = 1 : i32} : (tensor<64x!tt.ptr<f32>>, tensor<64xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @unknown_atomic(%p: tensor<64x!tt.ptr<f32>>, %v: tensor<64xf32>) {
  // expected-error@below {{attribute 'atomic_rmw_op' is 99; it is one of 1 (and)}}
  %0 = "tt.atomic_rmw"(%p, %v) {atomic_rmw_op = 99 : i32, sem = 1 : i32, scope = 1 : i32} : (tensor<64x!tt.ptr<f32>>, tensor<64xf32>) -> tensor<64xf32>
  return
}
