"""Defines ops of complex numbers: their two parts, and views of memory as complex or as real numbers.

Ops that move elements move complex elements whole, as they are stored: below the dialect, an element is an integer of
twice a part's width, with the real part in the lower half. Ops that compute work on the parts:

    %re = cuesta.real(%z)    %im = cuesta.imag(%z)    %w = cuesta.complex(%re, %im)

A view copies no memory. Kernels read through these ops; calls into ATen and results get a view.
"""

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operand, Operation, Result, reference, verifier
from cuesta.dialects.cuesta.pointwise import broadcast_shape
from cuesta.dialects.types import spelling_of
from cuesta.sizes import Number

#: The spelling of a complex type → that of its parts.
PARTS = {f"complex<{part}>": part for part in ("f32", "f64", "bf16", "f16")}
#: The inverse.
WHOLES = {part: whole for whole, part in PARTS.items()}


class Real(Operation, name="real", traits=[ext.Pure]):
    """The real part of each element."""

    x: Operand
    result: Result


class Imag(Operation, name="imag", traits=[ext.Pure]):
    """The imaginary part of each element."""

    x: Operand
    result: Result


class Complex(Operation, name="complex", traits=[ext.Pure]):
    """Complex numbers from their parts, which broadcast."""

    real: Operand
    imag: Operand
    result: Result


class ViewAsReal(Operation, name="view_as_real", traits=[ext.Pure]):
    """The parts side by side in a last dim of size 2."""

    x: Operand
    result: Result


class ViewAsComplex(Operation, name="view_as_complex", traits=[ext.Pure]):
    """The inverse: the last dim, of size 2, holds the parts."""

    x: Operand
    result: Result


# Torch has no complex numbers of bf16: their parts are widened, which is exact.
def _stored(x: torch.Tensor, op: ir.Operation) -> torch.Tensor:
    return x.to(types.torch_dtype(spelling_of(op.results[0])))


@reference(Real)
def _real(op: ir.Operation, xs: list[torch.Tensor]) -> torch.Tensor:
    return _stored(xs[0].real, op)


@reference(Imag)
def _imag(op: ir.Operation, xs: list[torch.Tensor]) -> torch.Tensor:
    return _stored(xs[0].imag, op)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype.itemsize < 4 else x


@reference(Complex)
def _complex(op: ir.Operation, xs: list[torch.Tensor]) -> torch.Tensor:
    return torch.complex(*torch.broadcast_tensors(*map(_wide, xs)))


@reference(ViewAsReal)
def _view_as_real(op: ir.Operation, xs: list[torch.Tensor]) -> torch.Tensor:
    return _stored(torch.view_as_real(xs[0].resolve_conj()), op)


@reference(ViewAsComplex)
def _view_as_complex(op: ir.Operation, xs: list[torch.Tensor]) -> torch.Tensor:
    return torch.view_as_complex(_wide(xs[0]).contiguous())


@verifier(Real, Imag)
def _verify_part(op: ir.Operation) -> str | None:
    source, result = spelling_of(op.operands[0]), spelling_of(op.results[0])
    if PARTS.get(source) != result:
        return f"takes a complex type and gives its float type, got {source} → {result}"
    return _verify_shape(op, types.shape_of(op.operands[0]))


@verifier(Complex)
def _verify_complex(op: ir.Operation) -> str | None:
    real, imag, result = (spelling_of(v) for v in (*op.operands, op.results[0]))
    if real != imag or WHOLES.get(real) != result:
        return f"takes two floats of one type and gives the complex type of both, got {real}, {imag} → {result}"
    shape = broadcast_shape(*(types.shape_of(v) for v in op.operands))
    return "operands do not broadcast" if shape is None else _verify_shape(op, shape)


@verifier(ViewAsReal)
def _verify_view_as_real(op: ir.Operation) -> str | None:
    wrong = _verify_types(op.operands[0], op.results[0])
    return wrong or _verify_shape(op, (*types.shape_of(op.operands[0]), 2))


@verifier(ViewAsComplex)
def _verify_view_as_complex(op: ir.Operation) -> str | None:
    wrong = _verify_types(op.results[0], op.operands[0])
    sizes = types.shape_of(op.operands[0])
    if not wrong and sizes[-1:] != (2,):
        return "needs a last dim of size 2, of a real and an imaginary part"
    return wrong or _verify_shape(op, sizes[:-1])


def _verify_types(whole: ir.Value, part: ir.Value) -> str | None:
    """Accepts the dialect's types and the storage types."""
    spelled, parts = spelling_of(whole), spelling_of(part)
    known = PARTS.items() | {(types.storage(name), kind) for name, kind in PARTS.items()}
    return (
        None
        if (spelled, parts) in known
        else f"goes from complex numbers to pairs of their floats or back, not {spelled}"
    )


def _verify_shape(op: ir.Operation, expected: tuple[Number, ...]) -> str | None:
    actual = types.shape_of(op.results[0])
    return None if actual == expected else f"gives {list(expected)}, but the result is {list(actual)}"
