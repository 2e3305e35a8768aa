"""What runs a compiled program: its artefact, loaded and called, on a CPU or a GPU. Imports no MLIR.

In come an artefact's bytes (`artefact`, checked by `schema`) and a call's tensors, out come result tensors
(`executable`). `elf` loads machine code, `arena` lends memory, `callbacks` calls ATen, `cuda_*` are a GPU's.

May import errors, sizes, reports, targets and torch's libraries; no level of the compiler.
"""
