"""Tells where a reduction takes few elements that lie side by side, such as a group of channels of each pixel.

    %1 = cuesta.sum(%0) {dims = [2, 3]}                     %a = cuesta.sum(%0) {dims = [3]} : 64x32x4
      : 64x32x4x1024, channels fastest → 64x32      →       %1 = cuesta.sum(%a) {dims = [2]} : 64x32

A program of one such sum reads a part of each memory sector. Columns that are reduced first are read side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.passes.form_kernels.fusion.limits import FEW_IN_A_ROW
from cuesta.sizes import Number, estimate

#: Elements of the sectors that hold a tensor's short runs, from which reading whole rows pays for two kernels more. On
#: an H200 a norm over groups of four channels took 42 µs for 8 million elements, and one over groups of two 37 µs for
#: 3 million.
_LARGE = 1 << 24


def takes_short_runs(order: Sequence[int], sizes: Sequence[Number], dims: Sequence[int]) -> bool:
    """Whether a reduction along `dims` of a large tensor takes few elements of each row, and leaves those beside them
    to others. `order` has the tensor's dims, the fastest last."""
    if len(dims) < 2 or len(order) < 2 or order[-1] not in dims or order[-2] in dims:
        return False
    run = sizes[order[-1]]
    return isinstance(run, int) and 1 < run < FEW_IN_A_ROW and estimate(sizes) * FEW_IN_A_ROW // run >= _LARGE
