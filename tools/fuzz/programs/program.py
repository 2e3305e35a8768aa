"""Writes, reads, runs and reduces the file of a torch program."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from cuesta.dialects.reference import with_strides
from cuesta.tools.fuzz.compiling import Function, read_text

Tensor = torch.Tensor
Shape = tuple[int, ...]
#: Sizes, strides (in elements) and dtype of an argument.
Spec: TypeAlias = tuple[Shape, Shape, str]
_RETURN = re.compile(r"    return \((.*),\)")


def program_text(
    calls: Sequence[Sequence[Spec]], gradient: bool, dynamic: str, lines: list[str], results: list[str]
) -> str:
    """The source of a program; `calls` has the arguments of each call, as (sizes, strides, dtype)."""
    inputs, *others = calls
    arguments = ", ".join(f"x{i}" for i in range(len(inputs)))
    body = "\n".join(f"    {line}" for line in lines)
    given = "\n".join(f"    {spec!r}," for spec in inputs)
    further = "\n".join(f"OTHERS.append({list(specs)!r})" for specs in others)
    return f"""import math

import torch
import torch.nn.functional as F

#: Sizes, strides and dtype of each argument; floating ones require a gradient where GRADIENT says so.
INPUTS = [
{given}
]
GRADIENT = {gradient}
DEVICE = "cpu"
#: "no"; or "all" sizes are symbolic, or the "marked" ones: those of an argument that differ between calls.
DYNAMIC = "{dynamic}"
#: The arguments of further calls.
OTHERS = []
{further}


def program({arguments}):
{body}
    return ({", ".join(results)},)
"""


def on_device(text: str, device: str) -> str:
    """The text of the program with its device set to `device`."""
    return re.sub(r'^DEVICE = ".*"$', f'DEVICE = "{device}"', text, count=1, flags=re.MULTILINE)


def smaller_programs(text: str) -> Iterator[str]:
    """The program without one result, one line (the last lines first), the gradient, or one set of sizes."""
    lines = text.splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.startswith("def program"))
    end = next(i for i, line in enumerate(lines) if _RETURN.match(line))
    found = _RETURN.match(lines[end])
    assert found is not None
    results = found[1].split(", ")
    for i in range(len(results)):
        if len(results) > 1:
            kept = ", ".join([*results[:i], *results[i + 1 :]])
            yield "".join([*lines[:end], f"    return ({kept},)\n"])
    for i in reversed(range(start + 1, end)):
        yield "".join([*lines[:i], *lines[i + 1 :]])
    if "GRADIENT = True" in text:
        yield text.replace("GRADIENT = True", "GRADIENT = False")
    sets = [i for i, line in enumerate(lines) if line.startswith("OTHERS.append(")]
    for i in sets:
        yield "".join([*lines[:i], *lines[i + 1 :]])


def input_tensors(inputs: Sequence[Spec], gradient: bool, device: str = "cpu") -> list[Tensor]:
    """The arguments of a program: normally distributed floats, integers from -5 to 5, random bools; the same numbers on
    every device."""
    generator = torch.Generator().manual_seed(0)
    tensors = []
    for sizes, strides, name in inputs:
        numbers = _numbers(sizes, getattr(torch, name), generator).to(device)
        tensors.append(with_strides(numbers, strides).requires_grad_(gradient and numbers.is_floating_point()))
    return tensors


def _numbers(sizes: Shape, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=generator, device="cpu").to(dtype)
    low, high = (0, 2) if dtype == torch.bool else (-5, 6)
    return torch.randint(low, high, sizes, generator=generator, device="cpu").to(dtype)


@dataclass(frozen=True)
class Run:
    """The results of a run: outputs, arguments after the run and gradients by name; pairs of names in one storage."""

    tensors: dict[str, Tensor]
    shared: list[tuple[str, str]]


@dataclass(frozen=True)
class Program:
    """A program read from the text that `program_text` writes."""

    function: Function
    calls: list[list[Spec]]
    gradient: bool
    dynamic: str
    device: str

    @staticmethod
    def read(text: str) -> Program:
        scope = read_text(text)
        calls = [scope["INPUTS"], *scope["OTHERS"]]
        return Program(scope["program"], calls, scope["GRADIENT"], scope["DYNAMIC"], scope["DEVICE"])

    def marked(self) -> list[tuple[int, int]]:
        """The dims, as (argument, dim), whose size differs from call to call."""
        sizes = [[spec[0] for spec in specs] for specs in self.calls]
        dims = [(i, d) for i, first in enumerate(sizes[0]) for d in range(len(first))]
        return [(i, d) for i, d in dims if len({each[i][d] for each in sizes}) > 1]

    def run(self, function: Function, tensors: Sequence[Tensor]) -> Run:
        """Runs `function` on `tensors`, then backward from a weighted sum of the outputs that require a gradient."""
        # A leaf that requires a gradient cannot be written in place, so a clone is passed.
        passed = [x.clone() if x.requires_grad else x for x in tensors]
        with torch.device(self.device):  # for tensors that the program itself makes
            outputs = function(*passed)
        found = {f"output {i}": x for i, x in enumerate(outputs)} | {f"argument {i}": x for i, x in enumerate(passed)}
        pairs = itertools.combinations(found.items(), 2)
        shared = [(a, b) for (a, x), (b, y) in pairs if x.numel() and _storage(x) == _storage(y)]
        differentiable = [x for x in outputs if x.requires_grad]
        if differentiable:
            torch.stack([(x.double() * _weights(x)).sum() for x in differentiable]).sum().backward()
            found |= {f"gradient {i}": x.grad for i, x in enumerate(tensors) if x.grad is not None}
        if self.device != "cpu":  # a failed kernel assertion is raised in this run, not in the next
            torch.accelerator.synchronize(self.device)
        return Run({name: x.detach() for name, x in found.items()}, shared)


def copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies of the tensors, as leaves with the same strides and values."""
    made = [with_strides(x.detach().contiguous().clone(), x.stride()) for x in tensors]
    return [y.requires_grad_(x.requires_grad) for x, y in zip(tensors, made, strict=True)]


def _storage(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _weights(x: Tensor) -> Tensor:
    return torch.linspace(0.5, 1.5, x.numel(), dtype=torch.float64, device=x.device).reshape(x.shape)
