"""Blocks of a GPU's kernels: which part of a kernel's loops one program computes.

In come kernels of linalg, out come the same with the sizes of their blocks as attributes, from which linalg_to_tt goes
on.
"""
