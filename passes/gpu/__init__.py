"""Decides what of GPU kernels one program computes, and how they are launched.

The blocks: the input is kernels of linalg, the output the same kernels with block sizes as attributes, which
linalg_to_tt reads. The launches: rows are computed in their readers' kernels, and small launches are put side by side,
before memory is planned; what was put side by side becomes one kernel, and kernels overlap, once they are Triton IR.
"""
