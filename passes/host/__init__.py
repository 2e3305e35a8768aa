"""Rewrites the host function after kernels were formed: writes sums in place, and checks operands."""
