"""Compares eager, Inductor and cuesta on a CPU or a GPU; tools/cuesta_bench.py has the options.

In come cases and contenders, out come tables and files of every number. `command` measures on a CPU, `gpu_command` on a
GPU. Rooms, each importing only those before it: `cases`, `measuring`, `workers`; `reporting` imports the first two.
`growth` and `soak` are programs of their own.
"""
