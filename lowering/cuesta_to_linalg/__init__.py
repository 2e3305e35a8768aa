"""cuesta → linalg: ops that compute become linalg on tensors; views and calls into ATen stay.

func @graph(%x: tensor<4x8xf32>) {                func @graph(%x: tensor<4x8xf32>) {
  %0 = cuesta.exp(%x)                        →      %0 = linalg.generic ins(%x) { math.exp }
  %1 = aten.call(%0) {aten.sort.default}            %1 = aten.call(%0) {aten.sort.default, dtypes}
"""

from __future__ import annotations

from dataclasses import dataclass

from cuesta._mlir import func, ir
from cuesta.dialects import aten, host, types
from cuesta.dialects.graph_function import DTYPE
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.dialects.upstream_fields import FUNCTION_TYPE, SYM_NAME
from cuesta.errors import Unsupported
from cuesta.lowering.cuesta_to_linalg import (  # noqa: F401  fill RULES
    attention,
    complex_numbers,
    depthwise,
    indexing,
    pointwise,
    product,
    reduction,
    scatter,
    shape,
)
from cuesta.lowering.cuesta_to_linalg.builder import LinalgBuilder
from cuesta.lowering.cuesta_to_linalg.rules import RULES
from cuesta.passes.infra.registry import Pass, register_pass


def _storage_type(value: ir.Value) -> ir.Type:
    return types.tensor(shape_of(value), types.storage(spelling_of(value)))


@register_pass("cuesta-to-linalg")
@dataclass(frozen=True)
class CuestaToLinalg(Pass):
    """Lowers the cuesta dialect to linalg on tensors."""

    #: Whether an index out of range is reported; indices are clamped in any case.
    checks: bool = True

    def run(self, module: ir.Module) -> None:
        with module.context:
            for op in list(module.body.operations):
                if isinstance(op, func.FuncOp):
                    _lower_function(op, self.checks)


def _lower_function(function: func.FuncOp, checks: bool) -> None:
    old_entry = function.regions[0].blocks[0]
    with function.location, ir.InsertionPoint(function):
        arguments = [_storage_type(a) for a in old_entry.arguments]
        new = func.FuncOp(function.name.value, (arguments, []))
        entry = new.add_entry_block()
    b = LinalgBuilder(full=dict(zip(old_entry.arguments, entry.arguments, strict=True)), checks=checks)
    with ir.InsertionPoint(entry):
        for op in old_entry.operations:
            with op.location:
                _lower_op(b, op.operation)
    _copy_attributes(function, new, old_entry)
    function.operation.erase()
    _erase_dead(entry)


def _lower_op(b: LinalgBuilder, op: ir.Operation) -> None:
    if op.name == func.ReturnOp.OPERATION_NAME:
        func.ReturnOp([b.full_form(v) for v in op.operands])
        return
    if aten.Call.matches(op):
        _lower_call(b, op)
        return
    if host.Check.matches(op):
        host.Check.build([b.squeezed_form(op.operands[0])], copied=dict(op.attributes.items()))
        return
    rule = RULES.get(op.name)
    if rule is None:
        raise Unsupported(f"{op.name} has no lowering to linalg, at {op.location}")
    rule(b, op)


def _lower_call(b: LinalgBuilder, op: ir.Operation) -> None:
    # From here on i8 may be int8, uint8 or bool: the attribute `dtypes` of the call says which.
    call = aten.Call.build(
        [b.full_form(v) for v in op.operands],
        [_storage_type(r) for r in op.results],
        copied=dict(op.attributes.items()),
        dtypes=[spelling_of(v) for v in (*op.operands, *op.results)],
    )
    b.full.update(zip(op.results, call.results, strict=True))


def _copy_attributes(old: func.FuncOp, new: func.FuncOp, old_entry: ir.Block) -> None:
    returned = list(new.regions[0].blocks[0].operations)[-1].operands
    function_type = ir.FunctionType.get(
        [a.type for a in new.regions[0].blocks[0].arguments], [v.type for v in returned]
    )
    old_return = list(old_entry.operations)[-1].operands
    for name, attribute in old.attributes.items():
        if name not in (FUNCTION_TYPE.name, SYM_NAME.name, "arg_attrs", "res_attrs"):
            new.attributes[name] = attribute
    FUNCTION_TYPE.put(new, function_type)
    for name, values in (("arg_attrs", old_entry.arguments), ("res_attrs", old_return)):
        if name not in old.attributes:
            continue
        merged = []
        for attrs, value in zip(old.attributes[name], values, strict=True):
            entries = {a.name: a.attr for a in attrs} | DTYPE.entry(spelling_of(value))
            merged.append(ir.DictAttr.get(entries))
        new.attributes[name] = ir.ArrayAttr.get(merged)


#: The ops that have an effect.
_KEPT = frozenset({func.ReturnOp.OPERATION_NAME, aten.Call.OPERATION_NAME, host.Check.OPERATION_NAME})


def _erase_dead(block: ir.Block) -> None:
    """Erases ops without users: accesses look through views, so most views have no users left."""
    for op in reversed(list(block.operations)):
        operation = op.operation
        if operation.name in _KEPT:
            continue
        if all(next(iter(r.uses), None) is None for r in operation.results):
            operation.erase()
