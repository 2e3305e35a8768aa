"""Passes on the host function, after kernels were formed: what is written in place, and what is checked."""
