"""Finds calls for whose element type ATen has no CPU kernel, though cuesta's kernels would compute them. They are left
to ATen, which raises the same error as in eager.

    torch.tensor([True]).abs()     # NotImplementedError: "abs_cpu" not implemented for 'Bool'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

_BOOL = frozenset({torch.bool})
_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
_HALVES = frozenset({torch.float16, torch.bfloat16})
_COMPLEX = frozenset({torch.complex32, torch.complex64, torch.complex128})

_BATCH_NORM = (
    *("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional"),
    *("_batch_norm_with_update", "_batch_norm_with_update_functional"),
)

#: Refused types → the ATen packets or overloads that refuse them.
_TABLE: tuple[tuple[frozenset[torch.dtype], tuple[str, ...]], ...] = (
    (
        _BOOL,
        (
            *("abs", "ceil", "clamp", "floor", "relu", "round", "threshold", "trunc"),
            *("addcmul", "bitwise_left_shift", "bitwise_right_shift", "div", "fmod", "gcd", "pow", "remainder"),
            *("addmv", "bmm", "dot", "mm", "mv", "trace", "_trilinear", "vdot"),
            *("arange", "argmax", "argmin", "bucketize", "cumprod", "cumsum", "index_reduce", "scatter_reduce"),
            *("kthvalue", "linalg_cross", "median", "mvlgamma", "nanmedian", "topk"),
            *("avg_pool2d", "avg_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices"),
            *(f"reflection_pad{rank}d" for rank in (1, 2, 3)),
        ),
    ),
    (
        _INTEGERS,
        (
            *("binary_cross_entropy", "frac", "huber_loss", "log_sigmoid_forward", "logaddexp", "logaddexp2"),
            *("nll_loss_forward", "smooth_l1_loss", "soft_margin_loss", "_softmax_backward_data"),
            *("im2col", "max_pool2d_with_indices_backward", "mse_loss", "nll_loss2d_forward"),
            *_BATCH_NORM,
        ),
    ),
    (_INTEGERS - {torch.int64}, ("avg_pool2d", "avg_pool3d")),
    (_INTEGERS | _BOOL, (*("celu", "elu", "glu", "logcumsumexp", "_prelu_kernel"), *("max_unpool2d", "max_unpool3d"))),
    (
        _HALVES,
        (*("avg_pool3d", "_cdist_forward", "_pdist_forward"), *("special_erfcx", "special_log_ndtr", "special_ndtri")),
    ),
    (
        _COMPLEX,
        (
            *("div.Scalar_mode", "div.Tensor_mode", "huber_loss", "mse_loss", "smooth_l1_loss", "special_xlog1py"),
            *("aminmax", "glu", "max_unpool2d", "max_unpool3d", "nansum", "xlogy"),
            *("nll_loss_forward", "nll_loss2d_forward", *_BATCH_NORM),
        ),
    ),
)
#: Ops whose traced result has another type than the type in which they compute.
_OF_ANOTHER_TYPE = frozenset(
    f"aten.{name}" for name in ("argmax", "argmin", "bucketize", "nll_loss_forward", "nll_loss2d_forward", "pow")
)


def _by_name() -> Mapping[str, frozenset[torch.dtype]]:
    found: dict[str, frozenset[torch.dtype]] = {}
    for types, names in _TABLE:
        for name in names:
            found[f"aten.{name}"] = found.get(f"aten.{name}", frozenset()) | types
    return found


_REFUSED = _by_name()


def refused_types(op: Any) -> frozenset[torch.dtype]:
    """The element types for which ATen refuses an overload on a CPU."""
    none: frozenset[torch.dtype] = frozenset()
    return _REFUSED.get(str(op), none) | _REFUSED.get(str(op).rpartition(".")[0], none)


def refused_type(op: Any, operands: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> torch.dtype | None:
    """The type for which ATen refuses a call on a CPU, or None. A call's type is that of its first operand (without
    operands: result) of the highest kind (`_kind`). `results` may be empty where unknown."""
    types, tensors = refused_types(op), (*operands, *results)
    if not types or not tensors or any(x.device.type != "cpu" for x in tensors):
        return None
    own = max((x.dtype for x in operands or tensors), key=_kind)  # the first tensor of the highest kind
    if own not in types:
        return None
    if results and results[0].dtype != own and str(op).rpartition(".")[0] not in _OF_ANOTHER_TYPE:
        return None  # it computes in the result's type, because of another operand or a `dtype` argument
    return own


def _kind(dtype: torch.dtype) -> int:
    """Rank for promotion: integers, then floats, then complex numbers. Index operands are integers and rank lowest."""
    return dtype.is_floating_point + 2 * dtype.is_complex
