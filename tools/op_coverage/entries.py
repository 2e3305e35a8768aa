"""The operators whose samples are run: every entry of torch's op_db that takes one of our dtypes on a CPU."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

#: Those of the page, by the names that it and the command line give them.
PAGE_DTYPES = ("f32", "bf16", "int64", "bool", "complex64")
DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "int64": torch.int64,
    "bool": torch.bool,
    "complex64": torch.complex64,
    "f16": torch.float16,
    "f64": torch.float64,
    "int32": torch.int32,
    "int8": torch.int8,
    "uint8": torch.uint8,
}

#: Which entries are not run, and why. Those that take none of DTYPES on a CPU (scaled_mm, the ops of flash attention)
#: need no row: they have nothing to run.
LEFT_OUT = {"jiterator": "CUDA only"}

#: These return memory as they find it: their results' form is compared, not their values.
UNINITIALISED = re.compile(r"(new_)?empty\w*|resize_|resize_as_")


#: How the samples' tensors lie in memory: as torch has them; with a gap beside each element; last dimension outermost.
LAYOUTS = ("given", "gaps", "reversed")

#: What is compiled for: a CPU, a GPU whose kernels an interpreter runs on the CPU, the GPU that torch has.
TARGETS = ("cpu", "tt", "cuda")


@dataclass(frozen=True)
class Unit:
    """An entry at a dtype: what one process does at a time."""

    entry: str
    dtype: str
    layout: str = "given"
    target: str = "cpu"

    @staticmethod
    def read(text: str) -> Unit:
        """The unit whose `str` this is."""
        return Unit(*text.split())

    def __str__(self) -> str:
        return f"{self.entry} {self.dtype} {self.layout} {self.target}"

    @property
    def device(self) -> str:
        """Where the samples' tensors are."""
        return "cuda" if self.target == "cuda" else "cpu"

    @property
    def trains(self) -> bool:
        """Whether gradients are compared too."""
        entry, dtype = entries()[self.entry], DTYPES[self.dtype]
        return dtype == torch.float32 and dtype in entry.supported_backward_dtypes(self.device)

    def samples(self) -> list[Any]:
        """torch's SampleInputs, the same ones each time."""
        torch.manual_seed(0)
        found = list(entries()[self.entry].sample_inputs(self.device, DTYPES[self.dtype], requires_grad=self.trains))
        change = {"given": lambda x: x, "gaps": _with_gaps, "reversed": _reversed}[self.layout]
        return [sample.transform(change) for sample in found]


@functools.cache
def entries() -> dict[str, Any]:
    """Full name → torch's OpInfo. Importing them takes seconds."""
    # The import forbids to set torch.backends' flags from then on, as suits torch's own tests: not here.
    with torch.backends.__allow_nonbracketed_mutation():
        from torch.testing._internal import common_methods_invocations as invocations

    # Random operators are called through it, and Dynamo stops at its manual_seed. Every run here is seeded.
    invocations.wrapper_set_seed = _unseeded  # type: ignore[attr-defined]
    return {entry.full_name: entry for entry in invocations.op_db if not entry.name.startswith(tuple(LEFT_OUT))}


def _with_gaps(x: Any) -> Any:
    """A tensor with NaN, or the like, beside each element; all else as it is."""
    from torch.testing._internal.common_utils import noncontiguous_like

    return noncontiguous_like(x) if isinstance(x, torch.Tensor) and x.layout == torch.strided else x


def _reversed(x: Any) -> Any:
    """A tensor that shares no memory with itself, its last dimension outermost; all else as it is."""
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided or x.dim() < 2:
        return x
    order = list(reversed(range(x.dim())))
    return x.detach().permute(order).contiguous().permute(order).requires_grad_(x.requires_grad)


def _unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


def units(
    pattern: str = "", dtypes: tuple[str, ...] = PAGE_DTYPES, layout: str = "given", target: str = "cpu"
) -> list[Unit]:
    """The entries whose name has the regular expression `pattern`, at each of `dtypes` that they support."""
    found = [
        Unit(name, dtype, layout, target)
        for name, entry in entries().items()
        if re.search(pattern, name)
        for dtype in dtypes
    ]
    return [unit for unit in found if entries()[unit.entry].supports_dtype(DTYPES[unit.dtype], unit.device)]


def spread(count: int, most: int | None) -> list[int]:
    """`most` positions of `count`, evenly spread from the first to the last; all of them for None.

    Neighbouring samples differ least: of the first 8 of 1440 poolings all have one kernel size.
    """
    if most is None or count <= most:
        return list(range(count))
    if most == 1:
        return [0]
    return [i * (count - 1) // (most - 1) for i in range(most)]
