"""Decides who computes products, convolutions and attention: a library behind ATen, or a kernel of ours.

In a graph of cuesta ops, these passes make such ops calls into ATen, ops in a layout that the library wants, or ops
that become kernels. `products` chooses the way to compute a product, and builds it. `convolutions` has all that is
about convolutions but for their layout. cuesta/policy has the rules that the frontend asks as well.
"""
