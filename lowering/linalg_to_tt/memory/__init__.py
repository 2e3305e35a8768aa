"""Loads and stores of a program's block of an argument: addresses, masks, and the order in which threads lie.

In: a frame, where the block is placed, and an argument with its strides. Out: Triton's loads and stores. Imports the
frame, not the kernel's writer.
"""
