"""Kernels of a CPU in tiles: a range of tiles for each thread, and the memory that a tile needs for itself.

In come kernels of linalg on whole tensors, out come functions over a range of tiles, on tensors and then on memrefs.
"""
