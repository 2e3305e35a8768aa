"""The functions that kernels become.

In comes a group with the layouts of its values, out comes a kernel in normal form (`kernel`), written as a function of
linalg (`outline`), once for all that are equal (`kernel_names`) or differ in one size (`families`).
"""
