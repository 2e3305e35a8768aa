"""Passes on concatenations, one a file. They avoid concatenations in memory, for which a reader's kernel has to wait.

Input and output are functions of cuesta ops that compute the same.
"""
