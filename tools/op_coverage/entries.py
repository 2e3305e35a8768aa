"""Lists the operators of the survey: every entry of torch's op_db that supports one of DTYPES on the device."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

#: The dtypes of the page, by their names on the page and the command line.
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

#: Prefix of entries that are not run → why. Entries that support none of DTYPES on a CPU (scaled_mm, the ops of flash
#: attention) need no row, because they have no samples.
LEFT_OUT = {"jiterator": "CUDA only"}

#: Entries that return uninitialised memory: the form of their results is compared, not the values.
UNINITIALISED = re.compile(r"(new_)?empty\w*|resize_|resize_as_")


#: Memory layouts of the samples' tensors: as torch made them; with a gap beside each element; last dimension outermost.
LAYOUTS = ("given", "gaps", "reversed")

#: Compile targets: a CPU, a GPU whose kernels an interpreter runs on the CPU, and the GPU that torch uses.
TARGETS = ("cpu", "tt", "cuda")


@dataclass(frozen=True)
class Unit:
    """An entry at a dtype, a layout and a target: the unit of work of a process."""

    entry: str
    dtype: str
    layout: str = "given"
    target: str = "cpu"

    @staticmethod
    def read(text: str) -> Unit:
        """The inverse of `str`."""
        return Unit(*text.split())

    def __str__(self) -> str:
        return f"{self.entry} {self.dtype} {self.layout} {self.target}"

    @property
    def device(self) -> str:
        """The device of the samples' tensors."""
        return "cuda" if self.target == "cuda" else "cpu"

    @property
    def trains(self) -> bool:
        """Whether gradients are compared too."""
        entry, dtype = entries()[self.entry], DTYPES[self.dtype]
        return dtype == torch.float32 and dtype in entry.supported_backward_dtypes(self.device)

    def samples(self) -> list[Any]:
        """torch's SampleInputs in this layout, seeded so that they are the same each time."""
        torch.manual_seed(0)
        found = list(entries()[self.entry].sample_inputs(self.device, DTYPES[self.dtype], requires_grad=self.trains))
        change = {"given": lambda x: x, "gaps": _with_gaps, "reversed": _reversed}[self.layout]
        return [sample.transform(change) for sample in found]


@functools.cache
def entries() -> dict[str, Any]:
    """Full name → torch's OpInfo. Importing them takes seconds."""
    from cuesta.torch_private.testing import invocations

    # Entries of random operators call through wrapper_set_seed, and Dynamo breaks the graph at its manual_seed. The
    # survey seeds every run itself.
    invocations.wrapper_set_seed = _unseeded  # type: ignore[attr-defined]
    return {entry.full_name: entry for entry in invocations.op_db if not entry.name.startswith(tuple(LEFT_OUT))}


def _with_gaps(x: Any) -> Any:
    """A copy of a strided tensor with NaN or another filler beside each element; returns anything else unchanged."""
    from cuesta.torch_private.testing import noncontiguous_like

    return noncontiguous_like(x) if isinstance(x, torch.Tensor) and x.layout == torch.strided else x


def _reversed(x: Any) -> Any:
    """A copy of a strided tensor without overlap, last dimension outermost; returns anything else unchanged."""
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided or x.dim() < 2:
        return x
    order = list(reversed(range(x.dim())))
    return x.detach().permute(order).contiguous().permute(order).requires_grad_(x.requires_grad)


def _unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


def units(
    pattern: str = "", dtypes: tuple[str, ...] = PAGE_DTYPES, layout: str = "given", target: str = "cpu"
) -> list[Unit]:
    """The entries whose name matches the regular expression `pattern`, at each of `dtypes` that they support."""
    found = [
        Unit(name, dtype, layout, target)
        for name, entry in entries().items()
        if re.search(pattern, name)
        for dtype in dtypes
    ]
    return [unit for unit in found if entries()[unit.entry].supports_dtype(DTYPES[unit.dtype], unit.device)]


def spread(count: int, most: int | None) -> list[int]:
    """`most` positions of `count`, evenly spread from the first to the last; all positions if `most` is None.

    Spread, because neighbouring samples are similar: the first 8 of 1440 poolings all have the same kernel size.
    """
    if most is None or count <= most:
        return list(range(count))
    if most == 1:
        return [0]
    return [i * (count - 1) // (most - 1) for i in range(most)]
