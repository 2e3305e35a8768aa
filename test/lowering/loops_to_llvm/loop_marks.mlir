// RUN: cuesta-opt --pass-pipeline='builtin.module(loop-marks)' %s | filecheck %s

#alone = #llvm.loop_annotation<vectorize = <disable = true>>

// CHECK-LABEL: llvm.func @back
// CHECK: llvm.br ^bb1 {loop_annotation = #{{.*}}}
llvm.func @back() {
  llvm.br ^bb1
^bb1:
  llvm.br ^bb1 {llvm.loop_annotation = #alone}
}
