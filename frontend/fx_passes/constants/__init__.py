"""Rewrites of FX graphs, one a file, for values that depend on no input: they are computed while compiling.

Values come from `frontend/constant_values.py`, which runs the graph's own calls on the CPU.
"""
