"""Decides where each value is stored.

`assignment` holds layouts over buffers. Before the host function is written, `plan` places values as results, calls,
concatenations (`concatenation`), scatters and mutated arguments (`mutations`) require, and small ones as large kernels
walk them (`tables`). While it is written, outputs take over the memory of dead inputs (`in_place`). At its end results
are laid out as torch expects (`results`).
"""
