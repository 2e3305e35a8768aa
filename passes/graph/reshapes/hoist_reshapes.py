"""Moves a reshape above the pointwise op whose only user it is, so that pointwise ops become neighbours.

    %1 = cuesta.gelu(%0) : tensor<2x128x8xf32>        %1 = cuesta.reshape(%0) : tensor<256x8xf32>
    %2 = cuesta.reshape(%1) : tensor<256x8xf32>   →   %2 = cuesta.gelu(%1)

Every operand of the op must have the result's shape or be a single number, as other operands that broadcast cannot be
reshaped alike. A reshape that is only returned stays below an op whose operand others read: it has no neighbour above.
One that no op of ours reads, only calls, stays where it would stop below another op of ours, such as a norm: it would
part the two.

With `repeat`, operands may broadcast along whole runs of dims, and a cheap op that has other users too is computed
twice. So a widened tensor (f32 of bf16) is not written to memory only because a view of it is read. A conversion behind
a reshape that stays below a norm moves up instead: the norm's kernel converts. Two results that are one value keep
sharing memory, to which the caller may write. What follows a sum stays there where its reader spreads it over many more
elements: the sum's kernel computes it once, and not each program of the reader's. A reshape that parts dims which only
permutes read moves up although no op computes with it: the op above writes the permuted order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import func, ir
from cuesta.dialects import maker, types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta import pointwise, reduction
from cuesta.dialects.cuesta.complex_numbers import Complex, Imag, Real
from cuesta.dialects.cuesta.contraction import Depthwise, MatMul
from cuesta.dialects.cuesta.dialect import Cuesta, names_of
from cuesta.dialects.cuesta.pointwise import Convert, Where
from cuesta.dialects.cuesta.shape import Cat, Expand, Permute, Reshape, Slice
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.passes.analysis.aliases import returning
from cuesta.passes.analysis.match import only_has_ones, unreshaped, without_ones
from cuesta.passes.analysis.runs import runs
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, is_unused, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number, hint

_B = GraphBuilder()
#: Ops that work element by element.
POINTWISE = names_of(*pointwise.OPS.values(), Where, Convert, Real, Imag, Complex)
#: Ops that cost no more than an addition: a kernel may as well recompute their result as read it.
CHEAP = names_of(Convert, *(pointwise.OPS[row.name] for row in pointwise.ROWS if row.cost <= 1))


def _hoistable(op: ir.Operation) -> bool:
    sources = _past(op.operands[0])
    if sources is None:
        return False
    is_read_beside = any(len(users(x)) > 1 for x in sources)
    return not (is_read_beside and all(user.name == func.ReturnOp.OPERATION_NAME for user in users(op.results[0])))


def _broadcasts_runs(op: ir.Operation) -> bool:
    """Whether a reshape is the only user of a pointwise op, some of whose operands broadcast along whole runs of dims,
    and an op computes with it."""
    owner = op.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name not in POINTWISE or len(users(op.operands[0])) != 1:
        return False
    old, new = types.shape_of(op.operands[0]), types.shape_of(op.results[0])
    if old == ():
        return False  # single numbers stay as they are
    fits = all(reshaped_operand(types.shape_of(x), old, new) is not None for x in owner.operands)
    return fits and _is_computed_with(op)


def _ends_a_sum(value: ir.Value) -> bool:
    """Whether pointwise ops compute a value from the result of a reduction, among others."""
    pending, seen = [value], set()
    while pending:
        op = maker(pending.pop())
        if op is None or op in seen:
            continue
        seen.add(op)
        if reduction.row_of(op) is not None:
            return True
        if op.name in POINTWISE or only_has_ones(op):
            pending += [x for x in op.operands if without_ones(x) == without_ones(value)]
    return False


def _is_spread(value: ir.Value) -> bool:
    """Whether all readers of a value, or of a conversion or view of it, have more elements."""
    count = hint(math.prod(types.shape_of(value)))

    def spreads(user: ir.Operation) -> bool:
        has_more = any(hint(math.prod(types.shape_of(result))) > count for result in user.results)
        if has_more and (user.name in POINTWISE or Expand.matches(user)):
            return True
        return (Convert.matches(user) or user.name in VIEWS) and _is_spread(user.results[0])

    return all(map(spreads, users(value)))


def _past(value: ir.Value) -> list[ir.Value] | None:
    """The operands to reshape instead of `value`, if a reshape is the only user of `value` and moves up past the
    pointwise op that computes it; None if the reshape cannot move."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in POINTWISE or len(users(value)) != 1:
        return None
    shape = types.shape_of(value)
    if shape == () or any(types.shape_of(x) not in (shape, ()) for x in owner.operands):
        return None  # single numbers stay as they are
    return [x for x in owner.operands if types.shape_of(x) == shape]


def _is_computed_with(view: ir.Operation) -> bool:
    """Whether an op of ours computes with a view, or with a view of it; not only calls read it, or the caller."""
    return any(_is_computed_with(user) if user.name in VIEWS else Cuesta.owns(user) for user in users(view.results[0]))


def _is_only_read(view: ir.Operation) -> bool:
    """Whether whatever reads a view, or a conversion or view of it, finds it in memory on a GPU: calls, the caller, and
    sums of columns, whose kernel is not that of the rows."""
    return not any(
        not _is_only_read(user)
        if user.name in VIEWS or Convert.matches(user)
        else Cuesta.owns(user) and not _sums_columns(user)
        for user in users(view.results[0])
    )


def _is_only_summed(view: ir.Operation) -> bool:
    """Whether all that reads a view, or a conversion or view of it, are sums of columns."""
    return all(
        _is_only_summed(user) if user.name in VIEWS or Convert.matches(user) else _sums_columns(user)
        for user in users(view.results[0])
    )


def _sums_columns(op: ir.Operation) -> bool:
    last = len(types.shape_of(op.operands[0])) - 1 if len(op.operands) else 0
    return reduction.row_of(op) is not None and last not in reduction.Reduced.dims.of(op)


def _only_converted(view: ir.Operation) -> bool:
    """Whether all that computes with a view is one conversion, to a type that is no wider."""
    readers = users(view.results[0])
    if len(readers) != 1 or not Convert.matches(readers[0]):
        return False
    return types.byte_count(readers[0].results[0]) <= types.byte_count(view.results[0])


def _sink(op: ir.Operation) -> None:
    """Moves a reshape below the conversion that is its only reader, and so leaves the conversion with the kernel above:
    a norm's result is written in the type of the product that reads it."""
    (conversion,) = users(op.results[0])
    with ir.InsertionPoint(conversion), conversion.location:
        converted = _B.convert(op.operands[0], types.spelling_of(conversion.results[0]))
        below = _B.reshape(converted, list(types.shape_of(op.results[0])))
    conversion.results[0].replace_all_uses_with(below)
    conversion.erase()
    op.erase()


def _meets_kernel(value: ir.Value, through_views: bool) -> bool:
    """Whether a reshape of `value` that moves up, past pointwise ops, ends below another op of ours. `through_views`: a
    view above these ops counts as what it views."""
    pending = [value]
    while pending:
        value = pending.pop()
        owner = value.owner
        if isinstance(owner, ir.Block) or Reshape.matches(owner) or not Cuesta.owns(owner):
            continue
        if through_views and owner.name in VIEWS:
            pending.append(owner.operands[0])
            continue
        sources = _past(value)
        if sources is None:
            return True
        pending += sources
    return False


def _is_written_permuted(view: ir.Operation) -> bool:
    """Whether a reshape parts dims that permutes then read, of what an op computes from tensors in memory: with the
    parted dims the op writes the order that is read, such as queries, keys and values one behind the other. Rows stay
    rows."""
    (value,), readers = view.operands, users(view.results[0])
    producer, old, new = maker(value), types.shape_of(value), types.shape_of(view.results[0])
    if producer is None or producer.name not in POINTWISE or len(users(value)) != 1 or only_has_ones(view):
        return False
    if not all(Permute.matches(user) and Permute.dims.of(user)[-1] == len(new) - 1 for user in readers):
        return False
    large = [maker(unreshaped(x)) for x in producer.operands if types.shape_of(x) == old]
    in_memory = all(op is None or not Cuesta.owns(op) for op in large)
    return in_memory and all(reshaped_operand(types.shape_of(x), old, new) is not None for x in producer.operands)


def _repeatable(op: ir.Operation) -> bool:
    """Whether the reshape's source may as well be recomputed, from one reshaped tensor of no more bytes."""
    source = op.operands[0]
    owner = source.owner
    if isinstance(owner, ir.Block) or owner.name not in CHEAP:
        return False
    if len(results := returning(source)) > 1 and op in results:
        return False
    shape, target = types.shape_of(source), types.shape_of(op.results[0])
    if shape == ():
        return False  # its operands are single numbers, which stay as they are
    large = {x for x in owner.operands if types.shape_of(x) == shape}
    if len(large) != 1 or types.byte_count(next(iter(large))) > types.byte_count(source):
        return False
    return all(reshaped_operand(types.shape_of(x), shape, target) is not None for x in owner.operands)


def _keeps_parts(op: ir.Operation) -> bool:
    """Whether a reshape is the only user of a concatenation or a slice, and only splits or joins dims before the one
    along which that works."""
    (value,) = op.operands
    producer = maker(value)
    if producer is None or len(users(value)) != 1 or not _is_computed_with(op):
        return False
    dim = _dim_of_parts(producer)
    own, target = types.shape_of(value), types.shape_of(op.results[0])
    behind = len(own) - dim if dim is not None else 0
    return dim is not None and len(target) >= behind and own[dim:] == target[len(target) - behind :]


def _dim_of_parts(op: ir.Operation) -> int | None:
    """The first dim along which an op takes parts of a tensor, or puts parts together; None for other ops."""
    if Cat.matches(op):
        return Cat.dim.of(op)
    if not Slice.matches(op) or set(Slice.steps.of(op)) != {1}:
        return None
    whole, part = types.shape_of(op.operands[0]), types.shape_of(op.results[0])
    cut = [d for d, (n, m) in enumerate(zip(whole, part, strict=True)) if n != m]
    return cut[0] if cut else None


def _hoist_above_parts(op: ir.Operation) -> list[ir.Value]:
    """Moves the reshape above the concatenation or slice whose only user it is; returns the reshaped values."""
    producer, target = op.operands[0].owner, types.shape_of(op.results[0])
    dim = _dim_of_parts(producer)
    assert dim is not None
    behind = len(types.shape_of(op.operands[0])) - dim
    leading = list(target[: len(target) - behind])
    with ir.InsertionPoint(producer), producer.location:
        operands = [reshaped(x, [*leading, *types.shape_of(x)[dim:]]) for x in producer.operands]
        if Cat.matches(producer):
            moved = _B.cat(operands, len(leading))
        else:
            starts = [0] * len(leading) + list(Slice.starts.of(producer)[dim:])
            moved = Slice(operands[0], starts, [1] * len(target), result=op.results[0].type).result
    op.results[0].replace_all_uses_with(moved)
    op.erase()
    sources = [unreshaped(x) for x in producer.operands]
    producer.erase()
    return sources


def reshaped_operand(sizes: Sequence[Number], old: Sequence[Number], new: Sequence[Number]) -> list[Number] | None:
    """The sizes that make an operand that broadcasts to `old` broadcast to `new`; None where no reshape does that.

    An operand must have all dims of a run or none of them.
    """
    found = runs(old, new)
    if found is None:
        return None
    padded = [1] * (len(old) - len(sizes)) + list(sizes)
    result: list[Number] = []
    for before, after in found:
        own = [padded[d] for d in before]
        if own == [old[d] for d in before]:
            result += [new[d] for d in after]
        elif all(size == 1 for size in own):
            result += [1] * len(after)
        else:
            return None
    return result


def _hoist(op: ir.Operation) -> list[ir.Value]:
    """Moves the reshape above its producer, or above a copy if that has other users; returns the reshaped values."""
    producer, target = op.operands[0].owner, types.shape_of(op.results[0])
    shape = types.shape_of(op.operands[0])
    with ir.InsertionPoint(producer), producer.location:
        operands: list[ir.Value] = []
        for x in producer.operands:
            sizes = reshaped_operand(types.shape_of(x), shape, target)
            assert sizes is not None
            operands.append(x if types.shape_of(x) == () else reshaped(x, sizes))
        new = repeat_op(producer, operands, op.results[0].type)
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()
    sources = [unreshaped(x) for x in producer.operands if types.shape_of(x) != ()]
    if is_unused(producer.results[0]):
        producer.erase()
    return sources


def reshaped(x: ir.Value, sizes: Sequence[Number]) -> ir.Value:
    """x with these sizes, as one reshape of its source: reshaping a reshape back would keep the inner one in place."""
    x = unreshaped(x)
    return x if types.shape_of(x) == tuple(sizes) else _B.reshape(x, sizes)


def _twins(op: ir.Operation) -> list[ir.Operation]:
    """The other reshapes of a pointwise op's result to the same shape. Each moved up from another reader; together they
    may be the only user."""
    owner = op.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name not in POINTWISE:
        return []
    kind = op.results[0].type
    return [u for u in users(op.operands[0]) if Reshape.matches(u) and u != op and u.results[0].type == kind]


def _join(op: ir.Operation, twins: Sequence[ir.Operation]) -> None:
    """Makes a reshape, directly behind its operand, take the place of its twins."""
    if twins:
        op.move_after(op.operands[0].owner)
    for twin in twins:
        twin.results[0].replace_all_uses_with(op.results[0])
        twin.erase()


def _narrows_a_sum(view: ir.Operation) -> bool:
    """Whether a conversion to a narrower type parts a reshape from a reduction, or from a depthwise product to which
    pointwise ops add a bias: the conversion belongs into the kernel of the sums, which would write the wide tensor."""
    op = maker(view.operands[0], Convert)
    if op is None or only_has_ones(view) or types.byte_count(op.results[0]) >= types.byte_count(op.operands[0]):
        return False
    source = maker(op.operands[0])
    if source is not None and reduction.row_of(source) is not None:
        return True
    while source is not None and source.name in POINTWISE:
        large = [x for x in source.operands if types.shape_of(x) == types.shape_of(source.results[0])]
        source = maker(large[0]) if len(large) == 1 else None
    return source is not None and Depthwise.matches(source)


def behind_products(ops: Sequence[ir.Operation]) -> dict[ir.Value, bool]:
    """Product that is our kernel, and values that pointwise ops compute from it → whether it is of packed panels.

    The product's kernel takes these ops in, unless a reshape stands between. So a reshape that no pointwise op reads
    stays below them; after a product of packed panels every reshape does, as call-libraries has moved it there."""
    found: dict[ir.Value, bool] = {}
    for op in ops:
        follows = op.name in POINTWISE or Permute.matches(op) or only_has_ones(op)
        of = [found[x] for x in op.operands if x in found] if follows else []
        if MatMul.product.is_on(op):
            found[op.results[0]] = MatMul.packed.is_on(op)
        elif of and (not Permute.matches(op) or any(of)):
            found.update(dict.fromkeys(op.results, any(of)))
    return found


@register_pass("hoist-reshapes")
@dataclass(frozen=True)
class HoistReshapes(Pass):
    """Moves reshapes above pointwise ops."""

    #: Whether cheap ops with other users are recomputed on the other side of a reshape, rather than read there.
    repeat: bool = False

    def run(self, module: ir.Module) -> None:
        with module.context:
            for function in functions(module):
                # Bottom up: a reshape that moved may move again past the op before.
                pending = [o.operation for o in function.regions[0].blocks[0].operations]
                behind = behind_products(pending)
                pending = [o for o in reversed(pending) if Reshape.matches(o)]
                while pending:
                    op = pending.pop(0)
                    if is_unused(op.results[0]):
                        op.erase()
                        continue
                    twins = _twins(op)
                    pending = [p for p in pending if p not in twins]
                    _join(op, twins)
                    is_read = _is_only_read(op) if self.repeat else not _is_computed_with(op)
                    is_permuted = self.repeat and _is_written_permuted(op)
                    if is_read and not is_permuted and _meets_kernel(op.operands[0], _is_only_summed(op)):
                        if _only_converted(op):
                            _sink(op)
                        continue
                    stays = behind.get(op.operands[0])
                    if stays or (stays is False and not any(user.name in POINTWISE for user in users(op.results[0]))):
                        continue
                    if self.repeat and _narrows_a_sum(op):
                        continue
                    if self.repeat and _is_spread(op.results[0]) and _ends_a_sum(op.operands[0]):
                        continue
                    if self.repeat and _keeps_parts(op):
                        sources = _hoist_above_parts(op)
                    elif _hoistable(op) or is_permuted or (self.repeat and (_repeatable(op) or _broadcasts_runs(op))):
                        sources = _hoist(op)
                    else:
                        continue
                    for source in sources:
                        above = [u for u in users(source) if Reshape.matches(u)]
                        # One that nobody uses any more goes first: then the other may be the only user.
                        above.sort(key=lambda u: not is_unused(u.results[0]))
                        pending = [*above, *(p for p in pending if p not in above)]
        erase_dead(module)
