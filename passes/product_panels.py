"""How a product of f32 is cut for a CPU: tiles that tasks share out, panels of their columns, blocks of their sums.

The numbers are a machine's with 32 vector registers of 16 f32, and 2 MB of L2 for each core.
"""

from __future__ import annotations

from cuesta.dialects.product import Panels

#: Rows and columns of the sums in registers: 24 vectors, and three or four of the right factor.
_BLOCK, _WIDE_BLOCK = (8, 48), (6, 64)
#: Of K at a time: sums of so many are added up, as exact as MKL's, and a panel of them stays in L1 or L2.
_DEPTH = 384
#: Of few rows libraries sum along K in vectors, many sums at a time: as exact are shorter blocks.
_FEW_ROWS, _SHORT_DEPTH = 16, 64
#: Rows of a tile: the left factor's block stays in L2. Columns: enough of them read it from there.
_MOST_ROWS, _MOST_COLUMNS = 512, 192
#: Tiles that there should be, for some threads.
_FEW_TILES = 8
#: Sums of a tile, at most: they lie on the stack, f32.
_MOST_SUMS = 1 << 17
#: Rows or columns that a tile has at least where a number of them has no better divisors.
_LEAST = 24


def panels_of(m: int, n: int, k: int) -> Panels | None:
    """How to multiply [m, k] by [k, n], all of at least 2; None where sizes have no divisors to cut them by."""
    rows, columns = _WIDE_BLOCK if n % 64 == 0 and n % 48 else _BLOCK
    height = _cut(m, _MOST_ROWS)
    if height is None:
        return None
    width = _width(n, columns, m // height)
    if width is None or height * width > _MOST_SUMS:
        return None
    blocks = -(-k // (_DEPTH if m > _FEW_ROWS else _SHORT_DEPTH))
    depth = -(-k // blocks)
    return Panels(height, width, -(-depth // 16) * 16, rows, columns)


def _cut(size: int, most: int) -> int | None:
    """The largest divisor of a size that is at most so large; the size itself where that is tiny and it is not large;
    None where both are of no use."""
    best = max(d for d in range(1, min(size, most) + 1) if size % d == 0)
    if best == size or best >= _LEAST:
        return best
    return size if size <= 4 * most else None


def _width(n: int, columns: int, others: int) -> int | None:
    """Columns of a tile of whole panels, where n has such a divisor; there are `others` times as many tiles as along
    n."""
    if n % columns:
        return _cut(n, _MOST_COLUMNS)
    panels = n // columns
    most = max(min(_MOST_COLUMNS // columns, panels * others // _FEW_TILES), 1)
    return columns * max(d for d in range(1, most + 1) if panels % d == 0)
