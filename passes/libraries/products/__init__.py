"""Who computes each product of matrices, a library or a kernel of ours, and in which form; parts of call-libraries.

Input and output are functions of cuesta ops. What comes out is marked with a route, is a call, or is built from ops
that become a kernel: a product with a tile, or a multiplication and a sum. May import passes/analysis, passes/infra and
cuesta/policy.
"""
