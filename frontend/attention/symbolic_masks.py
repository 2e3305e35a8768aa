"""Classifies attention masks over symbolic sizes, by evaluating a graph's nodes as formulas of the position.

    arange(s0)[:, None] >= arange(s0)        →   {i - j >= 0}, which is causal
    (arange(s0) < s0) & …                    →   s0 - 1 - j >= 0, true at every position: it hides nothing

An integer tensor is a `Sum`: a multiple of the position along each dim, plus a number. A boolean tensor is an `All`: a
set of sums, true where all of them are at least 0. Any other value is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.fx import Node
from torch.fx.node import map_aggregate

from cuesta.errors import CompileError
from cuesta.frontend.constant_nodes import NotConstant, meta_of, steps_of
from cuesta.sizes import Number, Size, number


@dataclass(frozen=True)
class Sum:
    """An integer tensor: the sum of `factors[d]` times the position along dim d, plus `rest`."""

    factors: tuple[Number, ...]
    rest: Number


@dataclass(frozen=True)
class All:
    """A boolean tensor of `rank` dims: true where all `sums` are at least 0."""

    sums: frozenset[Sum]
    rank: int


Value: TypeAlias = "Sum | All"
_INTEGERS = (torch.int64, torch.int32)


def classify(node: Node, user: Node, length: Any, keys: Any) -> str | None:
    """The kind of a boolean mask over [.., `length`, `keys`] for all values of these: "all", "causal", else None."""
    try:
        steps = steps_of(node, user)
        values: dict[Node, Any] = {}
        for step in steps:
            values[step] = _evaluate(step, values)
        shape = _shape(node)
        sizes = [number(length), number(keys)]
    except (NotConstant, CompileError):
        return None
    mask = values[node]
    if not isinstance(mask, All) or len(shape) < 2:
        return None
    open_sums = {s for s in mask.sums if not _is_positive(s, shape)}
    if not open_sums:
        return "all"
    lower = Sum((*[0] * (len(shape) - 2), 1, -1), 0)
    return "causal" if open_sums == {lower} and list(shape[-2:]) == sizes and sizes[0] == sizes[1] else None


def _is_positive(value: Sum, shape: Sequence[Number]) -> bool:
    """Whether `value` is known to be at least 0 at every position in a tensor of this shape that has elements."""
    least = value.rest
    for factor, size in zip(value.factors, shape, strict=True):
        if not isinstance(factor, int):
            return False
        least += factor * (size - 1) if factor < 0 else 0
    if not isinstance(least, Size):
        return least >= 0
    # All sizes are at least 1: if all terms but the number have positive factors, the value where all sizes are 1 is
    # the least.
    own = {str(n) for n in shape if isinstance(n, Size) and n.is_symbol}
    grows = all(factor > 0 and own.issuperset(term) for term, factor in least.terms if term)
    return grows and sum(factor for _, factor in least.terms) >= 0


def _shape(node: Any) -> tuple[Number, ...]:
    meta = meta_of(node)
    if not isinstance(meta, torch.Tensor):
        raise NotConstant(f"{node} is no tensor")
    return tuple(number(n) for n in meta.shape)


def _evaluate(node: Any, values: Mapping[Node, Any]) -> Any:
    if node.op == "placeholder":
        meta = meta_of(node)
        if not isinstance(meta, (int, torch.SymInt)):
            raise NotConstant(f"it depends on {node.name}")
        return number(meta)
    name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
    rule = _RULES.get(name)
    module = getattr(node.target, "__module__", None) or "torch"
    if rule is None or node.op not in ("call_function", "call_method") or module not in _MODULES:
        raise NotConstant(f"nothing is known of {name}")

    def value(argument: Any) -> Any:
        return values.get(argument, argument) if isinstance(argument, Node) else argument

    try:
        found = rule(node, *map_aggregate(node.args, value), **map_aggregate(node.kwargs, value))
    except Exception as problem:  # a call in a form that the rule does not know
        raise NotConstant(f"{name} failed: {problem}") from problem
    if found is None:
        raise NotConstant(f"nothing is known of this {name}")
    if not isinstance(found, (Sum, All)):
        return found
    # Along a dim of size 1 the only position is 0.
    shape = _shape(node)
    return _moved(found, lambda factors: [0 if n == 1 else f for f, n in zip(factors, shape, strict=True)])


_MODULES = ("torch", "_operator", "torch._C")


def _arange(node: Any, *args: Any, dtype: Any = None, device: Any = None) -> Value | None:
    ends = [number(a) if isinstance(a, (int, torch.SymInt)) else a for a in args]
    if not ends or not all(isinstance(e, (int, Size)) for e in ends) or dtype not in (None, *_INTEGERS):
        return None
    return Sum((ends[2] if len(ends) == 3 else 1,), ends[0] if len(ends) > 1 else 0)


def _constant(truth: bool) -> Callable[..., Value | None]:
    def rule(node: Any, *_: Any, **__: Any) -> Value | None:
        meta = node.meta["example_value"]
        rank = len(_shape(node))
        if meta.dtype == torch.bool:
            return _truth(truth, rank)
        return Sum((0,) * rank, int(truth)) if meta.dtype in _INTEGERS else None

    return rule


def _truth(truth: bool, rank: int) -> All:
    return All(frozenset() if truth else frozenset({Sum((0,) * rank, -1)}), rank)


def _linear(sign: int) -> Callable[..., Value | None]:
    def rule(node: Any, x: Any, y: Any, **keywords: Any) -> Any:
        if isinstance(x, (int, Size)) and isinstance(y, (int, Size)):
            return x + sign * y
        return None if keywords else _plus(*_operands(node, x, y), sign)

    return rule


def _plus(a: Sum, b: Sum, sign: int = 1) -> Sum:
    return Sum(tuple(p + sign * q for p, q in zip(a.factors, b.factors, strict=True)), a.rest + sign * b.rest)


def _operands(node: Any, x: Any, y: Any) -> tuple[Sum, Sum]:
    """The operands of a pointwise call, broadcast to the dims of its result. Raises NotConstant if they are no sums."""
    return _spread(x, node.args[0], _shape(node)), _spread(y, node.args[1], _shape(node))


def _spread(value: Any, given: Any, shape: Sequence[Number]) -> Sum:
    """A number, or the value of the node `given`, broadcast to the dims of `shape`."""
    if isinstance(value, (int, Size)) and not isinstance(value, bool):
        return Sum((0,) * len(shape), value)
    if not isinstance(value, Sum):
        raise NotConstant(f"{given} is no sum")
    return _wider(value, _shape(given), shape)


def _wider(value: Sum, own: Sequence[Number], shape: Sequence[Number]) -> Sum:
    missing = len(shape) - len(own)
    if any(a not in (1, b) for a, b in zip(own, shape[missing:], strict=True)):
        raise NotConstant("sizes are not known to broadcast")
    return Sum((*[0] * missing, *value.factors), value.rest)


def _comparison(*signs: tuple[int, int]) -> Callable[..., Value | None]:
    """A rule for: sign * (x - y) + more >= 0, for each pair (sign, more)."""

    def rule(node: Any, x: Any, y: Any) -> Value | None:
        apart = _plus(*_operands(node, x, y), -1)
        sums = {Sum(tuple(sign * f for f in apart.factors), sign * apart.rest + more) for sign, more in signs}
        return All(frozenset(sums), len(apart.factors))

    return rule


def _differs(node: Any, x: Any, y: Any) -> Value | None:
    """x != y, known where x - y is a constant."""
    apart = _plus(*_operands(node, x, y), -1)
    if any(f != 0 for f in apart.factors) or not isinstance(apart.rest, int):
        return None
    return _truth(bool(apart.rest), len(apart.factors))


def _both(node: Any, x: Any, y: Any) -> Value | None:
    if not isinstance(x, All) or not isinstance(y, All):
        return None
    shape = _shape(node)
    sums = (_wider(s, _shape(given), shape) for v, given in zip((x, y), node.args, strict=True) for s in v.sums)
    return All(frozenset(sums), len(shape))


def _moved(value: Any, factors: Callable[[tuple[Number, ...]], Sequence[Number]]) -> Value | None:
    """A value with the factors of its sums rearranged by `factors`."""
    if isinstance(value, Sum):
        return Sum(tuple(factors(value.factors)), value.rest)
    if isinstance(value, All):
        sums = frozenset(Sum(tuple(factors(s.factors)), s.rest) for s in value.sums)
        return All(sums, len(factors((0,) * value.rank)))
    return None


def _expand(node: Any, x: Any, *_: Any) -> Value | None:
    """Along a broadcast dim the value does not change: the factor is 0. A source dim of size 1 has only position 0."""
    source, rank = _shape(node.args[0]), len(_shape(node))

    def wider(factors: tuple[Number, ...]) -> list[Number]:
        kept = [0 if size == 1 else f for f, size in zip(factors, source, strict=True)]
        return [*[0] * (rank - len(kept)), *kept]

    return _moved(x, wider)


def _unsqueeze(node: Any, x: Any, dim: int) -> Value | None:
    at = dim % len(_shape(node))
    return _moved(x, lambda factors: [*factors[:at], 0, *factors[at:]])


def _to(node: Any, x: Any, *args: Any, **kwargs: Any) -> Value | None:
    """A move to a device, or a conversion to the type that x has already."""
    before, after = (n.meta["example_value"].dtype for n in (node.args[0], node))
    return x if before == after and isinstance(x, (Sum, All)) else None


def _item(node: Any, x: Any, index: Any) -> Value | None:
    if isinstance(x, tuple):
        return x[index]
    places = index if isinstance(index, tuple) else (index,)
    if places and all(isinstance(p, Sum) for p in places):
        given = node.args[1] if isinstance(index, tuple) else (node.args[1],)
        return _gathered(node, x, [_spread(p, n, _shape(node)) for p, n in zip(places, given, strict=True)])
    source = _shape(node.args[0])
    if Ellipsis in places:
        at = places.index(Ellipsis)
        rest = len(source) - sum(p is not None and p is not Ellipsis for p in places)
        places = (*places[:at], *[slice(None)] * rest, *places[at + 1 :])
    starts: list[Number] = []
    kept: list[int | None] = []
    for place in places:
        if place is None:
            kept.append(None)
        elif isinstance(place, slice) and place.step in (None, 1) and (place.start is None or _is_plain(place.start)):
            kept.append(len(starts))
            starts.append(place.start or 0)
        else:
            return None
    kept += range(len(starts), len(source))
    starts += [0] * (len(source) - len(starts))
    if isinstance(x, All) and any(starts):
        return None
    moved = _moved(x, lambda factors: [0 if d is None else factors[d] for d in kept])
    if not isinstance(moved, Sum) or not isinstance(x, Sum):
        return moved
    return Sum(moved.factors, moved.rest + sum(f * s for f, s in zip(x.factors, starts, strict=True)))


def _is_plain(n: Any) -> bool:
    return isinstance(n, int) and n >= 0


def _gathered(node: Any, x: Any, places: Sequence[Sum]) -> Value | None:
    """x[i, j, …] with an index tensor for each dim, if all indices are known to be in range and not negative."""
    shape, source = _shape(node), _shape(node.args[0])
    if not isinstance(x, Sum) or len(places) != len(source):
        return None
    total = Sum((0,) * len(shape), x.rest)
    for factor, place, size in zip(x.factors, places, source, strict=True):
        if not _is_positive(place, shape):
            return None
        below = Sum(tuple(-f for f in place.factors), size - 1 - place.rest)
        if not _is_positive(below, shape):
            return None
        total = _plus(total, Sum(tuple(factor * f for f in place.factors), factor * place.rest))
    return total


def _diff(node: Any, x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """torch.diff of a sum is its factor along `dim`, if `prepend` is one step below the first element."""
    if not isinstance(x, Sum) or n != 1 or append is not None:
        return None
    rank = len(x.factors)
    at = dim % rank
    step = Sum((0,) * rank, x.factors[at])
    if prepend is not None:
        if not isinstance(prepend, Sum) or _shape(node.kwargs["prepend"])[at] != 1:
            return None
        first = Sum((*x.factors[:at], 0, *x.factors[at + 1 :]), x.rest)
        if _plus(first, prepend, -1) != step:
            return None
    return step


def _cumsum(node: Any, x: Any, dim: int, **_: Any) -> Value | None:
    """The cumulative sum of zeros, or of a boolean tensor that is false everywhere."""
    never = isinstance(x, All) and any(s.rest == -1 and not any(s.factors) for s in x.sums)
    rank = len(_shape(node))
    return Sum((0,) * rank, 0) if never or x == Sum((0,) * rank, 0) else None


def _tril(node: Any, x: Any, diagonal: int = 0) -> Value | None:
    if not isinstance(x, All) or not isinstance(diagonal, int):
        return None
    return All(x.sums | {Sum((*[0] * (x.rank - 2), 1, -1), diagonal)}, x.rank)


def _size(node: Any, x: Any, dim: int | None = None) -> Any:
    shape = _shape(node.args[0])
    return shape if dim is None else shape[dim]


_RULES: dict[str, Callable[..., Any]] = {
    "arange": _arange,
    **dict.fromkeys(("new_ones", "ones"), _constant(True)),
    **dict.fromkeys(("new_zeros", "zeros"), _constant(False)),
    "add": _linear(1),
    "sub": _linear(-1),
    **dict.fromkeys(("ge", "__ge__"), _comparison((1, 0))),
    **dict.fromkeys(("gt", "__gt__"), _comparison((1, -1))),
    **dict.fromkeys(("le", "__le__"), _comparison((-1, 0))),
    **dict.fromkeys(("lt", "__lt__"), _comparison((-1, -1))),
    **dict.fromkeys(("eq", "__eq__"), _comparison((1, 0), (-1, 0))),
    **dict.fromkeys(("ne", "__ne__"), _differs),
    **dict.fromkeys(("and_", "logical_and", "bitwise_and", "__and__"), _both),
    "expand": _expand,
    "unsqueeze": _unsqueeze,
    "to": _to,
    "getitem": _item,
    "diff": _diff,
    "cumsum": _cumsum,
    "tril": _tril,
    "size": _size,
}
