"""Says how many rows are few: a CPU multiplies them by a weight that it reads once, a GPU by blocks that they fill. Who
chooses such a kernel and who lowers it must agree."""

#: The most rows. On a CPU each has a vector of sums in registers, or a few partial sums of its own.
FEW_ROWS = 16
#: The most elements of an operand that a kernel copies once for all rows of the weight, such as the left factor.
MOST_COPIED = 1 << 16
#: The most of them if they are copied in f32 and read again for each row of the weight: they stay in L1. With 16384,
#: 16 rows of 1024 by a weight of float8 took 2.6 times as long as with the weight widened in memory.
MOST_COPIED_WIDE = 12 << 10
