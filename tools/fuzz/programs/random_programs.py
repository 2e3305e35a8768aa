"""Makes random torch programs as Python source: views, in-place writes, type promotion, reductions, indexing, and ops
on rows such as softmax.

A program grows line by line, and each line runs at once; a line that torch refuses is left out.
"""

from __future__ import annotations

import math
import random
import re
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from cuesta.tools.fuzz.programs.program import Program, Shape, Spec, input_tensors, program_text
from cuesta.tools.fuzz.programs.torch_ops import EXPRESSIONS, STATEMENTS

Tensor = torch.Tensor

SIZES = (1, 2, 3, 3, 4, 5, 8, 17)
#: Sizes that differ from call to call. They begin at 2, because torch specialises on sizes 0 and 1.
SYMBOL_SIZES = (2, 3, 4, 5, 6, 7, 9, 12, 17, 24, 33)
RANKS = (0, 1, 1, 2, 2, 2, 3, 3, 4)
DTYPES = (
    *("float32",) * 10,
    *("float64", "bfloat16", "bfloat16", "float16", "int64", "int64", "int32", "int8", "uint8", "bool"),
)
LARGEST = 20_000
#: Lines of a program, not counting refused ones: torch refuses about half of the drawn lines.
LINES = 12
_PLACE = re.compile(r"\{(\w)\}")
_NAME = re.compile(r"\b[tx]\d+\b")


def make_program(seed: int) -> str:
    """The text of the program of a seed; the same seed gives the same text."""
    return _grown(_Maker(random.Random(seed), calls=1))


def make_sized_program(seed: int) -> str:
    """Like `make_program`, for a program that is called with three sets of sizes."""
    return _grown(_Maker(random.Random(seed), calls=3))


def _grown(maker: _Maker) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        maker.grow()
        text = maker.text()
        return text if _runs_backward(text) else text.replace("GRADIENT = True", "GRADIENT = False")


def _runs_backward(text: str) -> bool:
    """Whether backward runs: torch refuses if a tensor that a gradient needs has been overwritten."""
    program = Program.read(text)
    try:
        for specs in program.calls:
            program.run(program.function, input_tensors(specs, program.gradient))
    except RuntimeError:
        return False
    return True


class _Maker:
    """Builds a program; `scopes` holds the variables of each of the program's calls."""

    def __init__(self, r: random.Random, calls: int) -> None:
        self.random = r
        self.lines: list[str] = []
        self.gradient = r.random() < 0.4
        self.dynamic = "no" if calls == 1 else r.choice(("all", "all", "marked"))
        specs = [self._input(self._symbols(calls)) for _ in range(r.randint(1, 3))]
        self.calls = [[each[call] for each in specs] for call in range(calls)]
        self.names = [f"x{i}" for i in range(len(specs))]
        self.scopes = [self._scope(call) for call in self.calls]

    def _scope(self, specs: Sequence[Spec]) -> dict[str, Any]:
        tensors = [x.clone() if x.requires_grad else x for x in input_tensors(specs, self.gradient)]
        return {"torch": torch, "F": torch.nn.functional, "math": math} | dict(zip(self.names, tensors, strict=True))

    def _symbols(self, calls: int) -> list[list[int]]:
        """The values of two symbols in each call; sizes are computed from them."""
        if calls == 1:
            return [[]]
        if not hasattr(self, "symbols"):
            columns = [self.random.sample(SYMBOL_SIZES, calls) for _ in range(2)]
            if self.random.random() < 0.1:
                columns[0][-1] = self.random.choice((0, 1))
            self.symbols = [list(column) for column in zip(*columns, strict=True)]
        return self.symbols

    def _input(self, symbols: Sequence[Sequence[int]]) -> list[Spec]:
        """One argument in each call: sizes may differ; rank, memory order and dtype do not."""
        r = self.random
        dims = [self._size(symbols) for _ in range(r.choice(RANKS))]
        if dims and r.random() < 0.05:
            dims[-1] = [0] * len(symbols)
        order = r.sample(range(len(dims)), len(dims)) if r.random() < 0.3 else list(range(len(dims)))
        if len(dims) == 4 and r.random() < 0.3:
            order = [0, 2, 3, 1]  # channels_last
        gaps = [r.choice((0, 0, 2)) if r.random() < 0.1 else 0 for _ in dims]
        expanded = {r.randrange(len(dims))} if dims and not self.gradient and r.random() < 0.08 else set()
        dtype = r.choice(DTYPES)
        found = []
        for sizes in zip(*dims, strict=True) if dims else [()] * len(symbols):
            strides, step = [0] * len(sizes), 1
            for d in reversed(order):
                strides[d] = 0 if d in expanded else step
                step *= 1 if d in expanded else max(sizes[d], 1) + gaps[d]
            found.append((sizes, tuple(strides), dtype))
        return found

    def _size(self, symbols: Sequence[Sequence[int]]) -> list[int]:
        """The size of a dim in each call."""
        if not symbols[0] or self.random.random() < 0.35:
            return [self.random.choice(SIZES)] * len(symbols)
        which, (factor, more) = self.random.randrange(2), self.random.choice(((1, 0), (1, 0), (1, 0), (2, 0), (1, 1)))
        return [values[which] * factor + more for values in symbols]

    # -- lines --------------------------------------------------------------------------------
    def grow(self) -> None:
        for _ in range(6 * LINES):
            if len(self.lines) == LINES:
                return
            if self.random.random() < 0.15:
                self._statement(self._fill(self.random.choice(STATEMENTS)))
            else:
                weights = [weight for weight, _ in EXPRESSIONS]
                ((_, family),) = self.random.choices(EXPRESSIONS, weights)
                self._expression(self._fill(self.random.choice(family)))

    def _statement(self, line: str) -> None:
        name = line.partition(".")[0].partition("[")[0].partition(" ")[0]
        kept = [scope[name] for scope in self.scopes]
        if self._runs(line) and all(scope[name] is x for scope, x in zip(self.scopes, kept, strict=True)):
            self.lines.append(line)

    def _expression(self, expression: str) -> None:
        name = f"t{len(self.lines)}"
        if not self._runs(f"{name} = {expression}"):
            return
        values = [scope[name] for scope in self.scopes]
        if not all(isinstance(x, Tensor) and x.numel() <= LARGEST and not x.dtype.is_complex for x in values):
            return
        if len({(x.dim(), x.dtype) for x in values}) == 1:
            self.names.append(name)
            self.lines.append(f"{name} = {expression}")

    def _runs(self, line: str) -> bool:
        try:
            for scope in self.scopes:
                exec(line, scope)
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, AttributeError):
            return False
        return True

    def _fill(self, template: str) -> str:
        x = self.random.choice(self.names[-5:])
        tensors = [scope[x] for scope in self.scopes]
        tensor = tensors[0]
        rank = tensor.dim()
        dims = [self.random.randrange(-rank, rank) if rank else 0 for _ in range(2)]
        size = min(each.shape[dims[0]] for each in tensors) if rank else 1
        floating = [n for n in self.names if self.scopes[0][n].is_floating_point() == tensor.is_floating_point()]
        choices = {
            "x": x,
            "y": self._fitting(x, floating),
            "z": self._fitting(x, floating),
            "d": str(dims[0]),
            "e": str(dims[1]),
            "n": str(self.random.randint(1, max(size - 1, 1))),
            "s": self.random.choice(("2", "0.5", "-1", "1.5", "True", "0")),
            "f": self.random.choice(("torch.float32", "torch.bfloat16", "torch.float64", "torch.float16")),
            "t": self.random.choice(("torch.float32", "torch.bfloat16", "torch.bool", "torch.float64")),
            "i": f"torch.tensor({[self.random.randrange(max(size, 1)) for _ in range(self.random.choice((1, 3, 4)))]})",
            "w": f"({x}.flatten(0, -2).mT @ {x}.flatten(0, -2)).tanh()",
        }
        return _PLACE.sub(lambda place: choices[place[1]], template)

    def _fitting(self, x: str, names: list[str]) -> str:
        """The name of a tensor that mostly broadcasts with x."""
        fitting = [n for n in names if all(_broadcasts(s[x].shape, s[n].shape) for s in self.scopes)]
        return self.random.choice(fitting if fitting and self.random.random() < 0.8 else names or self.names)

    # -- text ---------------------------------------------------------------------------------
    def text(self) -> str:
        made = [line.partition(" = ")[0] for line in self.lines if re.match(r"t\d+ = ", line)]
        results = [*made[-1:], *self.random.sample(made, min(len(made), self.random.randint(0, 3)))]
        read = [name for line in self.lines if line.split(" = ")[0] in results for name in _NAME.findall(line)]
        # Also returns an operand of a result at times: the two may share memory.
        results += self.random.choices(read, k=1) if read and self.random.random() < 0.3 else []
        results = list(dict.fromkeys(results)) or self.names[:1]
        return program_text(self.calls, self.gradient, self.dynamic, self.lines, results)


def _broadcasts(a: Shape, b: Shape) -> bool:
    try:
        return math.prod(torch.broadcast_shapes(a, b)) <= LARGEST
    except RuntimeError:
        return False
