"""Compiles programs that outlive their process: exported, compiled for another machine, saved and loaded.

In comes the result of torch.export.export or a model, out comes an `ExportedProgram`, its file, or kernels for a GPU
that this machine need not have (`compile_for`). Loading a file imports no MLIR.

May import the driver and what it may import; no tools.
"""
