"""Says which ATen ops AOTAutograd decomposes, and into which ops.

A decomposition takes an op's arguments and calls simpler ops that compute the same. `table` joins torch's own
decompositions with those of the other modules; each of these has a family of ops.
"""
