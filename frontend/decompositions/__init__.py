"""Which ATen ops AOTAutograd takes apart, and into what.

In goes an op with its arguments, out come calls of simpler ops that mean the same. `table` joins torch's own
decompositions with those of the other modules, a family of ops each.
"""
