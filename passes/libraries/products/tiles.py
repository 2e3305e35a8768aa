"""Chooses tiles for matrix products on tensor cores: the tiles there are, and a rule of thumb that ranks them.

The rule estimates a tile's time on a multiprocessor from three limits: the rate of the tensor cores, the bandwidth of
the cache, and that of memory when all multiprocessors use it. Programs run in waves of as many per multiprocessor as
fit there. The rule's numbers were fitted to an H200. Of 18 products that were then timed there, the chosen tile was at
most 3 % slower than the best one tried, except for 8192x768x768 with a residual, where it was 16 %. The rule ignores an
operand's memory order (K or N contiguous) and the epilogue. For TF32 its estimates are far off.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from cuesta.dialects.product import LEAST, Tile
from cuesta.sizes.powers import power_at_least, power_at_most

#: Multiprocessors, and what each has: bytes of shared memory, and registers.
_MULTIPROCESSORS = 132
SHARED, _REGISTERS = 227 * 1024, 65536
#: Bytes of shared memory of an AMD multiprocessor.
SHARED_ON_AMD = 64 * 1024
#: Bytes a second per multiprocessor: from the cache; the same with few rows, whose loads wait for memory; from memory.
_FROM_CACHE, _FROM_CACHE_FEW, _FROM_MEMORY = 8.0e10, 5.0e10, 2.5e10
#: A byte that is loaded again, from the cache, costs this share of its time from memory.
_AGAIN = 0.3
#: Seconds that a program takes outside its loop, and for each load that fills its pipeline.
_BESIDE, _FILL = 0.6e-6, 0.35e-6
#: The most elements of a computed left factor that a thread has at once: with 64 of a norm and silu it takes all
#: registers, with 128 it spills.
_COMPUTED = 32
#: Additions a second of a multiprocessor.
_ADDITIONS = 2.2e11
#: Seconds that a launch costs.
_LAUNCH = 2.5e-6
#: The rows that a warp group multiplies at once. In tiles of fewer rows, a thread loads this many elements or more in a
#: step: the fewer warps a program has, the more programs a multiprocessor has, and with a short K all that they do is
#: wait. 25088 products of 16x6 by 6x16 took 31 µs on an H100 with 4 warps each, a fifth of the bandwidth.
_WARP_GROUP, _LEAST_LOADED = 64, 16
#: A GPU starts about one program in a nanosecond. A program that moves fewer bytes than this takes no longer than its
#: start. A fixed number of programs then takes the blocks in turns: 16 on each multiprocessor. 25088 products of 16x16
#: by 16x6 took 9 µs on an H200, and 16 to 32 with a program for each.
_BYTES_OF_A_START, _IN_TURNS = 4096, 16 * _MULTIPROCESSORS
#: The least K of a part of a split sum, and the most parts.
_LEAST_PART = 256
_MOST_PARTS = 32
#: Parts begin aligned if they have a multiple of this many terms: 16 bytes of two-byte elements.
_ALIGNED = 8
#: The most programs of a small result's sum in parts: four for each multiprocessor, as many as share one.
_PROGRAMS_OF_PARTS = 4 * _MULTIPROCESSORS

#: Tile of two-byte elements → multiplications a second, in 1e12, of one program on a multiprocessor, and of several
#: there. A warp group multiplies 64 rows at once (wgmma), so tiles of fewer rows use the older instruction. That is as
#: good where memory is the limit: there the loads in flight count, and tiles are long in K.
_TILES = {
    Tile(128, 256, 64, 8, 3): (3.05, 3.05),
    Tile(128, 256, 64, 8, 4): (3.08, 3.08),
    Tile(256, 128, 64, 8, 4): (2.72, 2.72),
    Tile(128, 128, 64, 4, 4): (2.7, 2.7),
    Tile(128, 128, 64, 4, 3): (2.4, 2.86),
    Tile(128, 128, 64, 8, 4): (2.63, 2.63),
    Tile(128, 64, 64, 4, 4): (1.55, 2.0),
    Tile(64, 256, 64, 4, 4): (2.49, 2.49),
    Tile(64, 128, 64, 4, 4): (1.5, 2.1),
    Tile(64, 64, 128, 4, 4): (1.4, 1.4),
    Tile(64, 32, 128, 4, 4): (0.8, 1.0),
    Tile(32, 128, 128, 4, 4): (1.0, 1.0),
    Tile(32, 64, 128, 4, 5): (0.7, 0.9),
    Tile(32, 32, 256, 4, 4): (0.4, 0.6),
    Tile(16, 128, 128, 4, 4): (0.7, 0.7),
    Tile(16, 64, 128, 4, 5): (0.4, 0.7),
    Tile(16, 32, 256, 4, 5): (0.2, 0.4),
    Tile(16, 16, 512, 4, 4): (0.1, 0.1),
}
#: The tile of a few rows, and the longest part of K where there are few programs. Of seven choices this was best for a
#: step of a Llama of 1.5 G parameters with 8 rows on an H200 (ms): 1.23; with 4 warps 1.35 to 1.45, as 16 columns have
#: work for two, with 32 or 64 columns and 128 of K 1.28, with 512 of K 1.43, with cuBLAS 1.39. Where a weight has many
#: rows, 32 of them leave enough programs: gate and up, 8192 rows each, took 18.5 µs on an H200 so, 22.5 with 16.
_FEW_ROWS, _FEW_ROWS_WIDE = Tile(16, 16, 256, 2, 4), Tile(16, 32, 128, 4, 4)
_LONG_PART = 2048
#: The tile of a result whose rows begin unaligned, and how many blocks each program must have.
_RAGGED, _ROUNDS = Tile(128, 256, 64, 8, 3, _MULTIPROCESSORS), 3
#: Where rows begin unaligned, every element is a load of its own, and loads do not overlap with multiplications. So
#: tiles are small, and several programs share a multiprocessor. Also for f32 without TF32, multiplied by each thread.
_SCATTERED = (
    Tile(64, 64, 64, 4, 3),
    Tile(32, 64, 64, 4, 3),
    Tile(64, 32, 64, 4, 3),
    Tile(32, 32, 64, 4, 3),
    Tile(16, 64, 64, 4, 3),
    Tile(64, 16, 64, 4, 3),
    Tile(16, 16, 64, 4, 3),
)
#: For these tiles: seconds that a step of the loop takes, and for each element that a thread loads; elements a second
#: that a multiprocessor loads, and programs that share it.
_STEP, _ELEMENT, _ELEMENTS, _TOGETHER = 0.5e-6, 1.4e-8, 1.1e10, 4

#: Multiplications a second, in 1e12, of one program on a multiprocessor, and of several there.
Rates: TypeAlias = "tuple[float, float]"


@dataclass(frozen=True)
class Plan:
    """How a product becomes kernels: its tile, and the parts that K is cut into, each for programs of its own. What is
    left of K behind equal parts is a product beside them."""

    tile: Tile
    parts: int = 1

    def __str__(self) -> str:
        return f"{self.tile}" if self.parts == 1 else f"{self.tile} in {self.parts} parts"

    def whole(self, k: int) -> int:
        """The terms of a sum of `k` that lie in the parts, which are equal: all of them if they can be. Else each part
        begins aligned."""
        unit = self.parts if k % self.parts == 0 else self.parts * _ALIGNED
        return k // unit * unit

    @staticmethod
    def parse(text: str) -> Plan:
        """The plan that `text` spells. Raises ValueError for any other text."""
        tile, _, parts = text.partition(" in ")
        return Plan(Tile.parse(tile), int(parts.removesuffix(" parts")) if parts else 1)


def _blocks(tile: Tile, batch: int, m: int, n: int) -> int:
    """The number of blocks of `tile` that cover the results of all products of a batch."""
    return batch * math.ceil(m / tile.m) * math.ceil(n / tile.n)


def taken_in_turns(plan: Plan, batch: int, m: int, n: int, k: int, width: int) -> Plan:
    """The plan with programs that take blocks in turns, where there would be many with little to do; else `plan`."""
    tile = plan.tile
    moved = (min(tile.m, m) * k + k * min(tile.n, n) + min(tile.m, m) * min(tile.n, n)) * width
    is_short = moved < _BYTES_OF_A_START and _blocks(tile, batch, m, n) >= 2 * _IN_TURNS and plan.parts == 1
    return replace(plan, tile=replace(tile, programs=_IN_TURNS)) if is_short else plan


def plans(
    batch: int,
    m: int,
    n: int,
    k: int,
    width: int,
    scattered: bool = False,
    shared: int = SHARED,
    moved: int | None = None,
) -> list[Plan]:
    """The plans for a product of elements of `width` bytes, sorted by the rule's estimate of their time.

    `scattered`: elements are loaded one by one, or f32 is multiplied without tensor cores. `shared`: bytes of shared
    memory that a program may have. `moved`: bytes of the factors and the result, where rows of a factor share memory.
    """
    sizes = (batch, m, n, k)
    if scattered:
        small = dict.fromkeys(_fitted(tile, sizes, width) for tile in _SCATTERED)
        found = [Plan(tile, parts) for tile in small for parts in {1, *_equal_parts(tile, sizes)}]
        return sorted(found, key=lambda plan: _scattered_seconds(plan, sizes))
    return [plan for _, plan in _timed_plans(sizes, width, shared, moved)]


def plan_with_epilogue(batch: int, m: int, n: int, k: int, width: int, computed: int = 0) -> Plan | None:
    """The plan for a product of elements of `width` bytes whose kernel computes what follows; None where a library's
    kernel, and a second one that reads the result and writes it again, are faster. A library is taken to multiply at
    the full rate, or to move its bytes at the full bandwidth. `batch`: blocks of the kernel have rows of one of so many
    matrices, where a library multiplies all rows by one factor. `computed`: the kernel computes the left factor, too,
    each element by so many additions; before a library a third kernel writes it."""
    rate = max(rate for _, rate in _TILES.values()) * 1e12 * 2 / width
    rows = batch * m
    moved = (rows * k + k * n + rows * n, 2 * rows * n)
    product, behind = (elements * width / (_FROM_MEMORY * _MULTIPROCESSORS) for elements in moved)
    library = max(rows * n * k / (rate * _MULTIPROCESSORS), product) + behind + 2 * _LAUNCH
    if computed:
        factor = max(2 * width / _FROM_MEMORY, computed / _ADDITIONS) / _MULTIPROCESSORS
        library += rows * k * factor + _LAUNCH
    (own, plan), *_ = _timed_plans((batch, m, n, k), width, computed=computed)
    return plan if own < library else None


def _timed_plans(
    sizes: tuple[int, int, int, int],
    width: int,
    shared: int = SHARED,
    moved: int | None = None,
    computed: int = 0,
) -> list[tuple[float, Plan]]:
    """The plans on tensor cores, each behind its estimated seconds, the fastest first. Where elements of the left
    factor are `computed`, by so many additions, they have fewer terms at a time."""
    fitted: dict[Tile, Rates] = {}
    blocks = {(tile.m, tile.n) for tile in _TILES}
    for tile, rates in _TILES.items():
        own = _fitted(tile, sizes, width)
        if computed:
            own = replace(own, k=max(min(own.k, _COMPUTED * 32 * own.warps // own.m), LEAST))
        # Triton keeps one step less in shared memory than there are stages. On an NVIDIA GPU every tile here fits.
        stages = 1 + shared // ((own.m + own.n) * own.k * width)
        if stages < 2:
            continue
        own = replace(own, stages=min(own.stages, stages))
        share = own.m * own.n / (tile.m * tile.n)
        if share == 1 or (own.m, own.n) not in blocks:
            fitted.setdefault(own, (rates[0] * share, rates[1] * share))

    def timed(parts: Callable[[Tile], Sequence[int]]) -> list[tuple[float, Plan]]:
        found = [(Plan(tile, count), rates) for tile, rates in fitted.items() for count in parts(tile)]
        return [(seconds(plan, rates, sizes, width, moved, computed), plan) for plan, rates in found]

    by_time = operator.itemgetter(0)
    usual = sorted(timed(lambda tile: _parts(tile, sizes)), key=by_time)
    _, best = usual[0]
    if 2 * best.parts * _blocks(best.tile, *sizes[:3]) > _MULTIPROCESSORS:
        return usual
    more = timed(lambda tile: _equal_parts(tile, sizes, _ALIGNED))
    return sorted(dict.fromkeys([*usual, *more]), key=by_time)


def plan_of_ragged_rows(m: int, n: int) -> Plan | None:
    """The plan for a product of two-byte elements whose result's rows begin unaligned, on Hopper; None where it is too
    small, or its rows are so short that most of a block is beside them. Its elements are stored one by one, which takes
    as long as to multiply, so each multiprocessor has one program that loads for its next block meanwhile. [16384, 128]
    by 30522 columns took 495 µs on an H200, and 682 with a program for each block of 128x128; cuBLAS takes 378 for
    aligned rows."""
    blocks = _blocks(_RAGGED, 1, m, n)
    is_full = 2 * m * n >= blocks * _RAGGED.m * _RAGGED.n
    return Plan(_RAGGED) if is_full and blocks >= _ROUNDS * _MULTIPROCESSORS else None


def plan_of_few_rows(n: int, k: int) -> Plan:
    """The plan for at most 16 rows by a weight of n rows of k elements of two bytes: many programs, each of a few rows
    of the weight, and K cut where it is long and there would be too few."""
    if 2 * math.ceil(n / _FEW_ROWS_WIDE.n) > 3 * _MULTIPROCESSORS:
        return Plan(_FEW_ROWS_WIDE)
    parts = 1
    few = math.ceil(n / _FEW_ROWS.n) < 2 * _MULTIPROCESSORS
    while few and k % (2 * parts * _FEW_ROWS.k) == 0 and k // parts > _LONG_PART:
        parts *= 2
    return Plan(_FEW_ROWS, parts)


def _fitted(tile: Tile, sizes: tuple[int, int, int, int], width: int) -> Tile:
    """`tile` for elements of `width` bytes, no larger than the product needs."""
    _, m, n, k = sizes
    m, n = min(tile.m, _power(m)), min(tile.n, _power(n))
    step = min(max(tile.k * 2 // width, LEAST), _power(k))
    # A stage that no step of the loop fills takes shared memory from other programs.
    stages = min(tile.stages, math.ceil(k / step) + 1)
    warps = tile.warps if m * n >= 128 * 128 else min(tile.warps, 4)
    if m < _WARP_GROUP:
        warps = min(warps, power_at_most((m + n) * step // (32 * _LEAST_LOADED)))
    return Tile(m, n, step, warps, stages)


def _power(n: int) -> int:
    return max(power_at_least(n), LEAST)


def _parts(tile: Tile, sizes: tuple[int, int, int, int]) -> Sequence[int]:
    """The numbers of parts that may pay: powers of two that divide K evenly, while programs are few."""
    batch, m, n, k = sizes
    programs = _blocks(tile, batch, m, n)
    found = [1]
    while (
        batch == 1
        and programs * found[-1] < 2 * _MULTIPROCESSORS
        and found[-1] < _MOST_PARTS
        and k % (2 * found[-1] * tile.k) == 0
        and k // (2 * found[-1]) >= _LEAST_PART
    ):
        found.append(2 * found[-1])
    return found


def _equal_parts(tile: Tile, sizes: tuple[int, int, int, int], unit: int = 1) -> list[int]:
    """The number of equal parts that gives a sum the most programs, up to `_PROGRAMS_OF_PARTS`, each with a multiple of
    `unit` terms; 1 where there is none. A power of two need not divide K: of a weight's gradient it counts the pixels
    of all images. Where fewer parts than a quarter of the most divide K, such as a number of edges, also the most,
    behind which some terms are left."""
    batch, m, n, k = sizes
    most = min(_PROGRAMS_OF_PARTS // _blocks(tile, batch, m, n), k // _LEAST_PART) if batch == 1 else 1
    even = next((parts for parts in range(most, 1, -1) if k % (parts * unit) == 0), 1)
    return [even, most] if 4 * even < most else [even]


def seconds(
    plan: Plan,
    rates: Rates,
    sizes: tuple[int, int, int, int],
    width: int,
    moved: int | None = None,
    computed: int = 0,
) -> float:
    """About how many seconds a product takes on an H200. `rates`: multiplications a second, in 1e12, of one program on
    a multiprocessor, and of several there. `moved`: as for `plans`. `computed`: additions for each element of the left
    factor, which each block along N makes anew."""
    tile = plan.tile
    batch, m, n, k = sizes
    programs = _blocks(tile, batch, m, n) * plan.parts
    length = k / plan.parts
    shared = (tile.m + tile.n) * tile.k * width * tile.stages
    fit = max(1, min(SHARED // shared, _REGISTERS // (tile.m * tile.n + 60 * 32 * tile.warps)))
    cache = _FROM_CACHE if tile.m >= 64 else _FROM_CACHE_FEW

    def wave(count: int) -> float:
        multiply = count * tile.m * tile.n / (rates[0] if count == 1 else rates[1]) / 1e12 * width / 2
        multiply += count * tile.m * computed / _ADDITIONS
        load = count * (tile.m + tile.n) * width / cache
        fill = _FILL * min(length / tile.k, tile.stages)
        store = count * tile.m * tile.n * width / _FROM_MEMORY
        loop = length * max(multiply, load) + _BESIDE + fill
        return max(loop, store) + min(loop, store) / count  # one program stores while another multiplies

    whole, left = divmod(programs, fit * _MULTIPROCESSORS)
    total = whole * wave(fit) + (wave(math.ceil(left / _MULTIPROCESSORS)) if left else 0)
    # Each operand is loaded from memory once, and from the cache again for each tile that needs it.
    once = batch * (m * k + k * n + m * n) * width if moved is None else moved
    loaded = programs * length * (tile.m + tile.n) * width
    memory = (once + _AGAIN * max(loaded - once, 0)) / (_FROM_MEMORY * _MULTIPROCESSORS)
    total = max(total, memory + _BESIDE) + _LAUNCH
    return total + _join_seconds(plan, m, n, k)


def _scattered_seconds(plan: Plan, sizes: tuple[int, int, int, int]) -> float:
    tile = plan.tile
    batch, m, n, k = sizes
    programs = _blocks(tile, batch, m, n) * plan.parts
    steps = math.ceil(k / plan.parts / tile.k)
    loads = (tile.m + tile.n) * tile.k
    step = _STEP + _ELEMENT * loads / (32 * tile.warps)
    waves = math.ceil(programs / (_TOGETHER * _MULTIPROCESSORS))
    return steps * max(waves * step, programs / _MULTIPROCESSORS * loads / _ELEMENTS) + _join_seconds(plan, m, n, k)


def _join_seconds(plan: Plan, m: int, n: int, k: int) -> float:
    """About how many seconds it takes to write the parts of a sum, to multiply what is left behind them, and to add all
    up in a kernel of their own."""
    if plan.parts == 1:
        return 0.0
    left = 0 if plan.whole(k) == k else _LAUNCH
    return _LAUNCH + left + 2 * 4 * plan.parts * m * n / (_FROM_MEMORY * _MULTIPROCESSORS)
