"""Runs one op of the cuesta dialect on tensors in two ways: by its torch reference, and compiled to native code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch

from cuesta._mlir import ir
from cuesta.dialects import make_context, types, verify
from cuesta.dialects.reference import run_reference
from cuesta.dialects.types import row_major
from cuesta.driver.lower import compile_module

Tensor = torch.Tensor


@dataclass(frozen=True)
class Op:
    """`name(operands) {attributes}` with results of the given shapes and element types."""

    name: str
    operands: Sequence[Tensor]
    results: Sequence[tuple[Sequence[int], str]]
    attributes: str = ""

    def text(self) -> str:
        """A module whose @graph is this op; arguments have the operands' strides."""
        given = [_type(x.shape, types.SPELLING[x.dtype]) for x in self.operands]
        made = [_type(shape, spelling) for shape, spelling in self.results]
        arguments = ", ".join(
            f"%x{i}: {kind} {_strides(x.stride())}"
            for i, (kind, x) in enumerate(zip(given, self.operands, strict=True))
        )
        returns = ", ".join(
            f"{kind} {_strides(row_major(shape))}" for kind, (shape, _) in zip(made, self.results, strict=True)
        )
        kind = f"({', '.join(given)}) -> ({', '.join(made)})"
        names = ", ".join(f"%x{i}" for i in range(len(given)))
        values = ", ".join(f"%y#{i}" for i in range(len(made)))
        return f"""
          func.func @graph({arguments}) -> ({returns}) {{
            %y:{len(made)} = "cuesta.{self.name}"({names}) {{{self.attributes}}} : {kind}
            return {values} : {", ".join(made)}
          }}"""

    def run(self) -> tuple[list[Tensor], list[Tensor]]:
        """(results of the reference, results of the compiled program)."""
        with make_context():
            module = ir.Module.parse(self.text())
            verify(module, "parse")
            expected = run_reference(module, self.operands)
            return expected, compile_module(module)(list(self.operands))


def _type(shape: Sequence[int], spelling: str) -> str:
    return f"tensor<{'x'.join(map(str, (*shape, spelling)))}>"


def _strides(strides: Sequence[int]) -> str:
    return f"{{cuesta.strides = [{', '.join(map(str, strides))}]}}"


@pytest.fixture(scope="session")
def check_op() -> Callable[..., None]:
    """Compares an op's compiled results with its reference, within torch.testing's tolerances for the dtype."""

    def check(*arguments: object, **named: object) -> None:
        expected, actual = Op(*arguments, **named).run()  # type: ignore[arg-type]
        torch.testing.assert_close(actual, expected, equal_nan=True)

    return check
