"""Rewrites of FX graphs, one a file, for sums at positions that depend on no input.

A rewritten graph computes the same, without atomics and without the positions in memory.
"""
