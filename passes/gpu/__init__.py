"""Chooses the blocks of GPU kernels: the part of a kernel's loops that one program computes.

The input is kernels of linalg. The output is the same kernels, with block sizes as attributes, which linalg_to_tt
reads.
"""
