"""Lowers linalg on buffers to loops, by upstream's convert-linalg-to-affine-loops and passes for what that lacks."""
