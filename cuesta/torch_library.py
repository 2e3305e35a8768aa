"""Opens torch's own shared libraries, for functions that torch's Python does not expose."""

from __future__ import annotations

import ctypes
import os

import torch


def torch_library(name: str = "libtorch_cpu.so") -> ctypes.CDLL:
    """A shared library of the running torch. Raises OSError if there is none of that name. Each call returns a separate
    handle, so that types set on its functions are not shared."""
    return ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", name))
