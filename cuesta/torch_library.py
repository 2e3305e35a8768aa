"""torch's own shared libraries, for functions that its Python has no way to."""

from __future__ import annotations

import ctypes
import os

import torch


def torch_library(name: str = "libtorch_cpu.so") -> ctypes.CDLL:
    """A library of the torch that runs. Raises OSError where it has none of that name. Each call gives a handle of its
    own, so that types set on its functions are not shared."""
    return ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", name))
