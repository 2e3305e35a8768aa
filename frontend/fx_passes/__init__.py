"""Rewrites torch's FX graphs; each module has one rewrite.

A rewritten graph computes the same. The graph is Dynamo's (`byte_images`), the joint graph before AOTAutograd splits it
into forward and backward (`common_subexpressions`, `recomputed_values`, `saved_operands`), the two graphs after the
split (`saved_*`, `tied_tables`), or the graph of ATen ops before import (`eagers_calls`, `bitwise`, `users_kernels`).
"""
