"""Steps from one level to the next lower one, a folder each.

In comes a module on the level that a folder's name begins with, out comes one on the level that it ends with: cuesta →
linalg → loops → LLVM for a CPU, linalg → tt → a binary for a GPU, host → LLVM for the function that calls the kernels.
Each is a pass by name, like those that stay on their level (passes/).

May import dialects, runtime and sizes; of passes the registry alone.
"""
