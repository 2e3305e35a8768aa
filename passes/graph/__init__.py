"""Passes on graphs of the cuesta dialect, a file each: patterns recognised, ops taken apart, reductions cut, views
moved.

In comes a function of cuesta ops, out comes one that computes the same. Who computes products, convolutions and
attention is decided in passes/libraries.
"""
