"""Gives each reader of a widened tensor a conversion of its own, so that none of them has to read the wide tensor.

    %1 = cuesta.convert(%0) : bf16 → f32        %1 = cuesta.convert(%0) : bf16 → f32
    %2 = cuesta.exp(%1)                         %2 = cuesta.exp(%1)
    %3 = cuesta.sum(%1)                    →    %4 = cuesta.convert(%0) : bf16 → f32
                                                %3 = cuesta.sum(%4)

If the readers become one kernel, the kernel converts twice, which costs nothing beside its memory traffic. If they
become two, the first need not write the wide tensor for the second.

With `cheap` the same goes for cheap ops between such a conversion and its readers, such as the distance from a mean
that is known: the gradient of a batch norm reads it twice, in two kernels. Where rows are reduced, as in a softmax
or a layer norm, the row stays in the kernel that reads it again, and its ops are not repeated.

On a CPU a second conversion takes time. There `broadcast` restricts the pass to readers that broadcast the tensor, such
as products of one row by several weights: their kernels convert the row once, or multiply by the narrow row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import func, ir
from cuesta.dialects import maker
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import byte_count, byte_size, shape_of, spelling_of
from cuesta.passes.analysis.aliases import returning
from cuesta.passes.graph.reshapes.hoist_reshapes import CHEAP, POINTWISE
from cuesta.passes.infra.graph_rewrite import first_of, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import estimate

_B = GraphBuilder()


@register_pass("repeat-conversions")
@dataclass(frozen=True)
class RepeatConversions(Pass):
    """Repeats conversions to wider types, one for each reader."""

    #: The most bytes of a wide tensor that is not worth another conversion.
    small: int = 1 << 16
    #: A reader gets a conversion of its own only if its result has at least `broadcast` times the tensor's elements.
    broadcast: int = 0
    #: Whether a cheap op of such a conversion and of small tensors is repeated with it.
    cheap: bool = False

    def run(self, module: ir.Module) -> None:
        names = CHEAP if self.cheap else [Convert.OPERATION_NAME]
        rewrite_ops(module, dict.fromkeys(names, self._repeat))

    def _repeat(self, op: ir.Operation) -> Sequence[ir.Value] | None:
        (result,) = op.results
        if not _is_widened(result) or byte_count(result) <= self.small:
            return None
        readers = list(dict.fromkeys(use.owner.operation for use in result.uses))
        if len(readers) < 2 or (not Convert.matches(op) and _is_reduced_in_rows(result)):
            return None
        results = returning(result)
        first = first_of(readers)
        for reader in readers:
            is_returning = reader.name == func.ReturnOp.OPERATION_NAME or (len(results) > 1 and reader in results)
            if reader == first or is_returning or not self._broadcasts(result, reader):
                continue
            if not Convert.matches(op) and reader.name not in POINTWISE and reduction.row_of(reader) is None:
                continue  # it reads the result from memory
            with ir.InsertionPoint(reader), op.location:
                own = _repeated(result)
            for i, operand in enumerate(reader.operands):
                if operand == result:
                    reader.operands[i] = own
        return None

    def _broadcasts(self, value: ir.Value, reader: ir.Operation) -> bool:
        """Whether a reader broadcasts a value as much as the option asks."""
        wide = max((estimate(shape_of(result)) for result in reader.results), default=0)
        return wide >= self.broadcast * estimate(shape_of(value))


def _is_reduced_in_rows(value: ir.Value, within: int = 3) -> bool:
    """Whether the last dim of a value is reduced, or that of what at most `within` pointwise ops compute from it."""
    for op in (use.owner.operation for use in value.uses):
        if reduction.row_of(op) is not None and reduction.Reduced.dims.of(op) == [len(shape_of(value)) - 1]:
            return True
        if within and op.name in POINTWISE and _is_reduced_in_rows(op.results[0], within - 1):
            return True
    return False


def _is_widened(value: ir.Value) -> bool:
    """Whether a conversion widens to a value, or to the only large operand of the cheap op that computes the value."""
    op = maker(value)
    if op is None or op.name not in CHEAP:
        return False
    if not Convert.matches(op):
        large = {x for x in op.operands if shape_of(x) == shape_of(value)}
        op = maker(large.pop(), Convert) if len(large) == 1 else None
    return op is not None and byte_size(spelling_of(op.results[0])) > byte_size(spelling_of(op.operands[0]))


def _repeated(value: ir.Value) -> ir.Value:
    """Computes anew a value of which `_is_widened` holds."""
    op = maker(value)
    assert op is not None
    if Convert.matches(op):
        return _B.convert(op.operands[0], spelling_of(value))
    operands = [_repeated(x) if shape_of(x) == shape_of(value) else x for x in op.operands]
    return repeat_op(op, operands, value.type).results[0]
