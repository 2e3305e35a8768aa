"""Lowers attention kernels to loops of vectors: the pass `tile-attention`, and what it writes."""
