"""Rewrites of torch's FX graphs, one a module.

In goes an FX graph, out comes one that computes the same: of Dynamo (`byte_images`), of forward and backward together
before AOTAutograd parts them (`common_subexpressions`, `recomputed_values`, `saved_operands`), of the two after it
(`saved_*`, `tied_tables`), or of ATen ops right before the import (`eagers_calls`, `bitwise`, `users_kernels`).
"""
