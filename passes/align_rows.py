"""Gives the rows of matrices that the library multiplies an aligned beginning, where we say how these lie.

    %2 = aten.call(%0, %1) {mm, result_strides = [[30522, 1]]}   →   {mm, result_strides = [[30528, 1]]}

The fast kernels of cuBLAS want every row to begin at a multiple of 16 bytes. With a vocabulary of 30522 in bf16 it
takes one that is 2.6 times slower. A result that the graph returns has the strides of eager and is copied, which a
long product is worth. An operand that a kernel of ours computes is asked for in aligned rows (`operand_strides`);
form-kernels decides. A bias becomes an addition, which the next kernel does: cuBLAS takes it in only where rows have
no gaps between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects import aten
from cuesta.dialects.cuesta.dialect import int_array, ints
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.module_target import target_of
from cuesta.dialects.types import byte_size, row_major, shape_of, spelling_of, static_shape
from cuesta.passes.graph_rewrite import functions, rewrite_ops, users
from cuesta.passes.registry import Pass, register_pass
from cuesta.sizes import Size

_B = GraphBuilder()
_PLAIN = {"aten.addmm.default": "aten.mm.default", "aten.baddbmm.default": "aten.bmm.default"}
_PRODUCTS = {*_PLAIN, *_PLAIN.values()}
_NARROW = ("bf16", "f16")

#: Bytes: what the kernels of the library ask for, and what rows are given, a line of the cache.
_ASKED, _GIVEN = 16, 128
#: Products of elements from which on it is worth the gaps.
_LEAST_WORK = 1 << 27
#: A row of the first factor from which on a returned result is worth a copy: reading and writing an element takes as
#: long as about 160 multiplications more than they should.
_WORTH_A_COPY = 512


@register_pass("align-rows")
@dataclass(frozen=True)
class AlignRows(Pass):
    """Aligns the rows of products' operands and results."""

    #: Products of elements in a matrix product that is looked at.
    work: int = _LEAST_WORK

    def run(self, module: ir.Module) -> None:
        if target_of(module).kind not in ("cuda", "hip", "tt"):
            return
        with module.context:
            for function in functions(module):
                for op in function.regions[0].blocks[0].operations:
                    if _is_product(op.operation) and _work(op.operation) >= self.work:
                        _ask_for_operands(op.operation)
            rewrite_ops(module, {"aten.call": self._align})

    def _align(self, op: ir.Operation) -> Sequence[ir.Value] | None:
        if not _is_product(op) or _work(op) < self.work:
            return None
        (result,) = op.results
        sizes = static_shape(result)
        strides = aligned(sizes, spelling_of(result))
        traced = ints(op.attributes["result_strides"][0])
        a, b = list(op.operands)[-2:]
        if strides is None or traced != list(row_major(sizes)):
            return None
        if _is_returned(result) and static_shape(a)[-1] < _WORTH_A_COPY:
            return None
        overload = op.attributes["overload"].value
        if overload in _PLAIN:
            _, scalars = aten.decode_call(op.attributes["args"].value, list(op.operands))
            if {scalars.get("beta", 1), scalars.get("alpha", 1)} != {1}:
                return None
        operand_strides = list(op.attributes["operand_strides"])[-2:] if "operand_strides" in op.attributes else None
        reason = op.attributes["reason"].value
        (product,) = _B.aten(
            _PLAIN.get(overload, overload), [a, b], {}, [(sizes, spelling_of(result), strides)], reason
        )
        if operand_strides is not None:
            product.owner.attributes["operand_strides"] = ir.ArrayAttr.get(operand_strides)
        return [_B.pointwise("add", product, op.operands[0]) if overload in _PLAIN else product]


def aligned(sizes: Sequence[int], spelling: str) -> list[int] | None:
    """Strides of a matrix, or of a batch of them, with aligned rows; None where they are aligned without gaps."""
    width = byte_size(spelling)
    if sizes[-1] * width % _ASKED == 0:
        return None
    row = math.ceil(sizes[-1] * width / _GIVEN) * _GIVEN // width
    return [*(math.prod(sizes[d + 1 : -1]) * row for d in range(len(sizes) - 1)), 1]


def _is_product(op: ir.Operation) -> bool:
    if op.name != "aten.call" or op.attributes["overload"].value not in _PRODUCTS:
        return False
    fixed = not any(isinstance(n, Size) for value in (*op.operands, *op.results) for n in shape_of(value))
    return fixed and spelling_of(op.results[0]) in _NARROW


def _work(op: ir.Operation) -> int:
    return math.prod(static_shape(op.results[0])) * static_shape(list(op.operands)[-2])[-1]


def _ask_for_operands(op: ir.Operation) -> None:
    """Asks for aligned rows of the factors that our kernels compute."""
    operands = list(op.operands)
    asked = {i: _of_computed(operands[i]) for i in range(len(operands) - 2, len(operands))}
    if not any(asked.values()):
        return
    traced = list(op.attributes["operand_strides"]) if "operand_strides" in op.attributes else []
    traced = traced or [ir.UnitAttr.get()] * len(operands)
    for i, strides in asked.items():
        if strides is not None:
            traced[i] = int_array(strides)
    op.attributes["operand_strides"] = ir.ArrayAttr.get(traced)


def _of_computed(value: ir.Value) -> list[int] | None:
    """The strides of a factor whose rows in memory are aligned; None where they are anyhow, or not ours to say."""
    order = list(range(len(shape_of(value))))
    while not isinstance(value.owner, ir.Block) and value.owner.name == "cuesta.permute":
        dims = ints(value.owner.attributes["dims"])
        order = [dims[d] for d in order]
        value = value.owner.operands[0]
    if isinstance(value.owner, ir.Block) or value.owner.name in ("aten.call", "cuesta.slice", "cuesta.expand"):
        return None
    strides = aligned(static_shape(value), spelling_of(value))
    return None if strides is None else [strides[d] for d in order]


def _is_returned(value: ir.Value) -> bool:
    """Whether the graph returns a value, or a view of it."""
    return any(
        user.name == "func.return"
        or (user.name in ("cuesta.reshape", "cuesta.permute") and _is_returned(user.results[0]))
        for user in users(value)
    )
