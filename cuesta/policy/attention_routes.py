"""Chooses which of ATen's attention kernels computes an attention, for all callers by one rule.

Measured on an H200 (µs, [batch, heads, length, head dim], bf16, forward): cuDNN is the fastest without a mask and with
its "causal" flag; flash comes next; a mask costs cuDNN twice the time.

| shape | cuDNN | flash |
|---|---|---|
| 4, 12, 1024, 64 causal | 28.8 | 42.1 |
| 1, 32, 2048, 128 causal | 85.6 | 165 |
| 16, 12, 512, 64 | 37.6 | 52.6 |
| 16, 16, 197, 64 | 18.1 | 21.2 |
| 4, 8, 2048, 256 | 203 | 445 |

With a mask, a head dim of 256 takes cuDNN 35 µs forward and 77 backward, the efficient kernel 43 and 557
(4, 4, 512, 256, with one head of k and v).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from cuesta.sizes import Number
from cuesta.targets import Target

#: Every route. "cpu" is ATen's flash kernel for CPU tensors, which the target tt takes too.
ROUTES = ("cudnn", "flash", "efficient", "cpu")

#: The dropout probability for cuDNN's backward kernel when nothing is dropped. torch caches cuDNN's plans by q, k, v,
#: the mask and the probability, but not by the gradient's strides. With a plan that was made for other strides the
#: kernel reads wrong addresses. So all calls of cuesta pass the gradient in the output's strides. Calls of eager may
#: have cached a plan for other strides under 0.0. torch compares the bits, so cuesta's calls do not find it under -0.0.
CUDNN_NO_DROPOUT = -0.0

#: The efficient kernel pads the rows of its logsumexp to a multiple of this many queries.
EFFICIENT_ROWS = 32

#: The efficient kernel loads rows of the mask in pieces, so rows must start at multiples of this many elements.
MASK_ALIGNMENT = 16


@dataclass(frozen=True)
class AttentionCall:
    """What the route depends on. Sizes are [B, H, L, D], [B, Hkv, S, D] and [B, Hkv, S, Dv]; they may be symbolic."""

    spelling: str
    query: Sequence[Any]
    key: Sequence[Any]
    value: Sequence[Any]
    masked: bool = False
    causal: bool = False
    dropout: float = 0.0


def choose_route(call: AttentionCall, target: Target, allowed: Collection[str] = ROUTES) -> str | None:
    """The route for a call on a target, or None if no kernel of ATen's computes the whole attention.

    The last dim of q, k and v must have stride 1. `allowed` are the routes that the user has not switched off.
    """
    if target.device_type == "cpu":
        order: tuple[str, ...] = ("cpu",)
    elif target.kind == "cuda":
        order = ("cudnn", "flash", "efficient") if target.arch in _CUDNN_FIRST else ("flash", "cudnn", "efficient")
    else:
        return None  # AOTriton and oneDNN are not measured: torch's own choice stays
    if not _sizes_fit(call):
        return None
    return next((route for route in order if route in allowed and _fits(route, call, target)), None)


def takes_fewer_kv_heads(route: str) -> bool:
    """Whether the kernel takes k and v with fewer heads than q, without a copy."""
    return route != "efficient"


def logsumexp_shape(route: str, query: Sequence[Number]) -> list[Number]:
    """The shape of the logsumexp that the kernel returns for q of these sizes."""
    batch, heads, length = query[:3]
    if route == "cudnn":
        return [batch, heads, length, 1]
    if route == "efficient":
        return [batch, heads, -(-length // EFFICIENT_ROWS) * EFFICIENT_ROWS]
    return [batch, heads, length]


#: Compute capabilities on which torch, too, tries cuDNN before flash.
_CUDNN_FIRST = ("90", "100", "103")

#: The largest head dim by compute capability, 128 elsewhere: cuDNN 9.10 and later, which torch has had since 2.8.
_CUDNN_HEAD_DIM = {"90": 256}

_HALF = ("bf16", "f16")


def _known(condition: Any) -> bool:
    """Whether a condition holds for all values of its symbolic sizes; adds no guard."""
    if isinstance(condition, bool):
        return condition
    from cuesta.torch_private.symbolic_shapes import statically_known_true

    return statically_known_true(condition)


def _sizes_fit(call: AttentionCall) -> bool:
    q, k, v = call.query, call.key, call.value
    if not len(q) == len(k) == len(v) == 4 or not all(isinstance(n, int) for n in (q[1], q[3], k[1], k[3], v[1], v[3])):
        return False
    same = _known(q[0] == k[0]) and _known(k[0] == v[0]) and _known(k[2] == v[2])
    # As in torch.compile, a symbolic size is assumed to be neither 0 nor 1.
    return same and q[3] == k[3] and k[1] == v[1] and q[1] % k[1] == 0 and not any(_known(n == 0) for n in (*q, *k))


def _square(call: AttentionCall) -> bool:
    return _known(call.query[2] == call.key[2])


def _fits(route: str, call: AttentionCall, target: Target) -> bool:
    return _fits_cudnn(call, _CUDNN_HEAD_DIM.get(target.arch, 128)) if route == "cudnn" else _FITS[route](call)


def _fits_cudnn(call: AttentionCall, largest: int) -> bool:
    """`largest` is the largest head dim that cuDNN takes on the target."""
    q, k, v = call.query, call.key, call.value
    # cuDNN's dropout supports multiples of 1/16 only; other probabilities would be rounded.
    random = call.dropout != 0
    if random and (call.dropout * 16 != int(call.dropout * 16) or _known(q[2] == 1)):
        return False
    if call.spelling not in _HALF or q[3] % 8 or v[3] % 8 or max(q[3], v[3]) > largest:
        return False
    if q[1] > 65535 or _known(q[0] > 65535) or _known(k[2] == 1):
        return False
    return not call.causal or _square(call)


def _fits_flash(call: AttentionCall) -> bool:
    # Flash aligns "causal" to the last row and column, torch to the first.
    if call.masked or (call.causal and not _square(call)):
        return False
    return call.spelling in _HALF and call.query[3] == call.value[3] and call.query[3] % 8 == 0 and call.query[3] <= 256


def _fits_efficient(call: AttentionCall) -> bool:
    alignment = {"bf16": 8, "f16": 8, "f32": 4}.get(call.spelling)
    return alignment is not None and call.query[3] % alignment == 0 and call.value[3] % alignment == 0


def _fits_cpu(call: AttentionCall) -> bool:
    same = call.query[3] == call.value[3]
    return same and call.dropout == 0 and call.spelling in (*_HALF, "f32", "f64")


_FITS = {"flash": _fits_flash, "efficient": _fits_efficient, "cpu": _fits_cpu}
