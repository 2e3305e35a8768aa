"""Returns programs before their code is finished, and makes the code when a call needs it.

In comes a program without machine code for the host (`late_code`) or for kernels of a GPU (`kernel_code`,
`late_kernels`), out comes the code when a call needs it. `smaller_blocks` lowers a kernel again if a GPU has no room
for it.
"""
