"""Every kernel that the model suite makes for a GPU, on two levels, and what it is checked by without a GPU.

suite.py      the models, with few layers and real widths, in eval and in a training step
collect.py    a model's unique kernels: linalg, Triton IR, and what is special about each
check.py      a kernel in the numpy interpreter against the linalg that it came from, on the CPU
"""
