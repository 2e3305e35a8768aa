"""ATen's views and data movements as the dialect's reshape, permute, expand, slice, cat and flip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.cuesta import shape
from cuesta.dialects.cuesta.dialect import int_array
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.frontend.rules import Decline, imports

Value: TypeAlias = ir.Value


def _size(node: torch.fx.Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


@imports("view.default", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "_reshape_copy", "view_copy.default")
def reshape(b: GraphBuilder, node: torch.fx.Node, x: Value, *_: Any) -> Value:
    return b.reshape(x, _size(node))


@imports("t", "transpose", "permute", "t_copy", "transpose_copy", "permute_copy", "movedim")
def permute(b: GraphBuilder, node: torch.fx.Node, x: Value, *args: Any) -> Value:
    rank = len(shape_of(x))
    dims = list(range(rank))
    name = str(node.target).split(".")[1].removesuffix("_copy")
    if name == "movedim":
        raise Decline("movedim reaches the backend taken apart")
    if name == "permute":
        dims = [d % rank for d in args[0]] if rank else []
    elif rank > 1:
        i, j = (0, 1) if name == "t" else (args[0] % rank, args[1] % rank)
        dims[i], dims[j] = dims[j], dims[i]
    return b.permute(x, dims)


@imports("expand", "expand_copy")
def expand(b: GraphBuilder, node: torch.fx.Node, x: Value, *_: Any, **__: Any) -> Value:
    return b.expand(x, _size(node))


@imports("slice.Tensor", "narrow", "slice_copy")
def slice_(b: GraphBuilder, node: torch.fx.Node, x: Value, dim: int = 0, start: int | None = None, *rest: Any) -> Value:
    dim %= len(shape_of(x))
    size = shape_of(x)[dim]
    first = min(max((start or 0) + (size if (start or 0) < 0 else 0), 0), size)
    is_slice = str(node.target).startswith("aten.slice")
    step = rest[1] if is_slice and len(rest) > 1 else 1
    return b.slice(x, dim, first, _size(node)[dim], step)


@imports("select.int", "select_copy")
def select(b: GraphBuilder, node: torch.fx.Node, x: Value, dim: int, index: int) -> Value:
    dim %= len(shape_of(x))
    if not isinstance(index, int):
        raise Decline("a position that is not known when compiling")
    return b.reshape(b.slice(x, dim, index % shape_of(x)[dim], 1), _size(node))


def _parts(b: GraphBuilder, x: Value, sizes: Sequence[int], dim: int) -> list[Value]:
    parts, start = [], 0
    for size in sizes:
        parts.append(b.slice(x, dim, start, size))
        start += size
    return parts


@imports("split.Tensor", "split_with_sizes", "unsafe_split.Tensor", "unbind", "split_with_sizes_copy")
def split(b: GraphBuilder, node: torch.fx.Node, x: Value, *args: Any, **kwargs: Any) -> list[Value]:
    results = node.meta["val"]
    if str(node.target).split(".")[1] == "unbind":
        dim = (args[0] if args else kwargs.get("dim", 0)) % len(shape_of(x))
        pieces = _parts(b, x, [1] * shape_of(x)[dim], dim)
    else:
        dim = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % len(shape_of(x))
        pieces = _parts(b, x, [r.shape[dim] for r in results], dim)
    return [b.reshape(p, tuple(r.shape)) for p, r in zip(pieces, results, strict=True)]


@imports("cat")
def cat(b: GraphBuilder, node: torch.fx.Node, xs: Sequence[Value], dim: int = 0) -> Value:
    result = node.meta["val"]
    spelling = types.SPELLING[result.dtype]
    # torch lets an empty 1-d tensor stand among operands of any rank.
    parts = [b.convert(x, spelling) for x in xs if len(shape_of(x)) == result.dim() and shape_of(x) != (0,)]
    if not parts or 0 in shape_of(parts[0]):
        raise Decline("a concatenation of empty tensors")
    return b.cat([p for p in parts if 0 not in shape_of(p)], dim % result.dim())


@imports("stack")
def stack(b: GraphBuilder, node: torch.fx.Node, xs: Sequence[Value], dim: int = 0) -> Value:
    dim %= len(shape_of(xs[0])) + 1
    xs = [b.convert(x, types.SPELLING[node.meta["val"].dtype]) for x in xs]
    return b.cat([b.reshape(x, (*shape_of(x)[:dim], 1, *shape_of(x)[dim:])) for x in xs], dim)


@imports("flip")
def flip(b: GraphBuilder, node: torch.fx.Node, x: Value, dims: Sequence[int]) -> Value:
    rank = len(shape_of(x))
    if not rank or not dims:
        return x
    return shape.Flip(x, int_array(sorted({d % rank for d in dims})), x.type).result


@imports("repeat")
def repeat(b: GraphBuilder, node: torch.fx.Node, x: Value, repeats: Sequence[int]) -> Value:
    sizes = (1,) * (len(repeats) - len(shape_of(x))) + shape_of(x)
    apart = [n for size in sizes for n in (1, size)]
    wide = [n for count, size in zip(repeats, sizes, strict=True) for n in (count, size)]
    return b.reshape(b.expand(b.reshape(x, apart), wide), _size(node))


@imports("constant_pad_nd")
def constant_pad(b: GraphBuilder, node: torch.fx.Node, x: Value, pad: Sequence[int], value: float = 0) -> Value:
    rank = len(shape_of(x))
    for i in range(len(pad) // 2):
        x = b.pad(x, rank - 1 - i, pad[2 * i], pad[2 * i + 1], value)
    return x


@imports("slice_backward")
def slice_backward(
    b: GraphBuilder, node: torch.fx.Node, grad: Value, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Value:
    if step != 1:
        raise Decline("the gradient of a slice with a step")
    dim %= len(sizes)
    size = sizes[dim]
    first = min(max(start + (size if start < 0 else 0), 0), size)
    return b.pad(grad, dim, first, size - first - shape_of(grad)[dim])


@imports("select_backward")
def select_backward(
    b: GraphBuilder, node: torch.fx.Node, grad: Value, sizes: Sequence[int], dim: int, index: int
) -> Value:
    dim %= len(sizes)
    kept = b.reshape(grad, [1 if d == dim else s for d, s in enumerate(sizes)])
    return b.pad(kept, dim, index % sizes[dim], sizes[dim] - 1 - index % sizes[dim])


@imports("clone", "contiguous")
def clone(b: GraphBuilder, node: torch.fx.Node, x: Value, **_: Any) -> Value:
    # The bytes move only if the copy has other strides than its source: lowering decides.
    strides = [int(s) for s in node.meta["val"].stride()]
    if not strides:
        return x
    return shape.Copy(x, int_array(strides), types.tensor(shape_of(x), spelling_of(x))).result


@imports("as_strided")
def as_strided(
    b: GraphBuilder,
    node: torch.fx.Node,
    x: Value,
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int | None = None,
) -> Value:
    """The same places named otherwise, as ATen's mean over the pixels of a channels_last image ends."""
    source = node.args[0].meta["val"]  # type: ignore[union-attr]
    moves = any(n != 1 and a != s for n, a, s in zip(sizes, strides, source.stride(), strict=False))
    if tuple(sizes) != shape_of(x) or moves or offset not in (None, source.storage_offset()):
        raise Decline("strides that name other places of a tensor's memory")
    return x


@imports("detach", "alias", "lift_fresh_copy", "lift_fresh", "view_as", "alias_copy", "detach_copy")
def same(b: GraphBuilder, node: torch.fx.Node, x: Value, *_: Any) -> Value:
    return x
