"""Decides how an f32 product is cut for a CPU: tiles for tasks, panels of a tile's columns, blocks of its sums.

Most numbers are for a machine with 32 vector registers of 16 f32, and 2 MB of L2 per core. There panels take 0.4 to 0.8
of MKL's time with 2 to 64 rows, as MKL is slow at multiplying few rows by weights that no cache holds. With 128 rows by
a linear layer's weight they take 0.8 to 1 of it. From 256 rows on they are as fast, a little slower or a little faster.
"""

from __future__ import annotations

from cuesta.dialects.product import Panels
from cuesta.policy.few_rows import FEW_ROWS
from cuesta.policy.slow_floats import has_vectors, has_wide_vectors, slow_in_convolutions

#: Rows and columns of a block of sums in registers: 24 vectors, beside three or four of the right factor.
_BLOCK, _WIDE_BLOCK = (8, 48), (6, 64)
#: The same for 16 vector registers of 8 f32: 12 vectors. On a Zen 3 products take 0.9 to 1.25 of MKL's time so, and by
#: blocks of 8 x 48 two and a half times that.
_NARROW_BLOCK = (6, 16)
#: Elements of bf16 of a part of the left factor that stays in L1 beside rows of the weight; parts of K are multiples.
_IN_HALF_OF_L1, _MULTIPLE = 1 << 14, 64
#: The most rows that are multiplied by rows of a weight along K at once, and the most that take a row of the weight by
#: itself, which is one stream from memory. With 16 registers of 8 f32 there is no room for the sums of more.
_ROWS_AT_ONCE, _ROWS_BY_ONE = 8, 4
#: How much of K is summed at a time; these partial sums are then added up, as in MKL. With few rows, a panel that is
#: short enough to stay in L1 takes no longer, and its sums are more exact.
_DEPTH, _DEPTH_IN_L1 = 384, 128
#: With very few rows, libraries sum along K in vectors, with many partial sums: shorter blocks are as exact as that.
_SHORT_DEPTH = 64
#: The most rows of a tile: its block of the left factor stays in L2. The most columns: enough to reuse that block.
_MOST_ROWS, _MOST_COLUMNS, _FEWER_COLUMNS = 512, 192, 96
#: Rows of a tile where the number of rows is symbolic: a multiple of a block's rows, and of most batches' rows.
ANY_ROWS = 256
#: The most rows with which panels are faster: in general, and by a weight that is transposed in memory.
_ROWS, _ROWS_ACROSS = 64, 128
#: A right factor of fewer elements stays in a cache, and a library is as fast.
_LITTLE = 1 << 16
#: The fewest terms of a sum that fill a vector: with fewer, a kernel's loop along K cannot be vectorised.
_SHORT_SUM = 16
#: The most elements of a left factor that stays in L2 while every panel is multiplied by it.
_IN_CACHE = 1 << 18
#: The fewest tiles that there should be, so that several threads have work.
_FEW_TILES = 8
#: Where a tile's columns need not be whole panels, its vectors may be this many times as wide as the columns.
_PADDED = 1.05


def panels_of(m: int, n: int, k: int, batch: int = 1) -> Panels:
    """How to multiply `batch` times [m, k] by [k, n], all of at least 2."""
    rows, columns = next((block for block in _blocks() if n % block[1] == 0), _blocks()[0])
    height = _height(m, rows)
    width = _width(n, columns, batch * -(-m // height), _FEWER_COLUMNS if m <= _ROWS_ACROSS else _MOST_COLUMNS)
    most = _SHORT_DEPTH if m <= FEW_ROWS else _DEPTH_IN_L1 if m <= _ROWS_ACROSS else _DEPTH
    blocks = -(-k // most)
    depth = -(-k // blocks)
    return Panels(height, width, -(-depth // 16) * 16, rows, columns)


def _blocks() -> tuple[tuple[int, int], ...]:
    """The rows and columns of blocks of sums for this machine's registers, the best first."""
    return (_BLOCK, _WIDE_BLOCK) if has_wide_vectors() else (_NARROW_BLOCK,)


def rows_of(m: int, n: int, k: int) -> Panels | None:
    """How to multiply a few rows [m, k] by a linear layer's weight, [n, k] in memory, along K; None if n fills no
    vectors. Several rows of the weight at once share what they read of the left factor."""
    width = next((width for width in (64, 48, 32, 16) if n % width == 0), None)
    rows = -(-m // -(-m // (_ROWS_AT_ONCE if has_wide_vectors() else _ROWS_BY_ONE)))
    parts = -(-m * k // _IN_HALF_OF_L1)
    depth = -(-k // (parts * _MULTIPLE)) * _MULTIPLE
    return None if width is None else Panels(m, width, depth, rows, 1 if rows <= _ROWS_BY_ONE else 2)


def is_faster(m: int, n: int, k: int, across: bool) -> bool:
    """Whether panels are known to beat a library's product; `across` says that the right factor is a linear layer's
    weight, [n, k] in memory."""
    rows = _ROWS_ACROSS if across else _ROWS
    if not (2 <= m <= rows and n % 16 == 0 and n * k >= _LITTLE and has_wide_vectors()):
        return False
    found = panels_of(m, n, k)
    return m > found.m or n > found.n  # a single tile would run on one thread


def is_faster_by_a_vector(length: int, k: int) -> bool:
    """Whether a kernel is known to beat a library at multiplying a matrix of bf16 or f16 by a vector. The matrix has
    `length` rows or columns, each of which gives a sum of `k` terms. The kernel reads it at the memory's speed. oneDNN
    takes twice that time, and for f16 up to 14 times (decision 16); without AVX-512 ATen's loops take up to 9 times it
    (decision 65)."""
    return k >= _SHORT_SUM and length * k >= _LITTLE and has_vectors()


def packed_columns(n: int) -> int:
    """Columns of the panels that a weight of n columns is packed in, a divisor of n; 0 where there is none."""
    return next((columns for _, columns in _blocks() if n % columns == 0), 0)


def is_worth_packing(m: object, n: object, k: object) -> bool:
    """Whether a weight [k, n] by which m rows are multiplied should be packed in panels; not where a size is
    symbolic."""
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int)) or not packed_columns(n):
        return False
    if m <= FEW_ROWS:
        return False  # an unpacked weight comes from memory 16 columns at once, a panel row by row
    return is_faster(m, n, k, True) and m * k <= _IN_CACHE


def has_slow_f16() -> bool:
    """Whether oneDNN leaves products of f16 to ATen's own loops, which took 8 times as long as panels on a Zen 5."""
    return has_wide_vectors() and "f16" in slow_in_convolutions()


def _height(m: int, rows: int) -> int:
    """Rows of a tile: all m, the largest divisor above half the limit, or else blocks that make tiles about equal."""
    if m <= _MOST_ROWS:
        return m
    divisors = [d for d in range(_MOST_ROWS // 2 + 1, _MOST_ROWS + 1) if m % d == 0]
    return max(divisors, default=_about_equal(-(-m // rows), _MOST_ROWS // rows) * rows)


def _width(n: int, columns: int, others: int, limit: int) -> int:
    """Columns of a tile, at most `limit`: whole panels, or a divisor of n that nearly fills vectors. In all there are
    `others` times as many tiles as along n."""
    panels = -(-n // columns)
    most = max(min(limit // columns, panels * others // _FEW_TILES), 1)
    if n % columns == 0:
        return columns * max(d for d in range(1, most + 1) if panels % d == 0)
    if n <= _MOST_COLUMNS:
        return n
    divisors = [d for d in range(limit // 2, limit + 1) if n % d == 0 and -(-d // 16) * 16 <= d * _PADDED]
    return max(divisors, default=_about_equal(panels, most) * columns)


def _about_equal(count: int, most: int) -> int:
    """The size of a part, at most `most`, where `count` things are in as few and as equal parts as possible."""
    return -(-count // -(-count // most))
