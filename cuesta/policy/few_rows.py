"""Says how many rows are few: a CPU multiplies them by a weight that it reads once, a GPU by blocks that they fill. Who
chooses such a kernel and who lowers it must agree."""

#: The most rows. On a CPU each has a vector of sums in registers, or a few partial sums of its own.
FEW_ROWS = 16
#: The most elements of an operand that a kernel copies once for all rows of the weight, such as the left factor.
MOST_COPIED = 1 << 16
