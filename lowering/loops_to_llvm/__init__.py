"""Prepares loops over memrefs and scalars for upstream's conversions to LLVM's dialect.

Inputs are kernels as loops. Outputs are the same kernels with functions of libm as arithmetic (`expand_math`), bf16 as
f32 (`expand_bf16`), and loop annotations for LLVM's optimiser.
"""
