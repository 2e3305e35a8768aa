"""Says how many rows are few: a CPU multiplies them by a weight that it reads once, a GPU by blocks that they fill. Who
chooses such a kernel and who lowers it must agree."""

#: The most rows. On a CPU each has a vector of sums in registers, or a few partial sums of its own.
FEW_ROWS = 16
#: The most elements of an operand that a kernel copies once for all rows of the weight, such as the left factor.
MOST_COPIED = 1 << 16
#: The most elements where the copy is f32 and is read again for each row of the weight, so that it should stay in L1.
#: 16 rows of 1024 elements by a weight of float8 took 2.6 times as long as with the weight widened in memory.
MOST_COPIED_WIDE = 12 << 10
