"""Corrects the layout of pointwise ops of two tensors, where the operands' dim orders differ and torch's fake kernels
lay out the result differently from eager: brings the operands into the layout of eager's result first.

    copysign(x.t(), y)   →   copysign(x.contiguous(), y.t().contiguous()).t()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cuesta.torch_private.decompositions import core_decompositions_after_autograd
from cuesta.torch_private.dispatch import disable_current_modes
from cuesta.torch_private.symbolic_shapes import free_unbacked_symbols

aten = torch.ops.aten


def _strides(op: Callable[..., Any], *operands: Any, **kwargs: Any) -> tuple[Any, ...]:
    """The strides of an op's result by torch's fake kernels; the call is not traced."""
    with disable_current_modes():
        return tuple(op(*operands, **kwargs).stride())


def _order(op: Callable[..., Any], x: Tensor, y: Tensor, *rest: Any, **kwargs: Any) -> list[int] | None:
    """The dims of eager's result, outermost first; None where torch's fake kernel gives eager's strides.

    Eager's strides are those of a comparison, whose fake kernel uses the iterator of eager's own loops.
    """
    alike = x.shape == y.shape and x.stride() == y.stride()
    if alike or max(x.dim(), y.dim()) < 2:
        return None
    own = _strides(aten.eq.Tensor, x, y)
    if own == _strides(op, x, y, *rest, **kwargs):
        return None
    return sorted(range(len(own)), key=lambda d: own[d], reverse=True)


def _as_eager(op: Any) -> Callable[..., Any]:
    decomposition = core_decompositions_after_autograd().get(op)

    def compute(x: Any, y: Any, *rest: Any, **kwargs: Any) -> Any:
        tensors = isinstance(x, Tensor) and isinstance(y, Tensor)
        known = tensors and not (free_unbacked_symbols(x) or free_unbacked_symbols(y))
        order = _order(decomposition or op, x, y, *rest, **kwargs) if known else None
        if order is None:
            return NotImplemented if decomposition is None else decomposition(x, y, *rest, **kwargs)
        sizes = torch.broadcast_shapes(x.shape, y.shape)
        # 0-d operands stay 0-d, so that they keep no influence on the result's type.
        operands = [z.expand(sizes).permute(order).contiguous() if z.dim() else z for z in (x, y)]
        return op(*operands, *rest, **kwargs).permute([order.index(d) for d in range(len(order))])

    return compute


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    op: _as_eager(op)
    for op in (
        *(aten.copysign.Tensor, aten.heaviside.default, aten.xlogy.Tensor, aten.logaddexp.default),
        *(aten.logaddexp2.default, aten.logit_backward.default, aten.special_xlog1py.default),
        *(aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default),
    )
}
