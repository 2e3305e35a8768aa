"""Checks the GPU kernels of the model suite without a GPU: runs each as Triton IR in numpy, and as linalg on the CPU.

suite.py      the models, with few layers and real widths, in eval and in a training step
collect.py    a model's unique kernels: linalg, Triton IR, and what is special about each
check.py      a kernel in the numpy interpreter against the linalg that it came from, on the CPU
"""
