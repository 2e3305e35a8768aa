"""Passes on graphs that decide what is computed anew for each reader and what once, one a file, and how a reduction
recomputes what it reads, in another shape.

Input and output are functions of cuesta ops that compute the same.
"""
