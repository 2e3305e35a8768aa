"""Cuts rows into parts where a matrix is reduced both along rows and down columns, so that one kernel does both.

%1 = cuesta.sum(%0) {dims = [1], keepdim}         %a = cuesta.reshape %0 : 1024x768 → 64x16x768
  : 1024x768 → 1024x1                        →    %1 = cuesta.sum(%a) {dims = [2], keepdim} : 64x16x768 → 64x16x1
%2 = cuesta.sum(%0) {dims = [0]}                  %b = cuesta.sum(%a) {dims = [1]} : 64x16x768 → 64x768
  : 1024x768 → 768                                %2 = cuesta.sum(%b) {dims = [0]} : 64x768 → 768

Uncut, no loop is parallel in both, for example in the gradients of a norm and of its weights. A kernel for the columns
would read the whole matrix again, a strip at a time, with each row of a strip on another page. The elementwise ops and
the reductions along rows that are connected with the two are cut in the same way.

On a CPU (`parts` is 0) the last of the dims that count rows is cut, into parts that fit caches. On a GPU all these dims
are joined first, and cut into at least `parts`, whose programs walk a part's rows one after the other. Where rows are
read or written in another order of these dims, as before and behind an attention whose sequence comes first, one dim is
cut and the others stay apart: the kernel then does without copies in its own order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from cuesta._mlir import ir
from cuesta.dialects import maker, types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.reduction import Reduced
from cuesta.dialects.cuesta.shape import Expand, Permute, Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import byte_count, byte_size, opmath, shape_of, spelling_of
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.form_kernels.fusion.limits import GPU
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE, behind_products
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number, estimate
from cuesta.sizes.powers import power_at_least

_B = GraphBuilder()
#: Op → its row, for reductions whose partial results are joined by the same reduction.
_JOINED = {reduction.OPS[name].OPERATION_NAME: name for name in ("sum", "amax", "amin")}

#: The most bytes of a part's rows: several tensors of this size fit L2 together.
_PART = 1 << 16
#: The fewest rows of a part, as the sums of each part are written and read again.
_FEWEST_ROWS = 4
#: The fewest bytes of a tensor that is cut: a smaller one stays in L2 between two kernels.
_LEAST = 1 << 18
#: So many times `parts` are the programs of a kernel that sums over one dim only.
_OF_FEW = 4


@register_pass("cut-rows")
@dataclass(frozen=True)
class CutRows(Pass):
    """Cuts rows into parts where reductions down columns meet reductions along rows."""

    #: The fewest parts, on a GPU; 0 for a CPU.
    parts: int = 0

    def run(self, module: ir.Module) -> None:
        with module.context:
            for function in functions(module):
                places = {view.operation: at for at, view in enumerate(function.regions[0].blocks[0].operations)}
                for cut, region in list(_cuts(function, self.parts)):
                    _Rewriting(cut).run(sorted(region, key=places.__getitem__))
        erase_dead(module)


def cut_columns(function: ir.Operation, parts: int) -> set[ir.Operation]:
    """The reductions down columns that the pass, with these `parts`, would cut in a function as it is."""
    return {op for cut, region in _cuts(function, parts) for op in region if _is_down_columns(op, cut)}


def _cuts(function: ir.Operation, parts: int) -> Iterator[tuple[_Cut, set[ir.Operation]]]:
    """Each cut, and the ops that are cut so."""
    memory = MemoryOrder()
    ops = [view.operation for view in function.regions[0].blocks[0].operations]
    products = behind_products(ops)
    seen: set[ir.Operation] = set()
    for op in ops:
        if op in seen or (cut := _cut_of(op, memory, parts)) is None:
            continue
        region = _region(op, cut, products)
        if parts and (apart := _cut_apart(cut, region, parts)) is not None:
            cut, region = apart, _region(op, apart, products)
        elif (order := memory.order(op.operands[0])) != sorted(order):
            continue
        region -= seen
        if any(_is_along_rows(o, cut) for o in region):
            seen |= region
            yield cut, region
    # What sums rows of all dims but the first is cut where it is left.
    for op in ops if parts else ():
        if op in seen or (whole := _uncut(op, memory)) is None:
            continue
        region = _region(op, whole, products) - seen
        if (cut := _cut_of_few(whole, op, region, parts)) is not None:
            seen |= region
            yield cut, region


@dataclass(frozen=True)
class _Cut:
    """Cuts rows into `parts` of `rows`; `rank` is the number of dims of a row. On a CPU the last of the dims that count
    rows is cut, and `before` has the sizes of the others. On a GPU all these dims are joined, and `before` is None, or
    `kept` has the sizes of the dims before the one that is cut, and of those behind it."""

    before: tuple[Number, ...] | None
    parts: int
    rows: int
    rank: int
    kept: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def dim(self) -> int:
        """The dim of the parts."""
        return len(self.before or self.kept[0])

    @property
    def sizes(self) -> list[Number]:
        """The dims that count rows, once they are cut."""
        return [*(self.before or self.kept[0]), self.parts, self.rows, *self.kept[1]]

    @property
    def whole(self) -> tuple[int, ...]:
        """On a GPU, the dims that count rows in the order in which they are cut."""
        return (*self.kept[0], self.parts * self.rows, *self.kept[1])

    def leading(self, value: ir.Value) -> tuple[Number, ...]:
        """The sizes of a value's dims that count rows; none for a value that broadcasts to all rows."""
        sizes = tuple(shape_of(value))
        return sizes[: max(len(sizes) - self.rank, 0)]

    def fits(self, value: ir.Value) -> bool:
        """Whether a value has all the rows."""
        leading = self.leading(value)
        if self.before is None:
            return bool(leading) and math.prod(leading) == math.prod(self.whole)
        return leading == (*self.before, self.parts * self.rows)

    def takes(self, value: ir.Value) -> bool:
        """Whether a value can be reshaped so that it broadcasts to the cut tensor."""
        leading = self.leading(value)
        return self.before is not None or self.fits(value) or all(n == 1 for n in leading)

    def shape(self, value: ir.Value) -> list[Number]:
        """The shape of a value that has all the rows, once they are cut."""
        return [*self.sizes, *shape_of(value)[len(self.leading(value)) :]]

    def of(self, value: ir.Value) -> ir.Value:
        """A value that broadcasts to the whole tensor, reshaped so that it broadcasts to the cut tensor."""
        leading = self.leading(value)
        if not leading:
            return value
        row = shape_of(value)[len(leading) :]
        if self.before is None:
            return _B.reshape(value, self.shape(value) if self.fits(value) else [*[1] * len(self.sizes), *row])
        apart = (1, 1) if leading[-1] == 1 else (self.parts, self.rows)
        return _B.reshape(value, [*leading[:-1], *apart, *row])


def _cut_of(op: ir.Operation, memory: MemoryOrder, parts: int) -> _Cut | None:
    """How to cut the rows of a reduction down columns; None for another op, and where cutting does not pay."""
    if op.name not in _JOINED:
        return None
    x, dims = op.operands[0], Reduced.dims.of(op)
    sizes, count = shape_of(x), len(dims)
    if tuple(dims) != tuple(range(count)) or not 0 < count < len(sizes) or byte_count(x) < _LEAST:
        return None
    leading, row, order = sizes[:count], sizes[count:], memory.order(x)
    # On a GPU the dims that count rows may lie in another order, if they stay apart.
    if order[count:] != list(range(count, len(sizes))) or (not parts and order != sorted(order)):
        return None
    if not parts:
        return _cut_for_caches(leading, row, byte_size(spelling_of(x)))
    known = [n for n in sizes if isinstance(n, int)]
    if len(known) < len(sizes) or math.prod(map(power_at_least, known[count:])) > GPU.row_elements:
        return None
    total = math.prod(known[:count])
    rows = _rows_of(total, total // parts)
    return None if rows is None else _Cut(None, total // rows, rows, len(row))


def _uncut(op: ir.Operation, memory: MemoryOrder) -> _Cut | None:
    """All rows as one part, where an op sums over the first dim of a tensor of known sizes; None for another op."""
    if op.name not in _JOINED or [*Reduced.dims.of(op)] != [0] or byte_count(op.operands[0]) < _LEAST:
        return None
    order, shape = memory.order(op.operands[0]), shape_of(op.operands[0])
    sizes = [n for n in shape if isinstance(n, int)]
    in_order = len(sizes) == len(shape) and [*range(max(len(sizes), 2))] == [*order]
    return _Cut(None, 1, sizes[0], len(sizes) - 1) if in_order else None


def _cut_of_few(whole: _Cut, op: ir.Operation, region: set[ir.Operation], parts: int) -> _Cut | None:
    """How to cut the rows of a sum over the first dim, if some of the other dims are reduced along rows: there is a
    program for each element of the rest, and these are few. The gradient of an attention's bias had 784 of one warp,
    each for 128 images: 110 µs on an H200, 33 for the bytes. None where no dim is, and where programs are enough."""
    along = {d - len(shape_of(o.operands[0])) for o in region if _is_along_rows(o, whole) for d in Reduced.dims.of(o)}
    row = [n for n in shape_of(op.operands[0])[1:] if isinstance(n, int)]
    apart = math.prod(n for d, n in enumerate(row, -len(row)) if d not in along)
    held = math.prod(power_at_least(n) for d, n in enumerate(row, -len(row)) if d in along)
    if not along or held > GPU.row_elements or apart >= _OF_FEW * parts:
        return None
    rows = _rows_of(whole.rows, min(whole.rows * apart // (_OF_FEW * parts), whole.rows // 2))
    return None if rows is None else replace(whole, parts=whole.rows // rows, rows=rows)


def _cut_apart(cut: _Cut, region: set[ir.Operation], parts: int) -> _Cut | None:
    """A cut on a GPU that keeps the dims apart that permutes around a region put in another order; None where there are
    none, or where no dim has enough rows."""
    above = {made for op in region for x in op.operands if (made := maker(x)) is not None}
    below = {user for op in region for result in op.results for user in users(result)}
    orders = {cut.leading(op.results[0]) for op in above if _permutes_rows(op, cut)}
    orders |= {cut.leading(op.operands[0]) for op in below if _permutes_rows(op, cut)}
    if len(orders) != 1:
        return None
    leading = [int(n) for n in orders.pop()]
    most = math.prod(leading) // parts
    rows, dim = max((_rows_of(n, min(n, most)) or 0, d) for d, n in enumerate(leading))
    if not rows:
        return None
    kept = (tuple(leading[:dim]), tuple(leading[dim + 1 :]))
    return replace(cut, parts=leading[dim] // rows, rows=rows, kept=kept)


def _permutes_rows(op: ir.Operation, cut: _Cut) -> bool:
    """Whether an op puts all rows in another order, and leaves each as it is."""
    if not Permute.matches(op) or not cut.fits(op.operands[0]):
        return False
    dims = Permute.dims.of(op)
    return dims[len(dims) - cut.rank :] == list(range(len(dims) - cut.rank, len(dims)))


def _cut_for_caches(leading: Sequence[Number], row: Sequence[Number], width: int) -> _Cut | None:
    length = leading[-1]
    if not isinstance(length, int):
        return None
    rows = _rows_of(length, min(length - 1, _PART // (estimate(row) * width)))
    return None if rows is None else _Cut(tuple(leading[:-1]), length // rows, rows, len(row))


def _rows_of(total: int, most: int) -> int | None:
    """The rows of a part, `most` at most, where parts are equal; None where that leaves too few."""
    return next((n for n in range(most, _FEWEST_ROWS - 1, -1) if total % n == 0), None)


def _is_along_rows(op: ir.Operation, cut: _Cut) -> bool:
    """Whether an op reduces whole rows and keeps their dims."""
    return (
        reduction.row_of(op) is not None
        and cut.fits(op.operands[0])
        and Reduced.keepdim.of(op)
        and min(Reduced.dims.of(op)) >= len(cut.leading(op.operands[0]))
    )


def _is_down_columns(op: ir.Operation, cut: _Cut) -> bool:
    dims = Reduced.dims.of(op) if op.name in _JOINED else ()
    return cut.fits(op.operands[0]) and tuple(dims) == tuple(range(len(cut.leading(op.operands[0]))))


def _is_inside(op: ir.Operation, cut: _Cut, products: dict[ir.Value, bool]) -> bool:
    """Whether an op can be cut like its neighbours. Ops after a product are left to the product's kernel."""
    if reduction.row_of(op) is not None:
        return _is_along_rows(op, cut) or _is_down_columns(op, cut)
    if cut.before is None and Reshape.matches(op):
        return _keeps_rows(op, cut)
    if cut.before is None and _permutes_rows(op, cut):
        return cut.leading(op.results[0]) == cut.whole
    own = op.name in POINTWISE or Expand.matches(op)
    return own and cut.fits(op.results[0]) and op.results[0] not in products and all(map(cut.takes, op.operands))


def _keeps_rows(reshape: ir.Operation, cut: _Cut) -> bool:
    """Whether a reshape only counts rows by other dims."""
    (x,), (y,) = reshape.operands, reshape.results
    return cut.fits(x) and cut.fits(y) and cut.shape(x) == cut.shape(y)


def _region(op: ir.Operation, cut: _Cut, products: dict[ir.Value, bool]) -> set[ir.Operation]:
    """The ops that are connected with `op` and can be cut like it."""
    region, pending = {op}, [op]
    while pending:
        for neighbour in _neighbours(pending.pop()):
            if neighbour not in region and _is_inside(neighbour, cut, products):
                region.add(neighbour)
                pending.append(neighbour)
    return region


def _neighbours(op: ir.Operation) -> Iterator[ir.Operation]:
    # What is permuted has its rows in another order.
    for x in () if Permute.matches(op) else op.operands:
        if (owner := maker(x)) is not None:
            yield owner
    for result in op.results:
        yield from users(result)


@dataclass
class _Rewriting:
    """Rebuilds the ops of a region, in program order."""

    cut: _Cut
    made: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def run(self, region: Sequence[ir.Operation]) -> None:
        last = region[-1]
        late = []
        for op in region:
            with ir.InsertionPoint(op), op.location:
                if not _is_down_columns(op, self.cut):
                    self.made[op.results[0]] = self._again(op)
                    continue
                parts = self._parts(op)
                views = None if self.cut.before is None else self._views_before(last, op)
                if views is not None:
                    late.append((op, parts, views))
                else:
                    op.results[0].replace_all_uses_with(self._total(op, parts))
        # On a CPU after all other ops: fusion goes by the order of ops, and would fuse the joining of the parts first.
        # On a GPU too few programs would do that; and the parts, which are more, would be kept until then.
        for op, parts, views in late:
            for view in reversed(views):
                view.move_after(last)
            with ir.InsertionPoint.after(last), op.location:
                op.results[0].replace_all_uses_with(self._total(op, parts))
        inside = set(region)
        for op in region:
            for result in op.results:
                if result in self.made and any(user not in inside for user in users(result)):
                    with ir.InsertionPoint.after(op), op.location:
                        self._permute_parts(result)
                        whole = _B.reshape(self.made[result], shape_of(result))
                    for use in list(result.uses):
                        if use.owner.operation not in inside:
                            use.owner.operation.operands[use.operand_number] = whole

    def _permute_parts(self, x: ir.Value) -> None:
        """Gives those who read the rows of `x` in another order the cut rows in that order, in one reshape."""
        for user in set(users(x)):
            if not _permutes_rows(user, self.cut) or self.cut.leading(x) != self.cut.whole:
                continue
            parts = _B.permute(self.made[x], _parted(Permute.dims.of(user), self.cut.dim))
            for y in [user.results[0], *(u.results[0] for u in users(user.results[0]) if Reshape.matches(u))]:
                y.replace_all_uses_with(_B.reshape(parts, shape_of(y)))

    def _views_before(self, last: ir.Operation, op: ir.Operation) -> list[ir.Operation] | None:
        """The reshapes of `op`'s result before `last`, in order; None where other ops before `last` use the result."""
        found: list[ir.Operation] = []
        for user in users(op.results[0]):
            if last.is_before_in_block(user):
                continue
            behind = self._views_before(last, user) if Reshape.matches(user) else None
            if behind is None:
                return None
            found += [user, *behind]
        return found

    def _value(self, x: ir.Value) -> ir.Value:
        if x not in self.made:
            self.made[x] = self.cut.of(x)
        return self.made[x]

    def _again(self, op: ir.Operation) -> ir.Value:
        if Reshape.matches(op):
            return self._value(op.operands[0])
        if Permute.matches(op):
            return self._permuted(op)
        kind = types.tensor(self.cut.shape(op.results[0]), spelling_of(op.results[0]))
        again = repeat_op(op, [self._value(x) for x in op.operands], kind)
        if reduction.row_of(op) is not None:
            more = len(self.cut.sizes) - len(self.cut.leading(op.operands[0]))
            Reduced.dims.put(again, [d + more for d in Reduced.dims.of(op)])
        return again.results[0]

    def _permuted(self, op: ir.Operation) -> ir.Value:
        """The cut rows of what has them in another order, in the order of the others."""
        (x,), dims, cut = op.operands, Permute.dims.of(op), self.cut
        at, sizes = dims[cut.dim], shape_of(op.operands[0])
        apart = _B.reshape(x, [*sizes[:at], cut.parts, cut.rows, *sizes[at + 1 :]])
        return _B.permute(apart, _parted(dims, at))

    def _parts(self, op: ir.Operation) -> ir.Value:
        """The partial results, one for each part of the rows; in f32 for narrow floats."""
        x = op.operands[0]
        wide = _B.convert(self._value(x), opmath(spelling_of(x)))
        return _B.reduce(_JOINED[op.name], wide, [self.cut.dim + 1])

    def _total(self, op: ir.Operation, parts: ir.Value) -> ir.Value:
        total = _B.reduce(_JOINED[op.name], parts, list(range(len(self.cut.sizes) - 1)))
        return _B.convert(_B.reshape(total, shape_of(op.results[0])), spelling_of(op.results[0]))


def _parted(dims: Sequence[int], dim: int) -> list[int]:
    """The order of a permuted tensor's dims, once `dim` of what it permutes is two dims."""
    return [apart for d in dims for apart in ((d, d + 1) if d == dim else (d + (d > dim),))]
