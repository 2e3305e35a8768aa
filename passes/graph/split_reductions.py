"""Splits a reduction into two steps where one step would leave most of a GPU, or of a CPU's threads, idle, or would
add up too many numbers one after the other.

    %1 = cuesta.sum(%0) {dims = [0]}         %a = cuesta.reshape %0 : 8192x768 → 64x128x768
      : 8192x768 → 768                  →    %b = cuesta.sum(%a) {dims = [1]} : 64x128x768 → 64x768
                                             %1 = cuesta.sum(%b) {dims = [0]} : 64x768 → 768

A size without a divisor that makes enough parts, such as a prime, is cut into even parts and a remainder, which is
reduced beside them. So is a symbolic size that has no such divisor in every call. Partial results of narrow floats stay
in f32.

A variance, the sum of (x - mean)², would have to wait for the mean and read x twice. Instead each part sums the squares
about its own mean, and the spread of the parts' means is added (Chan, Golub, LeVeque: Updating formulae and a pairwise
algorithm for computing sample variances, 1979), so x is read once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.reduction import Reduced
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.errors import Undecided
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.analysis.short_runs import takes_short_runs
from cuesta.passes.form_kernels.fusion.limits import FEW_IN_A_ROW, PROGRAMS, SECTOR, STRIP
from cuesta.passes.graph.centred_sums import is_centred, less_mean
from cuesta.passes.graph.cut_rows import cut_columns
from cuesta.passes.graph.recomputed.in_parts import in_parts, viewed
from cuesta.passes.graph.reshapes.hoist_reshapes import reshaped_operand
from cuesta.passes.graph.returned_parts import return_parts
from cuesta.passes.infra.graph_rewrite import functions, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number, Size, estimate, hint, symbol
from cuesta.sizes.facts import divisor_of
from cuesta.sizes.powers import power_at_most

_B = GraphBuilder()

#: From this many elements per program on, splitting pays for a second kernel.
LONG = 8192
#: The same where a program reduces columns side by side, as it does with the results of parts: 1024 of them, of 32
#: columns, are read in the time of a launch.
LONG_DOWN = 32769
#: The fewest elements of a part that are worth a program.
SHORT = 2048
#: Sums that a CPU keeps side by side where the reduced dim is the fastest in memory.
_LANES = 16
#: From this many elements in one program on, most of a GPU idles for so long (a sum of 16 million: 3.3 ms on an H200,
#: 0.02 in parts) that compiling for each set of sizes is better, where symbolic sizes cannot be cut.
_TOO_LONG = 1 << 18
#: If constant divisors make over _FEW times too few parts, symbolic divisors are tried as well. They may make up to
#: _MORE times too many parts, each of at least _FEWEST elements.
_FEW, _MORE, _FEWEST = 4, 32, 256
#: Along the dim that is fastest in memory, parts begin at multiples of this many elements: 16 bytes of bf16.
_UNIT = 8
#: Reductions whose parts may differ in size → the pointwise op that joins two parts.
_JOINED = {"sum": "add", "amax": "maximum", "amin": "minimum"}


def parts(sizes: Sequence[Number], dims: Sequence[int], wanted: int) -> dict[int, Number]:
    """Reduced dim → the number of parts it is cut into, about `wanted` parts in all. Earlier `dims` are cut first."""
    chosen: dict[int, Number] = {}
    left = estimate(sizes[d] for d in dims)
    for d in dims:
        if wanted < 2:
            break
        known = divisor_of(sizes[d])
        divisor: Number = max(n for n in range(1, min(known, wanted) + 1) if known % n == 0)
        # Symbols that are factors of the size divide it in every call, if need be into more parts than wanted.
        own = [n for n in _factors(sizes[d]) if hint(n) <= wanted * _MORE and left >= hint(n) * _FEWEST]
        if own and _far(hint(divisor), wanted) > _FEW:
            divisor = min([divisor, *own], key=lambda n: _far(hint(n), wanted))
        if divisor != 1:
            chosen[d] = divisor
            wanted //= max(hint(divisor), 1)
            left //= max(hint(divisor), 1)
    return chosen


def _factors(size: Number) -> list[Number]:
    """Products of symbols that divide a size. Their multiples by other divisors are left out, as they are no better."""
    if not isinstance(size, Size):
        return []
    atoms = [[a for a in term if isinstance(a, str)] for term, _ in size.terms]
    common = [a for a in dict.fromkeys(atoms[0]) if all(a in own for own in atoms)]
    chosen = (c for n in range(1, len(common) + 1) for c in itertools.combinations(common, n))
    return [math.prod(map(symbol, names)) for names in chosen]


def _far(parts: int, wanted: int) -> float:
    """By which factor there are more or fewer parts than wanted."""
    return max(parts, wanted) / max(min(parts, wanted), 1)


@dataclass(frozen=True)
class Cut:
    """How a tensor is cut: `shape` has for each cut dim the number of parts and, unless it is 1, the size of a part.

    `inside` are the dims of `shape` that the first step reduces. `across` are the dims of its results that the second
    step reduces to join the parts. `kept` is the shape of these results with 1 along the dims of `across`.
    """

    shape: list[Number]
    inside: list[int]
    across: list[int]
    kept: list[Number]
    #: elements that each part reduces
    count: Number


def cut_shape(sizes: Sequence[Number], dims: Sequence[int], cut: Mapping[int, Number]) -> Cut:
    """Cuts a tensor of `sizes` along the dims of `cut`, which are all among the reduced `dims`."""
    shape: list[Number] = []
    inside: list[int] = []
    across: list[int] = []
    kept: list[Number] = []
    for d, size in enumerate(sizes):
        if d in cut:
            across.append(len(kept))
            kept.append(1)
            shape.append(cut[d])
        if d not in cut or size != cut[d]:
            if d in dims:
                inside.append(len(shape))
            else:
                kept.append(size)
            shape.append(size // cut.get(d, 1))
    return Cut(shape, inside, across, kept, math.prod(shape[d] for d in inside))


@dataclass(frozen=True)
class _Ragged:
    """A dim whose first `whole` elements are cut into `parts`. The remainder is reduced beside the parts."""

    dim: int
    parts: int
    whole: Number


@dataclass(frozen=True)
class _Split:
    """How to split one reduction. It holds no values: splitting another reduction may replace them."""

    #: whether the reduction sums (x - mean)²; then x is cut
    centred: bool
    form: Cut
    ragged: _Ragged | None = None
    #: whether x is row-major in memory: in another order, parts that are returned would be written row-major and copied
    in_order: bool = False


@register_pass("split-reductions")
@dataclass(frozen=True)
class SplitReductions(Pass):
    """Splits reductions that too few programs would share, or that are long."""

    #: Programs that keep a GPU busy, or tiles that keep a CPU's threads busy.
    programs: int = PROGRAMS
    #: Whether reductions of symbolic sizes are split, too.
    symbolic: bool = True
    #: Whether a graph's result that the reduction recomputes for itself is returned from there (see returned_parts).
    returned: bool = False
    #: About how many numbers are added up one after the other at most, where parts can be made; 0 for no limit. The
    #: error of f32 grows with their count: 0.00004 of the result after 2048 equal numbers.
    longest: int = 0
    #: Leaves reductions down columns to cut-rows, which runs later, with this number of `parts`; 0: splits all.
    cut: int = 0

    def run(self, module: ir.Module) -> None:
        # All splits are planned before any is made: a mean in two steps would not be recognised as one, and MemoryOrder
        # is keyed by values, whose addresses new values reuse once they are erased.
        memory = MemoryOrder()
        splits: dict[ir.Operation, _Split] = {}
        for function in functions(module):
            left = cut_columns(function, self.cut) if self.cut else ()
            operations = [op.operation for op in function.regions[0].blocks[0].operations]
            spread = {less_mean(op)[0] for op in operations if reduction.row_of(op) is not None and is_centred(op)}
            for op in operations:
                if op not in left and (split := self._plan(op, memory, spread)) is not None:
                    splits[op] = split

        def rule(op: ir.Operation) -> list[ir.Value] | None:
            return self._rewrite(op, splits[op]) if op in splits else None

        rewrite_ops(module, dict.fromkeys(reduction.BY_OP_NAME, rule))

    def _plan(self, op: ir.Operation, memory: MemoryOrder, spread: Collection[ir.Value]) -> _Split | None:
        """How to split a reduction; None for another op, and where splitting does not pay. Of the values `spread`
        squares less the mean are summed too: both sums are one kernel, and only equal parts fit both."""
        row = reduction.row_of(op)
        if row is None:
            return None
        centred = is_centred(op)
        x = less_mean(op)[0] if centred else op.operands[0]
        sizes, dims = shape_of(x), Reduced.dims.of(op)
        if not self.symbolic and any(isinstance(n, Size) for n in sizes):
            return None
        order = [d for d in memory.order(x) if sizes[d] != 1]
        wanted = busy = self._wanted(order, sizes, dims)
        if row.name == "sum":
            if self.cut and takes_short_runs(order, sizes, dims):
                *slower, run = order
                own = [d for d in slower if d in dims]
                cut = parts(sizes, own, self._wanted(slower, sizes, own) // hint(sizes[run]))
                return _Split(centred, cut_shape(sizes, dims, cut | {run: sizes[run]}))
            wanted = max(wanted, self._exact(order, sizes, dims))
        if wanted < 2:
            return None
        cut = parts(sizes, [d for d in order if d in dims], wanted)
        is_short = x not in spread and row.name in _JOINED and 4 * estimate(cut.values()) <= busy
        if is_short and (ragged := _ragged(order, sizes, dims, busy)) is not None:
            even = [ragged.whole if d == ragged.dim else n for d, n in enumerate(sizes)]
            return _Split(centred, cut_shape(even, dims, {ragged.dim: ragged.parts}), ragged)
        self._refuse_too_long(order, sizes, dims, cut)
        in_order = list(order) == sorted(order)
        return _Split(centred, cut_shape(sizes, dims, cut), None, in_order) if estimate(cut.values()) >= 4 else None

    def _rewrite(self, op: ir.Operation, split: _Split) -> list[ir.Value]:
        form = split.form
        x, mean = less_mean(op) if split.centred else (op.operands[0], None)
        if split.ragged is not None:
            return [_ragged_total(op, x, form, split.ragged)]
        made: dict[ir.Value, ir.Value] = {}
        taken = _B.convert(in_parts(x, form.shape, made), opmath(spelling_of(x)))
        if self.returned and split.in_order and mean is None:
            return_parts(op, made)
        if mean is None:
            name = reduction.BY_OP_NAME[op.name].name
            total = _B.reduce(name, _B.reduce(name, taken, form.inside), form.across)
        else:
            total = _variance(taken, _B.reshape(mean, form.kept), form)
        return [_B.convert(_B.reshape(total, shape_of(op.results[0])), spelling_of(op.results[0]))]

    def _wanted(self, order: Sequence[int], sizes: Sequence[Number], dims: Sequence[int]) -> int:
        """How many parts would keep the machine busy; 1 where there are enough programs, or little work for each."""
        programs = estimate(sizes[d] for d in order if d not in dims)
        work, long = estimate(sizes[d] for d in dims), LONG
        if order and order[-1] not in dims:
            # Where the dim that is fastest in memory is kept, a program reduces a strip of results side by side.
            # If it has few elements, the strip spans the next ones.
            strip = 1
            for d in itertools.takewhile(lambda d: d not in dims, reversed(order)):
                strip = strip if strip >= FEW_IN_A_ROW else min(STRIP, strip * hint(sizes[d]))
            programs, work, long = max(programs // strip, 1), work * strip, LONG_DOWN
        if work < long or programs >= self.programs // 2:
            return 1
        return min(4 * self.programs // programs, work // SHORT)

    def _exact(self, order: Sequence[int], sizes: Sequence[Number], dims: Sequence[int]) -> int:
        """How many parts are needed so that at most `longest` numbers are added up one after the other."""
        count = estimate(sizes[d] for d in dims)
        if not self.longest or not order:
            return 1
        return count // (self.longest * (_LANES if order[-1] in dims else 1))

    def _refuse_too_long(
        self, order: Sequence[int], sizes: Sequence[Number], dims: Sequence[int], found: Mapping[int, Number]
    ) -> None:
        """Raises Undecided where one program would reduce so much that compiling for each set of sizes is better."""
        if any(isinstance(sizes[d], Size) for d in dims):
            alone = estimate(sizes[d] for d in dims) // max(estimate(found.values()), 1)
            if order[-1] not in dims:
                alone *= SECTOR
            if alone >= _TOO_LONG:
                extent = "x".join(str(sizes[d]) for d in dims)
                raise Undecided(
                    f"one program would reduce {alone} of {extent} elements: a symbolic size is not split into parts"
                )


def _ragged(order: Sequence[int], sizes: Sequence[Number], dims: Sequence[int], wanted: int) -> _Ragged | None:
    """Cuts the slowest reduced dim that is long enough into even parts; None where there is none."""
    for d in order:
        if d not in dims:
            continue
        unit = _UNIT if d == order[-1] else 1
        parts = power_at_most(min(wanted, hint(sizes[d]) // (4 * unit)))
        if parts >= 4:
            return _Ragged(d, parts, sizes[d] // (parts * unit) * (parts * unit))
    return None


def _ragged_total(op: ir.Operation, x: ir.Value, form: Cut, ragged: _Ragged) -> ir.Value:
    """The reduction of the parts, joined with that of the remainder at the end of the dim."""
    name, sizes, dim = reduction.BY_OP_NAME[op.name].name, shape_of(x), ragged.dim
    even = [ragged.whole if d == dim else n for d, n in enumerate(sizes)]
    rest = [n - m for n, m in zip(sizes, even, strict=True)][dim]
    beside = [rest if d == dim else n for d, n in enumerate(sizes)]

    def end_of(value: ir.Value, start: Number, size: Number) -> ir.Value:
        return value if shape_of(value)[dim] == 1 else _B.slice(value, dim, start, size)

    def of_parts(value: ir.Value) -> ir.Value:
        taken = value if len(shape_of(value)) != len(sizes) else end_of(value, 0, ragged.whole)
        own = reshaped_operand(shape_of(taken), even, form.shape)
        assert own is not None
        return _B.reshape(taken, own)

    def of_rest(value: ir.Value) -> ir.Value:
        return value if len(shape_of(value)) != len(sizes) else end_of(value, ragged.whole, rest)

    wide = opmath(spelling_of(x))
    total = _B.reduce(name, _B.convert(viewed(x, form.shape, of_parts), wide), form.inside)
    total = _B.reduce(name, total, form.across)
    left = _B.reduce(name, _B.convert(viewed(x, beside, of_rest), wide), Reduced.dims.of(op))
    total = _B.pointwise(_JOINED[name], total, left)
    return _B.convert(_B.reshape(total, shape_of(op.results[0])), spelling_of(op.results[0]))


def _variance(x: ir.Value, mean: ir.Value, form: Cut) -> ir.Value:
    """The sum of (x - mean)² from the parts of x; `mean` has size 1 along the dims of the parts."""
    own = _B.mean(x, form.inside)
    beside = _B.reshape(own, [1 if d in form.inside else n for d, n in enumerate(shape_of(x))])
    spread = _B.reduce("sum", _B.pointwise("square", _B.pointwise("sub", x, beside)), form.inside)
    apart = _B.pointwise("sub", own, mean)
    between = _B.with_number("mul", _B.pointwise("square", apart), form.count)
    return _B.reduce("sum", _B.pointwise("add", spread, between), form.across)
