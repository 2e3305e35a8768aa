"""Names the kernels of one host function by their contents: equal kernels are written once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cuesta._mlir import ir
from cuesta.passes.form_kernels.kernels.shared_kernels import Written

#: Torch ops whose names are those of libm functions that kernels call: a kernel of such a name would hide the function.
_LIBM = frozenset({"acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cosh", "erf", "erfc", "sinh", "tan"})


@dataclass
class KernelNames:
    """Maps a kernel's key to its name in `block`, the body of the module of kernels."""

    block: ir.Block
    names: dict[tuple[object, ...], str] = field(default_factory=dict)
    #: key → the kernel, which is written once all kernels are known
    written: dict[tuple[object, ...], Written] = field(default_factory=dict)

    def add(self, key: tuple[object, ...], ops: Sequence[str]) -> str:
        """Names a new kernel after the ops in it."""
        stem = "_".join(dict.fromkeys(ops))[:48].strip("_")
        stem += "_kernel" if stem in _LIBM else ""
        taken = set(self.names.values())
        name, n = stem, 1
        while name in taken:
            n += 1
            name = f"{stem}_{n}"
        self.names[key] = name
        return name
