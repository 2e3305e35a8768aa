"""Passes on graphs of the cuesta dialect, one a file: they recognise patterns, decompose ops, split reductions and move
views.

Input and output are functions of cuesta ops that compute the same. passes/libraries decides whether a library or a
kernel computes products, convolutions and attention.
"""
