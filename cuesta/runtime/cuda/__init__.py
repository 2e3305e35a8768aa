"""Supports programs on an NVIDIA GPU: loads kernels by the driver, and records calls into CUDA graphs."""
