"""Where each value lies: the assignment of buffers, and what decides it.

`assignment` holds layouts over buffers. Before the host function is written, `plan` decides what results, calls,
concatenations (`concatenation`), scatters and written arguments (`mutations`) ask for; while it is written, outputs
take over the memory of dead inputs (`in_place`); at its end results are laid out as torch expects (`results`).
"""
