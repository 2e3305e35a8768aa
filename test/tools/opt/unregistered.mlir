// RUN: cuesta-opt --allow-unregistered-dialect %s | filecheck %s

// CHECK: "somebody.elses"() : () -> ()
"somebody.elses"() : () -> ()
