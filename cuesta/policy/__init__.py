"""Chooses by rules of thumb who computes something, the library behind ATen or our kernels, and in what layout.

In come sizes, types and the target, out comes a choice, without measuring anything. cuesta/driver/autotune measures,
and answers instead of the rules through `choices`. Imports sizes, targets and torch_private alone: frontend, passes
and driver all ask here.
"""
