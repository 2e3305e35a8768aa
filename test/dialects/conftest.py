"""Runs ops of the cuesta dialect on tensors in two ways: by their torch references, and compiled to native code."""

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


def module_of(ops: Sequence[Op]) -> str:
    """A module whose @graph has these ops. Its arguments are their operands, with the operands' strides."""
    arguments, returns, types_returned, values, lines = [], [], [], [], []
    for n, op in enumerate(ops):
        given = [_type(x.shape, types.SPELLING[x.dtype]) for x in op.operands]
        made = [_type(shape, spelling) for shape, spelling in op.results]
        names = [f"%x{n}_{i}" for i in range(len(given))]
        arguments += [
            f"{name}: {kind} {_strides(x.stride())}" for name, kind, x in zip(names, given, op.operands, strict=True)
        ]
        returns += [f"{kind} {_strides(row_major(shape))}" for kind, (shape, _) in zip(made, op.results, strict=True)]
        types_returned += made
        values += [f"%y{n}#{i}" for i in range(len(made))]
        kind = f"({', '.join(given)}) -> ({', '.join(made)})"
        lines.append(f'%y{n}:{len(made)} = "cuesta.{op.name}"({", ".join(names)}) {{{op.attributes}}} : {kind}')
    body = "\n".join(lines)
    return f"""
      func.func @graph({", ".join(arguments)}) -> ({", ".join(returns)}) {{
        {body}
        return {", ".join(values)} : {", ".join(types_returned)}
      }}"""


def run(ops: Sequence[Op]) -> tuple[list[Tensor], list[Tensor]]:
    """(results of the reference, results of one compiled program), of all ops in order."""
    operands = [x for op in ops for x in op.operands]
    with make_context():
        module = ir.Module.parse(module_of(ops))
        verify(module, "parse")
        expected = run_reference(module, operands)
        return expected, compile_module(module)(operands)


def _type(shape: Sequence[int], spelling: str) -> str:
    return f"tensor<{'x'.join(map(str, (*shape, spelling)))}>"


def _strides(strides: Sequence[int]) -> str:
    return f"{{cuesta.strides = [{', '.join(map(str, strides))}]}}"


def check(ops: Sequence[Op]) -> None:
    """Compares compiled results with the ops' references, within torch.testing's tolerances for the dtype."""
    names = [f"{op.name} {i}, result {j}" for i, op in enumerate(ops) for j in range(len(op.results))]
    expected, actual = (dict(zip(names, results, strict=True)) for results in run(ops))
    torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.fixture(scope="session")
def check_op() -> Callable[..., None]:
    """Compares one op's compiled results with its reference: (name, operands, results, attributes)."""
    return lambda *arguments: check([Op(*arguments)])


@pytest.fixture(scope="session")
def check_ops() -> Callable[..., None]:
    """As `check_op`, for many such tuples, in one program: what a program costs is mostly not its kernels'."""
    return lambda ops: check([Op(*arguments) for arguments in ops])
