"""Runs compiled programs: loads an artefact and calls it, on a CPU or a GPU. Imports no MLIR.

Inputs are an artefact's bytes (`artefact`, checked by `schema`) and a call's tensors; outputs are result tensors
(`executable`). `elf` loads machine code, `arena` lends scratch memory, `callbacks` calls ATen, `cuda` is for GPUs.

May import errors, sizes, reports, targets, torch_private and torch's libraries, but no level of the compiler.
"""
