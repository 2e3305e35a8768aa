"""Decomposes reductions into the contribution of each element and the combination of two partial results.

A generic's body combines an element with an accumulator. A block is reduced as a tree, in any order, which needs a
combination of two accumulators. Contribution and combination are both derived from the body:

    ^bb0(%in, %out): %s = addf %out, f(%in)      →    contribution f(%in), combination addf
    ^bb0(%in, %best, %at): … select …            →    contribution (%in, index), combination: the body with
                                                      the one as %best and the other as %in; equal: lower index
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from cuesta._mlir import arith, ir
from cuesta.dialects import tt
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.named_linalg import is_fill
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.errors import Unsupported
from cuesta.lowering.linalg_to_tt.elementwise import Elementwise
from cuesta.lowering.linalg_to_tt.frame import Frame, Value, stretched

#: (a's partial results, b's) → their combination, of scalars or of blocks alike.
Combine = Callable[[Sequence[Value], Sequence[Value]], list[Value]]


@dataclass
class Reduction:
    """One reducing generic, decomposed."""

    op: ir.Operation
    #: The initial value of each accumulated result. A running sum has one; its second result is stored at each step.
    identities: list[ir.Attribute]
    combine: Combine
    contributions: Callable[[Elementwise, dict[Value, Value], list[int]], list[Value]]


def analyse(op: ir.Operation) -> Reduction:
    """Decomposes the body of a reducing generic. Raises Unsupported for a body of no known kind."""
    block = op.regions[0].blocks[0]
    outputs = len(op.results)
    outs = list(block.arguments)[-outputs:]
    identities = [filled_with(v) for v in list(op.operands)[-outputs:]]
    if outputs == 1:
        if identities[0] is None:
            raise Unsupported(f"a reduction that starts from a tensor, not from a constant, at {op.location}")
        return _simple(op, outs[0], identities[0])
    known = [i for i in identities if i is not None]
    if outputs == len(known) == 2:
        return _extreme(op, outs, known)
    raise Unsupported(f"a reduction of {outputs} results, not one or two, at {op.location}")


def running(op: ir.Operation) -> Reduction:
    """Decomposes a running sum or another scan, whose second result holds the total at each step."""
    block = op.regions[0].blocks[0]
    total = list(block.arguments)[-2]
    identity = filled_with(list(op.operands)[-2])
    if identity is None:
        raise Unsupported(f"a running sum that starts from a tensor, not from a constant, at {op.location}")
    users = {use.owner.operation for use in total.uses}
    if len(users) > 1:
        return _composed(op, total, users, identity)
    return _read_off(op, total, _user(op, total), identity)


def _composed(op: ir.Operation, total: Value, users: set[ir.Operation], identity: ir.Attribute) -> Reduction:
    """Decomposes a scan whose step has several ops. All ops that read the total must read the same one element."""
    elements = {v for user in users for v in user.operands} - {total}
    if len(elements) != 1:
        raise Unsupported(
            f"a running reduction that adds {len(elements)} values, not one, to its total in a step, at {op.location}"
        )
    (element,) = elements
    joined = list(body_ops(op))[-1].operands[0]
    cone = _cone(op, joined, {total, element})
    steps = [inner for inner in body_ops(op) if inner in cone]

    def combine(a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        values = {total: a[0], element: b[0]}
        for inner in steps:
            values[inner.results[0]] = _scalar_or_block(inner, values, a[0])
        return [values[joined]]

    def contributions(evaluate: Elementwise, values: dict[Value, Value], classes: list[int]) -> list[Value]:
        needed = _cone(op, element, set())
        evaluate.run((o for o in body_ops(op) if o in needed), values, classes)
        return [values[element]]

    return Reduction(op, [identity], combine, contributions)


def filled_with(tensor: Value) -> ir.Attribute | None:
    """The number that a tensor is filled with; None for a tensor that is not made by a fill."""
    owner = tensor.owner
    if isinstance(owner, ir.Block) or not is_fill(owner):
        return None
    return owner.operands[0].owner.attributes["value"]


def _user(op: ir.Operation, value: Value) -> ir.Operation:
    """The op that combines an element with the accumulator. A bool accumulator is a byte, truncated to a bit first."""
    users = [use.owner.operation for use in value.uses]
    if len(users) == 1 and users[0].name == arith.TruncIOp.OPERATION_NAME and str(value.type) == "i8":
        users = [use.owner.operation for use in users[0].results[0].uses]
    if len(users) != 1 or len(users[0].operands) != 2:
        raise Unsupported(
            f"a reduction whose accumulator has {len(users)} uses, not one by an op of two operands, at {op.location}"
        )
    return users[0]


def _simple(op: ir.Operation, out: Value, identity: ir.Attribute) -> Reduction:
    return _read_off(op, out, _user(op, out), identity)


def _read_off(op: ir.Operation, out: Value, step: ir.Operation, identity: ir.Attribute) -> Reduction:
    users = [use.owner.operation for use in out.uses]
    compared = {user.results[0] for user in users if user.name == arith.TruncIOp.OPERATION_NAME}
    (element,) = (v for v in step.operands if v != out and v not in compared)
    attributes = dict(step.attributes.items())

    def combine(a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        joined = ir.Operation.create(step.name, results=[a[0].type], operands=[a[0], b[0]], attributes=attributes)
        return [joined.result]

    def contributions(evaluate: Elementwise, values: dict[Value, Value], classes: list[int]) -> list[Value]:
        needed = _cone(op, element, {out, *compared})
        evaluate.run((o for o in body_ops(op) if o in needed), values, classes)
        found = values[element]
        if element_of(found) != out.type:  # a bool is a byte in memory
            found = arith.extui(tt.block_type(shape_of(found), out.type), found)
        return [found]

    return Reduction(op, [identity], combine, contributions)


def _cone(op: ir.Operation, value: Value, without: set[Value]) -> set[ir.Operation]:
    """The ops of a body that `value` depends on, except through `without`."""
    found: set[ir.Operation] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current.owner, ir.Block) or current in without or current.owner in found:
            continue
        found.add(current.owner)
        pending += list(current.owner.operands)
    return found


def _extreme(op: ir.Operation, outs: list[Value], identities: list[ir.Attribute]) -> Reduction:
    """Decomposes argmax or argmin: the largest or smallest element and its index."""
    block = op.regions[0].blocks[0]
    body = list(body_ops(op))
    (element,) = list(block.arguments)[: -len(outs)]
    positions = [o for o in body if o.name == arith.IndexCastOp.OPERATION_NAME]
    if len(positions) != 1:
        raise Unsupported(f"a reduction of two results that is neither argmax nor argmin, at {op.location}")
    here = positions[0].results[0]
    skipped = {positions[0], positions[0].operands[0].owner}

    def combine(a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        values = {outs[0]: a[0], outs[1]: a[1], element: b[0], here: b[1]}
        for inner in body[:-1]:
            if inner in skipped:
                continue
            values[inner.results[0]] = _scalar_or_block(inner, values, a[0])
        best, at = (values[v] for v in body[-1].operands)
        equal = _same(a[0], b[0])
        return [best, arith.select(equal, arith.minsi(a[1], b[1]), at)]

    def contributions(evaluate: Elementwise, values: dict[Value, Value], classes: list[int]) -> list[Value]:
        evaluate.run((o for o in body if o in skipped), values, classes)
        shape = [max(s) for s in zip(shape_of(values[element]), shape_of(values[here]), strict=True)]
        return [stretched(values[element], shape), stretched(values[here], shape)]

    return Reduction(op, identities, combine, contributions)


def _scalar_or_block(op: ir.Operation, values: dict[Value, Value], like: Value) -> Value:
    """An op of a body on operands that are all scalars or all blocks of one shape."""
    shape = shape_of(like)
    kind = tt.block_type(shape, op.results[0].type)
    if op.name == arith.ConstantOp.OPERATION_NAME:
        value = op.attributes["value"]
        attribute = ir.DenseElementsAttr.get_splat(kind, value) if shape else value
        return arith.ConstantOp(kind, attribute).result
    return repeat_op(op, [values[v] for v in op.operands], kind).result


def _same(x: Value, y: Value) -> Value:
    """Whether two extremes are equal, NaN being equal to NaN."""
    if not isinstance(element_of(x), ir.FloatType):
        return arith.cmpi(arith.CmpIPredicate.eq, x, y)
    uno = arith.CmpFPredicate.UNO
    both = arith.andi(arith.cmpf(uno, x, x), arith.cmpf(uno, y, y))
    return arith.ori(arith.cmpf(arith.CmpFPredicate.OEQ, x, y), both)


def starts(frame: Frame, reduction: Reduction, classes: Iterable[int]) -> list[Value]:
    """The initial values of the accumulators of a loop whose blocks have these classes."""
    kinds = [tt.block_type(frame.shape(classes), identity.type) for identity in reduction.identities]
    return [
        arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, identity)).result
        for kind, identity in zip(kinds, reduction.identities, strict=True)
    ]


def masked(frame: Frame, reduction: Reduction, values: Sequence[Value], reduced: Sequence[int]) -> list[Value]:
    """Contributions, with the identity at positions beyond the end of a reduced class."""
    mask = frame.mask(reduced)
    found = []
    for value, identity in zip(values, reduction.identities, strict=True):
        # A value that lacks a reduced class counts once for each position along that class.
        shape = [max(a, b) for a, b in zip(shape_of(value), frame.shape(reduced), strict=True)]
        value = stretched(value, shape)
        if mask is not None:
            kind = value.type
            neutral = arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, identity)).result
            value = arith.select(stretched(mask, shape), value, neutral)
        found.append(value)
    return found


def along(frame: Frame, reduction: Reduction, values: Sequence[Value], reduced: Sequence[int]) -> list[Value]:
    """Reduces blocks along the classes `reduced`, whose dims stay, with size 1. The last dim comes first: its elements
    are side by side in memory, so a thread has several of them and adds them up by itself. A last dim of pairs is
    joined with the dim before it: a thread then adds up products with the instruction that multiplies and adds."""

    def combine(*both: Value) -> list[Value]:
        half = len(both) // 2
        return reduction.combine(both[:half], both[half:])

    current = list(values)
    axes = [axis for axis, c in enumerate(frame.axes) if c in reduced]
    if len(shape := shape_of(current[0])) > 2 and shape[-1] == 2 and axes[-2:] == [len(shape) - 2, len(shape) - 1]:
        current = [tt.reshape(v, (*shape[:-2], 2 * shape[-2])) for v in current]
        current = [tt.expand_dims(v, len(shape) - 2) for v in tt.reduce(current, axes[-2], combine)]
        current = [tt.expand_dims(v, len(shape) - 1) for v in current]
        axes = axes[:-2]
    for axis in reversed(axes):
        current = tt.reduce(current, axis, combine)
        current = [tt.expand_dims(v, axis) if shape_of(v) else tt.splat(v, frame.unit) for v in current]
    return current


def all_along(frame: Frame, parts: Sequence[tuple[Reduction, Sequence[Value], Sequence[int]]]) -> list[list[Value]]:
    """`along` for each reduction, its blocks and the classes to reduce. Blocks of one shape along the same classes are
    reduced together: the threads wait for one another once for all of them."""
    found: list[list[Value]] = [[] for _ in parts]
    shapes = [(tuple(sorted(reduced)), tuple(shape_of(values[0]))) for _, values, reduced in parts]
    for shape in dict.fromkeys(shapes):
        own = [i for i, other in enumerate(shapes) if other == shape]
        joint = _joined([parts[i][0] for i in own])
        totals = iter(along(frame, joint, [v for i in own for v in parts[i][1]], shape[0]))
        for i in own:
            found[i] = [next(totals) for _ in parts[i][1]]
    return found


def _joined(parts: Sequence[Reduction]) -> Reduction:
    """One reduction that does all of `parts`; a single one as it is."""
    first, *others = parts
    if not others:
        return first
    counts = [len(part.identities) for part in parts]
    starts = list(itertools.accumulate(counts, initial=0))

    def combine(a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        spans = [slice(start, start + count) for start, count in zip(starts, counts, strict=False)]
        return [v for part, own in zip(parts, spans, strict=True) for v in part.combine(a[own], b[own])]

    return replace(first, identities=[i for part in parts for i in part.identities], combine=combine)
