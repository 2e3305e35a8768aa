"""Compares eager, Inductor and cuesta on a CPU or a GPU; tools/cuesta_bench.py has the options.

In come cases and contenders, out come tables and files of every number; `command` does it on either device. Rooms:
`cases`, `measuring` (imports `cases`), `workers` (imports both), `reporting` (imports the first two). `growth` and
`soak` are programs of their own.
"""
