"""Writes kernels in one loop whose sums are of what was reduced before: squares less a mean, powers less a maximum.

In: a kernel's writer, and the classes that its programs walk. Out: the kernel's body. Imports the writer, which knows
nothing of these kernels.
"""
