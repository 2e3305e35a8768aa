"""Decides who computes products, convolutions and attention: a library behind ATen, or a kernel of ours.

In a graph of cuesta ops, these passes make such ops calls into ATen, ops in a layout that the library wants, or ops
that become kernels. `product_routes` chooses the way to compute a product, `product_tiles` and `product_panels` the
tiles of products that are kernels. cuesta/policy has the rules that the frontend asks as well.
"""
