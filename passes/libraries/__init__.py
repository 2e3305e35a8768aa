"""Who computes products, convolutions and attention: a library behind ATen, or a kernel of ours.

In comes a graph of cuesta ops, out comes one in which such ops are calls into ATen, ops in a layout that the library
wants, or ops that become kernels. `product_routes` has the ways to compute a product, `product_tiles` and
`product_panels` the tiles of those that are kernels. cuesta/policy has the rules that the frontend asks as well.
"""
