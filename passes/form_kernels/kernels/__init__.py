"""Turns groups into kernel functions.

The input is a group with the layouts of its values. The output is a kernel in normal form (`kernel`), written as a
function of linalg (`outline`), once for all kernels that are equal (`kernel_names`) or differ in one size
(`shared_kernels`).
"""
