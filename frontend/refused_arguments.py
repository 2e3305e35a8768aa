"""Finds calls that ATen refuses on a CPU for their arguments' sizes, dtypes or numbers, though torch's fake kernels and
the ops' decompositions accept them. Such a call stays a call into ATen, which raises the same error as in eager.

    torch.zeros(16).slice_scatter(torch.ones(8), 0, 4, 10)     # RuntimeError: expected src to have a size equal to …

An import rule in frontend/aten/ that knows its operands' sizes declines a refused call itself. Data-dependent sizes
cannot be shown to be wrong: calls with them pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cuesta.torch_private.symbolic_shapes import free_unbacked_symbols, guard_or_false

_HALVES = (torch.float16, torch.bfloat16)


def refuses(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether ATen refuses a call. Its tensors are fake tensors; the device is the first tensor's."""
    refused = _REFUSED.get(str(op)) or _REFUSED.get(str(op).rpartition(".")[0])
    if refused is None:
        return False
    first = next((arg for arg in args if isinstance(arg, Tensor)), None)
    return first is not None and first.device.type == "cpu" and refused(*args, **kwargs)


def is_checked(op: Any) -> bool:
    """Whether ATen may refuse calls of an overload for their arguments."""
    return str(op) in _REFUSED or str(op).rpartition(".")[0] in _REFUSED


def _differ(n: Any, m: Any) -> bool:
    return guard_or_false(n != m)


def _shapes_differ(x: Sequence[Any], y: Sequence[Any]) -> bool:
    return len(x) != len(y) or any(_differ(n, m) for n, m in zip(x, y, strict=True))


def _widens(x: Tensor, *others: Tensor | None) -> bool:
    """Whether x cannot hold the result of an op that allocates its result like x: broadcasting x with `others` gives a
    larger shape than x's, or their promoted dtype does not cast to x's."""
    for y in others:
        if y is None:
            continue
        extra = y.dim() > x.dim()
        pairs = zip(x.shape[::-1], y.shape[::-1], strict=False)
        if extra or any(_differ(m, 1) and _differ(n, m) for n, m in pairs):
            return True
        if not torch.can_cast(torch.result_type(x, y), x.dtype):
            return True
    return False


# -- writes into a copy ------------------------------------------------------------------------
def _is_dim(dim: int, x: Tensor) -> bool:
    return x.dim() > 0 and -x.dim() <= dim < x.dim()


def _select_scatter(x: Tensor, part: Tensor, dim: int, index: Any) -> bool:
    if not _is_dim(dim, x):
        return True
    return _shapes_differ([n for d, n in enumerate(x.shape) if d != dim % x.dim()], part.shape)


def _slice_scatter(x: Tensor, part: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> bool:
    if not _is_dim(dim, x) or part.dim() != x.dim() or guard_or_false(step < 1):
        return True
    dim %= x.dim()
    if any(_differ(n, m) for d, (n, m) in enumerate(zip(x.shape, part.shape, strict=True)) if d != dim):
        return True
    size = x.shape[dim]
    if any(isinstance(n, torch.SymInt) and free_unbacked_symbols(n) for n in (size, start, end, step)):
        return False
    first, last = (_bound(given, size, usual) for given, usual in ((start, 0), (end, size)))
    return _differ(part.shape[dim], max((last - first + step - 1) // step, 0))


def _bound(given: Any, size: Any, usual: Any) -> Any:
    bound = usual if given is None else given
    bound = bound + size if bound < 0 else bound
    return max(min(bound, size), 0)


def _diagonal_scatter(x: Tensor, part: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> bool:
    if x.dim() < 2 or not (_is_dim(dim1, x) and _is_dim(dim2, x)) or part.dim() != x.dim() - 1:
        return True
    row, column = dim1 % x.dim(), dim2 % x.dim()
    kept = [n for d, n in enumerate(x.shape) if d not in (row, column)]
    if row == column or any(_differ(n, m) for n, m in zip(kept, part.shape, strict=False)):
        return True
    rows, columns = x.shape[row] - max(-offset, 0), x.shape[column] - max(offset, 0)
    if free_unbacked_symbols(x):
        return False
    return _differ(part.shape[-1], max(min(rows, columns), 0))


def _slices(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str = "amax", **_: Any) -> bool:
    """Whether ATen refuses a call of index_add, index_copy or index_reduce."""
    if x.dtype != source.dtype or index.dtype not in (torch.int32, torch.int64) or index.dim() > 1:
        return True
    if reduce not in ("prod", "mean", "amax", "amin") or x.dim() != source.dim():
        return True
    if not x.dim():
        return dim not in (-1, 0) or _differ(index.numel(), 1)
    wanted = [index.numel() if d == dim % x.dim() else n for d, n in enumerate(x.shape)]
    return not _is_dim(dim, x) or _shapes_differ(wanted, source.shape)


def _index_select(x: Tensor, dim: int, index: Tensor) -> bool:
    wrong = index.dtype not in (torch.int32, torch.int64) or index.dim() > 1 or _no_dim(x, dim)
    return wrong or (not x.dim() and _differ(index.numel(), 1))


def _index_put(x: Tensor, indices: Sequence[Tensor | None], value: Tensor, accumulate: bool = False) -> bool:
    """A single value written under a mask may have any dtype; other values must have x's."""
    masks = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)
    is_fill = masks and not accumulate and not _differ(value.numel(), 1)
    return len(indices) > x.dim() or (x.dtype != value.dtype and not is_fill)


# -- norms -------------------------------------------------------------------------------------
def _mixes(x: Tensor, *parameters: Tensor | None) -> bool:
    """Whether a norm's parameters differ from x in dtype. Where x is f16 or bf16, they may also all be f32."""
    types = {parameter.dtype for parameter in parameters if parameter is not None}
    return not (types <= {x.dtype} or (x.dtype in _HALVES and types == {torch.float32}))


def _batch_norm(x: Tensor, *given: Any, **named: Any) -> bool:
    return _mixes(x, *(p for p in (*given, *named.values()) if isinstance(p, Tensor)))


# -- losses ------------------------------------------------------------------------------------
def _nll_loss(x: Tensor, target: Tensor, weight: Tensor | None = None, *_: Any, **__: Any) -> bool:
    is_other = weight is not None and weight.dtype != x.dtype
    return is_other or target.dtype not in (torch.int64, torch.uint8) or not x.is_floating_point()


def _cross_entropy_with_logits(
    x: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, *_: Any, **__: Any
) -> bool:
    return _widens(target, x) or _widens(target, weight) or (pos_weight is not None and pos_weight.dtype.is_complex)


def _soft_margin_loss(x: Tensor, target: Tensor, *_: Any, **__: Any) -> bool:
    return target.dtype == torch.bool or not x.is_floating_point() or _widens(x, target)


# -- others ------------------------------------------------------------------------------------
def _types_differ(x: Any, y: Any, *_: Any, **__: Any) -> bool:
    return isinstance(x, Tensor) and isinstance(y, Tensor) and x.dtype != y.dtype


def _no_dim(x: Tensor, dim: int = -1, *_: Any, **__: Any) -> bool:
    """Whether `dim` is out of range for x; a 0-d tensor counts as having one dim."""
    return not -max(x.dim(), 1) <= dim < max(x.dim(), 1)


def _range(*ends: Any, dtype: torch.dtype | None = None, **_: Any) -> bool:
    is_complex = any(isinstance(end, Tensor) and end.dtype.is_complex for end in ends)
    return is_complex and dtype is not None and not dtype.is_complex


_REFUSED: dict[str, Callable[..., bool]] = {
    "aten.select_scatter": _select_scatter,
    "aten.slice_scatter": _slice_scatter,
    "aten.diagonal_scatter": _diagonal_scatter,
    **dict.fromkeys(("aten.index_add", "aten.index_reduce"), _slices),
    "aten.index_copy": lambda x, dim, index, source: index.dtype != torch.int64 or _slices(x, dim, index, source),
    "aten.index_select": _index_select,
    "aten.put": lambda x, index, source, *_, **__: (
        x.dtype != source.dtype or index.dtype != torch.int64 or _differ(index.numel(), source.numel())
    ),
    "aten.index_fill": lambda x, dim, index, value: index.dtype != torch.int64,
    **dict.fromkeys(("aten.index_put", "aten._unsafe_index_put"), _index_put),
    "aten.masked_scatter": lambda x, mask, source: x.dtype != source.dtype or mask.dtype != torch.bool,
    "aten.native_layer_norm": lambda x, shape, weight, bias, eps: _mixes(x, weight, bias),
    "aten.native_group_norm": lambda x, weight, bias, *_: _mixes(x, weight, bias),
    **{
        f"aten.{name}": _batch_norm
        for name in (
            *("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional"),
            *("_native_batch_norm_legit_no_training", "_batch_norm_with_update_functional", "_batch_norm_no_update"),
            "_batch_norm_with_update",
        )
    },
    "aten.nll_loss_forward": _nll_loss,
    "aten.nll_loss2d_forward": lambda x, target, weight=None, *_, **__: (
        _nll_loss(x, target, weight) or _shapes_differ([x.shape[0], *x.shape[2:]], target.shape)
    ),
    "aten.binary_cross_entropy": lambda x, target, weight=None, *_, **__: (
        target.dtype != x.dtype or (weight is not None and weight.dtype != x.dtype)
    ),
    "aten.binary_cross_entropy_with_logits": _cross_entropy_with_logits,
    # ATen writes the loss in x's dtype.
    "aten.huber_loss": lambda x, target, *_, **__: not torch.can_cast(torch.result_type(x, target), x.dtype),
    "aten.soft_margin_loss": _soft_margin_loss,
    **dict.fromkeys(
        ("aten._cdist_forward", "aten.linalg_cross", "aten.complex", "aten.polar", "aten.heaviside"), _types_differ
    ),
    **{f"aten.{name}": _no_dim for name in ("sort", "cummax", "cummin", "_softmax", "_safe_softmax", "_log_softmax")},
    **dict.fromkeys(
        ("aten._softmax_backward_data", "aten._log_softmax_backward_data"),
        lambda grad, y, *_: grad.dtype != y.dtype or _shapes_differ(grad.shape, y.shape),
    ),
    **dict.fromkeys(("aten.linspace", "aten.logspace"), _range),
    "aten.im2col": lambda x, kernel, dilation, padding, stride: any(guard_or_false(n < 0) for n in padding),
    **dict.fromkeys(
        ("aten._embedding_bag", "aten._embedding_bag_forward_only"),
        lambda table, indices, offsets, by_frequency=False, mode=0, sparse=False, weights=None, *_: (
            weights is not None and weights.dtype != table.dtype
        ),
    ),
    "aten.mvlgamma": lambda x, p: p < 1,
    "aten.ldexp": lambda x, other: x.is_floating_point() and other.dtype == torch.bool,
    "aten.pixel_unshuffle": lambda x, factor: factor < 1 or any(guard_or_false(n % factor != 0) for n in x.shape[-2:]),
}
