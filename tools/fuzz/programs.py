"""Random torch programs, as Python source: views, writes in place, promotion of types, reductions, rows, positions.

A program is made line by line while it runs; a line that torch refuses is left out.
"""

from __future__ import annotations

import math
import random
import re
import warnings
from typing import Any

import torch

from cuesta.tools.fuzz.program import Program, Shape, Spec, input_tensors, program_text
from cuesta.tools.fuzz.torch_ops import EXPRESSIONS, STATEMENTS

Tensor = torch.Tensor

SIZES = (1, 2, 3, 3, 4, 5, 8, 17)
RANKS = (0, 1, 1, 2, 2, 2, 3, 3, 4)
DTYPES = ("float32",) * 10 + ("float64", "bfloat16", "bfloat16", "float16", "int64", "int64", "int32", "int8", "bool")
LARGEST = 20_000
#: A dozen lines that torch takes: one in two of those that are drawn is refused.
LINES = 12
_PLACE = re.compile(r"\{(\w)\}")


def make_program(seed: int) -> str:
    """The program of that number: the same text for the same number."""
    maker = _Maker(random.Random(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        maker.grow()
        text = maker.text()
        return text if _runs_backward(text) else text.replace("GRADIENT = True", "GRADIENT = False")


def _runs_backward(text: str) -> bool:
    """Whether nothing that a gradient needs has been written over."""
    program = Program.read(text)
    try:
        program.run(program.function, input_tensors(program.inputs, program.gradient))
    except RuntimeError:
        return False
    return True


class _Maker:
    def __init__(self, r: random.Random) -> None:
        self.random = r
        self.lines: list[str] = []
        self.gradient = r.random() < 0.4
        self.inputs = [self._input() for _ in range(r.randint(1, 3))]
        self.names = [f"x{i}" for i in range(len(self.inputs))]
        tensors = [x.clone() if x.requires_grad else x for x in input_tensors(self.inputs, self.gradient)]
        self.scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "math": math}
        self.scope.update(zip(self.names, tensors, strict=True))

    def _input(self) -> Spec:
        r = self.random
        sizes = tuple(r.choice(SIZES) for _ in range(r.choice(RANKS)))
        if sizes and r.random() < 0.05:
            sizes = (*sizes[:-1], 0)
        order = r.sample(range(len(sizes)), len(sizes)) if r.random() < 0.3 else list(range(len(sizes)))
        strides, step = [0] * len(sizes), 1
        for d in reversed(order):
            strides[d] = step
            step *= max(sizes[d], 1) + (r.choice((0, 0, 2)) if r.random() < 0.1 else 0)
        return sizes, tuple(strides), r.choice(DTYPES)

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
        kept = self.scope[name]
        if self._runs(line) and self.scope[name] is kept:
            self.lines.append(line)

    def _expression(self, expression: str) -> None:
        name = f"t{len(self.lines)}"
        if not self._runs(f"{name} = {expression}"):
            return
        value = self.scope[name]
        if isinstance(value, Tensor) and value.numel() <= LARGEST and not value.dtype.is_complex:
            self.names.append(name)
            self.lines.append(f"{name} = {expression}")

    def _runs(self, line: str) -> bool:
        try:
            exec(line, self.scope)
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, AttributeError):
            return False
        return True

    def _fill(self, template: str) -> str:
        x = self.random.choice(self.names[-5:])
        tensor = self.scope[x]
        rank = tensor.dim()
        dims = [self.random.randrange(-rank, rank) if rank else 0 for _ in range(2)]
        size = tensor.shape[dims[0]] if rank else 1
        floating = [n for n in self.names if self.scope[n].is_floating_point() == tensor.is_floating_point()]
        choices = {
            "x": x,
            "y": self._fitting(tensor, floating),
            "z": self._fitting(tensor, floating),
            "d": str(dims[0]),
            "e": str(dims[1]),
            "n": str(self.random.randint(1, max(size - 1, 1))),
            "s": self.random.choice(("2", "0.5", "-1", "1.5", "True", "0")),
            "f": self.random.choice(("torch.float32", "torch.bfloat16", "torch.float64", "torch.float16")),
            "t": self.random.choice(("torch.float32", "torch.bfloat16", "torch.bool", "torch.float64")),
            "i": f"torch.tensor({[self.random.randrange(max(size, 1)) for _ in range(self.random.choice((1, 3, 4)))]})",
        }
        return _PLACE.sub(lambda place: choices[place[1]], template)

    def _fitting(self, x: Tensor, names: list[str]) -> str:
        """Mostly a tensor that broadcasts with x."""
        fitting = [n for n in names if _broadcasts(x.shape, self.scope[n].shape)]
        return self.random.choice(fitting if fitting and self.random.random() < 0.8 else names or self.names)

    # -- text ---------------------------------------------------------------------------------
    def text(self) -> str:
        made = [line.partition(" = ")[0] for line in self.lines if re.match(r"t\d+ = ", line)]
        results = [*made[-1:], *self.random.sample(made, min(len(made), self.random.randint(0, 3)))]
        return program_text(self.inputs, self.gradient, self.lines, list(dict.fromkeys(results)) or self.names[:1])


def _broadcasts(a: Shape, b: Shape) -> bool:
    try:
        return math.prod(torch.broadcast_shapes(a, b)) <= LARGEST
    except RuntimeError:
        return False
