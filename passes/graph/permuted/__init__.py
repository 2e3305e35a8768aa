"""Passes on graphs that change where a tensor is permuted, one a file, so that less of it is copied.

Input and output are functions of cuesta ops that compute the same.
"""
