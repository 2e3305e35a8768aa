"""Says how many rows a CPU multiplies by a weight that it reads once; who chooses such a kernel and who lowers it must
agree."""

#: The most rows: each has a vector of sums in registers, or a few partial sums of its own.
FEW_ROWS = 16
#: The most elements of an operand that a kernel copies once for all rows of the weight, such as the left factor.
MOST_COPIED = 1 << 16
