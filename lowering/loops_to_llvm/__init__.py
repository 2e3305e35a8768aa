"""Loops over memrefs and scalars to LLVM's dialect: what upstream's conversions need before them.

In come kernels as loops, out come the same with functions of libm as arithmetic (`expand_math`), bf16 as f32
(`expand_bf16`), rows unrolled, and marks for LLVM's optimiser.
"""
