"""Defines scaled dot-product attention as single ops: forward and backward, with and without dropout.

An op may carry `route`, one of ROUTES: the ATen kernel that its results were traced for. The route determines the
logsumexp's shape (`logsumexp_shape`) and the seeds' types. An op without a route has the route "cpu".
"""

from typing import Annotated, Any

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operand, Operation, Result, reference, verifier
from cuesta.dialects.fields import OPTIONAL, Flag, Float, Text
from cuesta.policy.attention_routes import ROUTES, logsumexp_shape
from cuesta.sizes import at

aten = torch.ops.aten
Tensors = list[torch.Tensor]


class AnyAttention(Operation):
    """What all four ops have in common."""

    route: Annotated[Text, OPTIONAL]
    #: Makes the op a kernel of ours: the text of a `kernel_attention.AttentionTile`.
    tile: Annotated[Text, OPTIONAL]
    #: Why no kernel of ours can compute the op, for the report.
    reason: Annotated[Text, OPTIONAL]


class Attention(AnyAttention, name="attention", traits=[ext.Pure]):
    """softmax(q @ k.T * scale + mask) @ v.

    q is [B, H, L, D], k [B, Hkv, S, D] and v [B, Hkv, S, Dv], where Hkv divides H; an additive or boolean
    mask broadcasts to [B, H, L, S]. `causal` is 1 if row i sees only columns ≤ i. Results: the output
    [B, H, L, Dv] and the logsumexp of each row in f32, [B, H, L] in the shape that the route determines.
    """

    q: Operand
    k: Operand
    v: Operand
    mask: Operand | None
    scale: Float
    causal: Flag
    output: Result
    logsumexp: Result


class AttentionBackward(AnyAttention, name="attention_backward", traits=[ext.Pure]):
    """The gradients of q, k and v from the output's gradient and the forward op's operands and results."""

    grad: Operand
    q: Operand
    k: Operand
    v: Operand
    output: Operand
    logsumexp: Operand
    mask: Operand | None
    scale: Float
    causal: Flag
    dq: Result
    dk: Result
    dv: Result


class DropoutAttention(AnyAttention, name="dropout_attention"):
    """Attention that drops each of its weights with probability `p` and scales the others by 1 / (1 - p).

    Besides attention's results it has a seed and an offset, from which the backward op draws the same numbers: ui64
    [2] and [] on the route "flash", i64 [] and [] on the others. Not pure: it advances the generator.
    """

    q: Operand
    k: Operand
    v: Operand
    mask: Operand | None
    scale: Float
    causal: Flag
    p: Float
    output: Result
    logsumexp: Result
    seed: Result
    offset: Result


class DropoutAttentionBackward(AnyAttention, name="dropout_attention_backward", traits=[ext.Pure]):
    """The gradients of q, k and v; drops the same weights as the forward op."""

    grad: Operand
    q: Operand
    k: Operand
    v: Operand
    output: Operand
    logsumexp: Operand
    seed: Operand
    offset: Operand
    mask: Operand | None
    scale: Float
    causal: Flag
    p: Float
    dq: Result
    dk: Result
    dv: Result


def route_of(op: ir.Operation) -> str | None:
    """The route that an op was traced for, or None."""
    return AnyAttention.route.find(op)


def _causal_and_scale(op: ir.Operation) -> tuple[bool, float]:
    return Attention.causal.of(op), Attention.scale.of(op)


@reference(Attention)
def _attention(op: ir.Operation, xs: Tensors) -> Any:
    mask = xs[3] if len(xs) == 4 else None
    causal, scale = _causal_and_scale(op)
    route = route_of(op) or "cpu"
    if route == "cpu":
        return aten._scaled_dot_product_flash_attention_for_cpu(*xs[:3], 0.0, causal, attn_mask=mask, scale=scale)
    weights, lse = _weights(xs[0], xs[1], mask, causal, scale)
    return _narrow(weights @ _heads_of(xs[2], xs[0]), xs[0]), _as_route(lse, route)


@reference(AttentionBackward)
def _attention_backward(op: ir.Operation, xs: Tensors) -> Any:
    mask = xs[6] if len(xs) == 7 else None
    causal, scale = _causal_and_scale(op)
    if (route_of(op) or "cpu") == "cpu":
        backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
        return backward(*xs[:6], 0.0, causal, attn_mask=mask, scale=scale)
    grad, q, k, v = xs[:4]
    weights, _ = _weights(q, k, mask, causal, scale)
    return _gradients(grad, q, k, v, weights, torch.ones_like(weights), scale)


@reference(DropoutAttention)
def _dropout_attention(op: ir.Operation, xs: Tensors) -> Any:
    mask = xs[3] if len(xs) == 4 else None
    causal, scale = _causal_and_scale(op)
    route, p = route_of(op) or "cpu", DropoutAttention.p.of(op)
    seed, offset = torch.randint(1 << 31, ()), torch.zeros((), dtype=torch.int64)
    if route == "flash":
        seed, offset = torch.stack([seed, offset]).to(torch.uint64), offset.to(torch.uint64)
    weights, lse = _weights(xs[0], xs[1], mask, causal, scale)
    output = (weights * _kept(weights, seed, p)) @ _heads_of(xs[2], xs[0])
    return _narrow(output, xs[0]), _as_route(lse, route), seed, offset


@reference(DropoutAttentionBackward)
def _dropout_attention_backward(op: ir.Operation, xs: Tensors) -> Any:
    mask = xs[8] if len(xs) == 9 else None
    causal, scale = _causal_and_scale(op)
    grad, q, k, v = xs[:4]
    weights, _ = _weights(q, k, mask, causal, scale)
    return _gradients(grad, q, k, v, weights, _kept(weights, xs[6], DropoutAttentionBackward.p.of(op)), scale)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _narrow(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return x.to(like.dtype)


def _heads_of(x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """k or v with as many heads as q."""
    return _wide(x).repeat_interleave(q.shape[1] // x.shape[1], 1)


def _weights(
    q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None, causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The softmax [B, H, L, S], 0 in rows that see no column, and its logsumexp [B, H, L]."""
    scores = _wide(q) @ _heads_of(k, q).mT * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    return aten._safe_softmax(scores, -1), torch.logsumexp(scores, -1)


def _as_route(lse: torch.Tensor, route: str) -> torch.Tensor:
    """The logsumexp in its route's shape and type, padded with 0."""
    sizes = [at(n, {}) for n in logsumexp_shape(route, [*lse.shape])]
    return torch.nn.functional.pad(lse.float(), (0, sizes[2] - lse.shape[2])).reshape(sizes)


def _kept(weights: torch.Tensor, seed: torch.Tensor, p: float) -> torch.Tensor:
    """1 / (1 - p) for kept weights, 0 for dropped ones; the same for the same seed."""
    numbers = torch.Generator().manual_seed(int(seed.flatten()[0].item()))
    return torch.bernoulli(torch.full_like(weights, 1 - p), generator=numbers) / (1 - p)


def _gradients(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    weights: torch.Tensor,
    kept: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, ...]:
    """The gradients of q, k and v. The gradients of q's heads that share a head of k and v are summed."""

    def by_group(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return _narrow(x.unflatten(1, (like.shape[1], -1)).sum(2), like)

    dweights = _wide(grad) @ _heads_of(v, q).mT * kept
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True)) * scale
    dq = dscores @ _heads_of(k, q)
    return (
        _narrow(dq, q),
        by_group(dscores.mT @ _wide(q), k),
        by_group((weights * kept).mT @ _wide(grad), v),
    )


def _problem(op: ir.Operation, first: int) -> str | None:
    """What is wrong with q, k and v, which are the operands from `first` on, or with the route."""
    q, k, v = (types.shape_of(x) for x in list(op.operands)[first : first + 3])
    if any(len(x) != 4 for x in (q, k, v)) or q[-1] != k[-1] or k[1:3] != v[1:3] or q[1] % k[1]:
        return (
            f"q {list(q)}, k {list(k)} and v {list(v)} do not fit: want [B, H, L, D], [B, Hkv, S, D] and "
            "[B, Hkv, S, Dv], where Hkv divides H"
        )
    route = route_of(op)
    if route is not None and route not in ROUTES:
        return f'route "{route}" is not one of {", ".join(ROUTES)}'
    p = DropoutAttention.p.find(op)
    if p is not None and not 0 <= p < 1:
        return f"p is {p}; want 0 ≤ p < 1"
    return None


@verifier(Attention)
def _verify(op: ir.Operation) -> str | None:
    return _problem(op, 0)


@verifier(AttentionBackward)
def _verify_backward(op: ir.Operation) -> str | None:
    return _problem(op, 1)


@verifier(DropoutAttention)
def _verify_dropout(op: ir.Operation) -> str | None:
    return _problem(op, 0)


@verifier(DropoutAttentionBackward)
def _verify_dropout_backward(op: ir.Operation) -> str | None:
    return _problem(op, 1)
