"""Rewrites attention ops as calls of ATen's kernels; a part of call-libraries.

    %1:2 = cuesta.attention(%q, %k, %v) {route = "flash", …}
      →   %1:2 = aten.call(%q, %k, %v) {overload = "aten._scaled_dot_product_flash_attention.default", …}

What the kernels return; "seen" is [B, L, H, D] in memory, viewed as [B, H, L, D]:

| route | output | logsumexp | seed, offset | gradients |
|---|---|---|---|---|
| cudnn | like q | [B, H, L, 1] | i64 [], i64 [] | like q, k, v |
| flash | like q | [B, H, L] | ui64 [2], ui64 [] | like q, k, v |
| efficient | seen | [B, H, L rounded up to 32] | i64 [], i64 [], on the CPU | seen |
| cpu | like q | [B, L, H] seen as [B, H, L] | none | seen |

An op that was not traced for a route (one that recognise-attention made) gets its route here, and its
logsumexp [B, H, L] is made from what the kernel returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cuesta._mlir import ir
from cuesta.dialects.aten import Call
from cuesta.dialects.cuesta.attention import (
    AnyAttention,
    Attention,
    AttentionBackward,
    DropoutAttention,
    DropoutAttentionBackward,
    route_of,
)
from cuesta.dialects.cuesta.traced_strides import OPERAND_STRIDES, RESULT_STRIDES
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import row_major, shape_of, spelling_of
from cuesta.errors import Unsupported
from cuesta.passes.infra.graph_rewrite import Rule
from cuesta.policy.attention_routes import (
    CUDNN_NO_DROPOUT,
    EFFICIENT_ROWS,
    AttentionCall,
    choose_route,
    logsumexp_shape,
)
from cuesta.sizes import Number, hint
from cuesta.targets import Target

_B = GraphBuilder()


@dataclass(frozen=True)
class LibraryAttention:
    """The rewrite rules for a target."""

    target: Target

    def rules(self) -> dict[str, Rule]:
        """Op name → rule."""
        return {
            Attention.OPERATION_NAME: self.forward,
            AttentionBackward.OPERATION_NAME: self.backward,
            DropoutAttention.OPERATION_NAME: self.dropout_forward,
            DropoutAttentionBackward.OPERATION_NAME: self.dropout_backward,
        }

    def forward(self, op: ir.Operation) -> Sequence[ir.Value] | None:
        if AnyAttention.tile.is_on(op):
            return None  # a kernel of ours
        q, k, v, *mask = op.operands
        route = self.route(op, q, k, v, bool(mask))
        wanted = logsumexp_shape(route, shape_of(q))
        call = _Forward(op, route, q, k, v, mask[0] if mask else None)
        output, logsumexp = call.emit([shape_of(op.results[0]), wanted])
        return [output, _unpadded(logsumexp, shape_of(op.results[1]))]

    def backward(self, op: ir.Operation) -> Sequence[ir.Value] | None:
        if AnyAttention.tile.is_on(op):
            return None
        grad, q, k, v, output, logsumexp, *mask = op.operands
        route = self.route(op, q, k, v, bool(mask))
        logsumexp = _padded(logsumexp, logsumexp_shape(route, shape_of(q)))
        return _backward(op, route, [grad, q, k, v, output, logsumexp], mask[0] if mask else None, [])

    def dropout_forward(self, op: ir.Operation) -> Sequence[ir.Value]:
        q, k, v, *mask = op.operands
        p = DropoutAttention.p.of(op)
        route = self.route(op, q, k, v, bool(mask), p)
        call = _Forward(op, route, q, k, v, mask[0] if mask else None, p)
        return call.emit([shape_of(r) for r in op.results])

    def dropout_backward(self, op: ir.Operation) -> Sequence[ir.Value]:
        grad, q, k, v, output, logsumexp, seed, offset, *mask = op.operands
        p = DropoutAttentionBackward.p.of(op)
        route = self.route(op, q, k, v, bool(mask), p)
        saved = [grad, q, k, v, output, logsumexp]
        return _backward(op, route, saved, mask[0] if mask else None, [seed, offset], p)

    def route(self, op: ir.Operation, q: ir.Value, k: ir.Value, v: ir.Value, masked: bool, p: float = 0.0) -> str:
        """The op's own route, or the one chosen for its operands. Raises Unsupported where no kernel takes them."""
        known = route_of(op) or ("cpu" if self.target.device_type == "cpu" else None)
        if known is not None:
            return known
        shapes = (shape_of(q), shape_of(k), shape_of(v))
        causal = Attention.causal.of(op)
        chosen = choose_route(AttentionCall(spelling_of(q), *shapes, masked, causal, p), self.target)
        if chosen is None:
            raise Unsupported(f"no kernel for attention of {[*map(list, shapes)]} {spelling_of(q)} on {self.target}")
        return chosen


@dataclass(frozen=True)
class _Forward:
    op: ir.Operation
    route: str
    q: ir.Value
    k: ir.Value
    v: ir.Value
    mask: ir.Value | None
    p: float = 0.0

    def emit(self, shapes: Sequence[Sequence[Number]]) -> list[ir.Value]:
        """The call, with results of these shapes."""
        q, k, v, mask, p = self.q, self.k, self.v, self.mask, self.p
        causal, scale = Attention.causal.of(self.op), {"scale": Attention.scale.of(self.op)}
        if p and self.route == "efficient":
            # This kernel takes and returns its seeds on the CPU, which the custom op handles.
            args = [q, k, v, mask, causal, scale["scale"], p, self.route, 0]
            return self.call("cuesta.dropout_attention.default", args, {}, shapes, None)
        match self.route:
            case "cudnn":
                args, positions = [q, k, v, mask, self.wants_logsumexp, p, causal, False], [0, 1, 6, 7]
            case "flash":
                args, positions = [q, k, v, p, causal, False], [0, 1, 6, 7]
            case "efficient":
                # Asked for no logsumexp, the kernel returns one of no rows, which does not fit the op's result.
                args, positions = [q, k, v, mask, True, p, causal], [0, 1, 2, 3]
            case _:
                name = "aten._scaled_dot_product_flash_attention_for_cpu.default"
                return self.call(name, [q, k, v, p, causal], {"attn_mask": mask, **scale}, shapes, None)
        name = f"aten._scaled_dot_product_{self.route}_attention.default"
        return self.call(name, args, scale, shapes, positions[: len(shapes)])

    @property
    def wants_logsumexp(self) -> bool:
        """Whether anything reads the logsumexp; only a backward op does."""
        return next(iter(self.op.results[1].uses), None) is not None

    def call(
        self,
        name: str,
        args: list[Any],
        kwargs: dict[str, Any],
        shapes: Sequence[Sequence[Number]],
        at: list[int] | None,
    ) -> list[ir.Value]:
        spellings = [spelling_of(r) for r in self.op.results]
        strides = _traced_strides(self.op, self.route)
        if strides is None:
            seen = self.route == "efficient"
            output = _heads_inside(shapes[0]) if seen else _ordered_as(_operand_strides(self.op)[0], shapes[0])
            strides = [output, *map(row_major, shapes[1:])]
        results = list(zip(shapes, spellings, strides, strict=True))
        values = _call(self.op, name, args, kwargs, results, _strides_by_operand(self.op))
        if at is not None:
            Call.positions.put(values[0].owner, at)
        return values


def _backward(
    op: ir.Operation,
    route: str,
    saved: list[ir.Value],
    mask: ir.Value | None,
    seeds: list[ir.Value],
    p: float = 0.0,
) -> list[ir.Value]:
    grad, q, k, _, output, _ = saved
    causal = Attention.causal.of(op)
    scale: dict[str, Any] = {"scale": Attention.scale.of(op)}
    lengths = [shape_of(q)[2], shape_of(k)[2]]
    # Without dropout the kernels read no seeds.
    given: list[Any] = seeds or [None, None]
    name = f"aten._scaled_dot_product_{route}_attention_backward.default"
    args: list[Any]
    match route:
        case "cudnn":
            args = [*saved, *given, mask, None, None, *lengths, p or CUDNN_NO_DROPOUT, causal]
        case "flash":
            args = [*saved, None, None, *lengths, p, causal, *given]
        case "efficient" if p:
            name, scale = "cuesta.dropout_attention_backward.default", {}
            args = [*saved, *given, mask, causal, Attention.scale.of(op), p, route]
        case "efficient":
            args = [*saved[:4], mask, *saved[4:], *given, p, [True, True, True, False], causal]
        case _:
            name, args = "aten._scaled_dot_product_flash_attention_for_cpu_backward.default", [*saved, p, causal]
            scale["attn_mask"] = mask
    sizes = [shape_of(r) for r in op.results]
    strides = _traced_strides(op, route)
    if strides is None:
        seen = route in ("efficient", "cpu")
        inputs = zip(_operand_strides(op)[1:4], sizes, strict=True)
        strides = [_heads_inside(s) if seen else _ordered_as(t, s) for t, s in inputs]
    results = [(s, spelling_of(r), t) for s, r, t in zip(sizes, op.results, strides, strict=True)]
    traced = _strides_by_operand(op)
    if route == "cudnn":
        traced[grad] = traced[output]  # see CUDNN_NO_DROPOUT
    values = _call(op, name, args, scale, results, traced)
    Call.positions.put(values[0].owner, [0, 1, 2])
    return values


def _call(
    op: ir.Operation,
    name: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    results: Sequence[tuple[Sequence[Number], str, Sequence[Number]]],
    traced: Mapping[ir.Value, Sequence[Number]],
) -> list[ir.Value]:
    """Calls a kernel, which orders its arguments differently. It wants dense rows, and aligned ones in a mask.

    `traced` are the strides in which the op's operands are passed.
    """
    operands = [x for x in (*args, *kwargs.values()) if isinstance(x, ir.Value)]
    strides = [traced[x] if x in traced else row_major(shape_of(x)) for x in operands]
    values = _B.aten(name, args, kwargs, results, _reason(op), strides)
    Call.rows_aligned.mark(values[0].owner)
    return values


def _reason(op: ir.Operation) -> str:
    """The reason for the call, which the report shows."""
    return AnyAttention.reason.find(op) or "attention runs in the library"


def _strides_by_operand(op: ir.Operation) -> dict[ir.Value, list[Number]]:
    return dict(zip(op.operands, _operand_strides(op), strict=True))


def _operand_strides(op: ir.Operation) -> list[list[Number]]:
    """The strides that the op was traced with, or row-major ones without a trace: kernels want the last dim dense."""
    return OPERAND_STRIDES.find(op) or [row_major(shape_of(x)) for x in op.operands]


def _traced_strides(op: ir.Operation, route: str) -> list[list[Number]] | None:
    """The results' strides if the op was traced for this route, else None."""
    return RESULT_STRIDES.find(op) if (route_of(op) or "cpu") == route else None


def _ordered_as(strides: Sequence[Number], sizes: Sequence[Number]) -> list[Number]:
    """Dense strides for `sizes` in the memory order of `strides`."""
    made: list[Number] = [1] * len(sizes)
    step: Number = 1
    for d in sorted(range(len(sizes)), key=lambda d: (hint(strides[d]), -d)):
        made[d] = step
        step *= sizes[d]
    return made


def _heads_inside(sizes: Sequence[Number]) -> list[Number]:
    """The strides of a row-major [B, L, H, D] viewed as [B, H, L, D], the shape `sizes`."""
    _, heads, length, depth = sizes
    return [heads * length * depth, depth, heads * depth, 1]


def _unpadded(logsumexp: ir.Value, shape: Sequence[Number]) -> ir.Value:
    """A kernel's logsumexp in the shape of the op's result."""
    if list(shape_of(logsumexp)) == list(shape):
        return logsumexp
    if len(shape_of(logsumexp)) == 3:
        logsumexp = _B.slice(logsumexp, 2, 0, shape[2])
    return _B.reshape(logsumexp, shape)


def _padded(logsumexp: ir.Value, shape: Sequence[Number]) -> ir.Value:
    """An op's logsumexp in the shape that the kernel returned; the kernel does not read the padding."""
    if list(shape_of(logsumexp)) == list(shape):
        return logsumexp
    if len(shape) == 3:
        return _B.pad(logsumexp, 2, 0, -shape_of(logsumexp)[2] % EFFICIENT_ROWS)
    return _B.reshape(logsumexp, shape)
