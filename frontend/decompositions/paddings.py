"""Decomposes padding by reflection and by replication, and their gradients, into copies of whole slices.

    reflection_pad1d(x, [2, 1])      →  cat(flip(x[1:3]), x, x[-2:-1])
    its gradient from g              →  g[2:-1] + pad(flip(g[:2])) + pad(g[-1:])

torch's decompositions read each element at a computed position: rows of 64 between mirrored edges took 2.6 times as
long on a CPU. On a GPU computed positions cost nothing: all dims are read at once there, where torch's decompositions
pad one dim after the other (16x64x128x128 by 3 on each side, H100: 44 µs instead of 339), and ATen computes the
gradient of reflection (136 µs).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from cuesta.torch_private.decompositions import suggest_memory_format

aten = torch.ops.aten

#: (x, dim, number of padding elements, whether in front) → those elements of one side. For gradients: (gradient of one
#: side's padding, dim, size of x, whether in front) → its contribution to x's gradient.
Edge = Callable[[Tensor, int, int, bool], Tensor]
#: (positions along a padded dim, 0 where x begins; the size of x there) → the positions in x whose elements they hold.
Place = Callable[[Tensor, int], Tensor]


def _mirror(x: Tensor, dim: int, count: int, in_front: bool) -> Tensor:
    """The padding by reflection on one side of x."""
    return x.narrow(dim, 1 if in_front else x.shape[dim] - 1 - count, count).flip(dim)


def _repeat(x: Tensor, dim: int, count: int, in_front: bool) -> Tensor:
    """The padding by replication on one side of x."""
    edge = x.narrow(dim, 0 if in_front else x.shape[dim] - 1, 1)
    return edge.expand([count if d == dim else -1 for d in range(x.dim())])


def _sides(x: Tensor, padding: Sequence[int]) -> list[tuple[int, int, int]]:
    """For each padded dim, last dim first: (dim, padding in front, padding behind), in elements."""
    pairs = zip(padding[::2], padding[1::2], strict=True)
    return [(x.dim() - 1 - i, left, right) for i, (left, right) in enumerate(pairs)]


def _padded(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    """x padded with zeros along `dim`; negative numbers crop x."""
    pads = [0] * (2 * (x.dim() - dim))
    pads[-2:] = before, after
    result: Tensor = aten.constant_pad_nd(x, pads)
    return result


def _pad(edge: Edge, place: Place) -> Callable[[Tensor, Sequence[int]], Tensor]:
    """On a CPU, pads one dim after the other, last dim first, and crops each by negative padding afterwards. On a GPU,
    reads all elements at the positions that `place` gives."""

    def pad(x: Tensor, padding: Sequence[int]) -> Tensor:
        if x.device.type != "cpu":
            return read_at(place, x, padding)
        result = x
        for dim, left, right in _sides(x, padding):
            front = [edge(result, dim, left, True)] if left > 0 else []
            behind = [edge(result, dim, right, False)] if right > 0 else []
            result = torch.cat([*front, result, *behind], dim)
            result = _padded(result, dim, min(left, 0), min(right, 0)) if min(left, right) < 0 else result
        return result.contiguous(memory_format=suggest_memory_format(x))

    return pad


def mirrored(at: Tensor, size: int) -> Tensor:
    """The positions in x that reflection reads, by position in the padded dim."""
    last = size - 1
    return last - (last - at.abs()).abs()


def clamped(at: Tensor, size: int) -> Tensor:
    """The positions in x that replication reads, by position in the padded dim."""
    return at.clamp(0, size - 1)


def read_at(place: Place, x: Tensor, padding: Sequence[int]) -> Tensor:
    """x padded by reading every element of the result at the position that `place` gives."""
    positions: list[Tensor | None] = [None] * x.dim()
    for dim, left, right in _sides(x, padding):
        at = place(torch.arange(-left, x.shape[dim] + right, device=x.device), x.shape[dim])
        positions[dim] = at.view(-1, *[1] * (x.dim() - 1 - dim))
    result: Tensor = aten._unsafe_index(x, positions)
    return result.contiguous(memory_format=suggest_memory_format(x))


def _mirrored_share(grad: Tensor, dim: int, size: int, in_front: bool) -> Tensor:
    """The contribution to the gradient of `size` elements from the gradient of their mirrored padding."""
    count = grad.shape[dim]
    around = (1, size - 1 - count) if in_front else (size - 1 - count, 1)
    return _padded(grad.flip(dim), dim, *around)


def _repeated_share(grad: Tensor, dim: int, size: int, in_front: bool) -> Tensor:
    """The contribution to the gradient of `size` elements from the gradient of copies of the first or last element."""
    return _padded(grad.sum(dim, keepdim=True), dim, *((0, size - 1) if in_front else (size - 1, 0)))


def _pad_backward(share: Edge, torchs_on_gpu: bool) -> Callable[[Tensor, Tensor, Sequence[int]], Tensor]:

    def backward(grad: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
        """One dim after the other. Floats narrower than f32 are added up in f32."""
        if torchs_on_gpu and x.device.type != "cpu":
            return NotImplemented
        wide = grad.float() if grad.dtype.itemsize < 4 else grad
        for dim, left, right in _sides(x, padding):
            size = x.shape[dim]
            wide = _padded(wide, dim, max(-left, 0), max(-right, 0)) if min(left, right) < 0 else wide
            left, right = max(left, 0), max(right, 0)
            total = wide.narrow(dim, left, size)
            if left:
                total = total + share(wide.narrow(dim, 0, left), dim, size, True)
            if right:
                total = total + share(wide.narrow(dim, left + size, right), dim, size, False)
            wide = total
        return wide.to(grad.dtype)

    return backward


def _of_ranks(name: str) -> list[Any]:
    return [getattr(aten, name.format(rank)).default for rank in (1, 2, 3)]


DECOMPOSITIONS: dict[Any, Any] = {
    **{op: _pad(_mirror, mirrored) for op in _of_ranks("reflection_pad{}d")},
    **{op: _pad(_repeat, clamped) for op in _of_ranks("replication_pad{}d")},
    **{op: _pad_backward(_mirrored_share, True) for op in _of_ranks("reflection_pad{}d_backward")},
    **{op: _pad_backward(_repeated_share, False) for op in _of_ranks("replication_pad{}d_backward")},
}
