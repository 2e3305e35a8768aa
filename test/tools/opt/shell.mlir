// A pipe of three needs a shell: both lit and pytest run it in bash.
// RUN: cat %s | cuesta-opt - --timing 2>&1 --pass-pipeline='builtin.module(cse)' | filecheck %s

// CHECK: time (ms)
// CHECK: cse
// CHECK: total
// CHECK: func.func @empty
func.func @empty() { return }
