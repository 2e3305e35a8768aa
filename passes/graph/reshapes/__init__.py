"""Passes on graphs that move reshapes up or down past pointwise ops, one a file, so that these ops are neighbours.

Input and output are functions of cuesta ops that compute the same. `split_readers` is what several passes share.
"""
