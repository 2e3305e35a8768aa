// RUN: cuesta-opt --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @same_name
// CHECK-SAME: i32
func.func @same_name(%x: i32) { return }

// CHECK: // -----
// -----

// CHECK-LABEL: func.func @same_name
// CHECK-SAME: i64
func.func @same_name(%x: i64) { return }
