"""Cuts CPU kernels into tiles: each thread runs a range of tiles, and a tile may have scratch of its own.

The input is kernels of linalg on whole tensors. The output is functions over a range of tiles, on tensors and, after
bufferisation, on memrefs.
"""
