// RUN: cuesta-opt --mlir-print-debuginfo %s | filecheck %s

// CHECK: return loc([[LOCATION:#loc.*]])
// CHECK: [[LOCATION]] = loc("model.py":31:4)
func.func @from_python() {
  return loc("model.py":31:4)
}
