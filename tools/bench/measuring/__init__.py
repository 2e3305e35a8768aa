"""Measures a case: times, errors, memory, kernels, and what the machine can do at best.

In comes a case and contenders, out come JSON values (`on_cpu`, `on_gpu`). `timing` interleaves contenders on
a CPU, `device` takes samples on a GPU, `limits` measures the machine with `loops`, `cost` counts the least work of a
call, `kernels` divides a call's time on a GPU. Imports `cases`; no tables, no processes.
"""
