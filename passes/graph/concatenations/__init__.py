"""Passes on concatenations, one a file: they keep a whole that kernels would have to wait for out of memory.

Input and output are functions of cuesta ops that compute the same.
"""
