"""Decomposes ATen's ops over lists of tensors, which optimizers use, into one op for each tensor. All ops on one
parameter can then be fused into one in-place kernel, where each list op would write all of its results to memory.

    %new = _foreach_add.Scalar([%a, %b], 1)        →       [add(%a, 1), add(%b, 1)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from cuesta.torch_private.ops import schema_of

#: Ops for which torch has a function of the same name that does the same to one tensor.
_SAME_NAME = (
    *("add", "sub", "mul", "div", "addcmul", "addcdiv", "lerp", "pow", "clamp_min", "clamp_max", "max", "clone"),
    *("neg", "abs", "sign", "reciprocal", "sqrt", "rsqrt", "exp", "expm1", "log", "log10", "log1p", "log2", "lgamma"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "sigmoid", "erf", "erfc"),
    *("ceil", "floor", "round", "trunc", "frac"),
)

#: Other ops → the function for one tensor. Number arguments may be one for all, one for each, or tensors.
_OTHERS: dict[str, Callable[..., torch.Tensor]] = {
    "maximum": torch.clamp_min,
    "minimum": torch.clamp_max,
    "norm": lambda x, order=2, dtype=None: torch.linalg.vector_norm(x, order, dtype=dtype),
    "copy": lambda old, new, non_blocking=False: torch.ops.aten.copy(old, new),
    "zero": torch.zeros_like,
}

#: Overloads not decomposed: their numbers are one tensor, which would have to be split.
_LEFT_ALONE = frozenset({"aten._foreach_addcmul.Tensor", "aten._foreach_addcdiv.Tensor"})


def foreach_decompositions() -> dict[Any, Callable[..., Any]]:
    """overload → its decomposition, as AOTAutograd takes it."""
    return {overload: _each(overload) for overload in _overloads()}


def _overloads() -> Iterator[Any]:
    for name in (*_SAME_NAME, *_OTHERS):
        # Versions of torch differ in these ops: 2.11 has no _foreach_clone.
        packet = getattr(torch.ops.aten, f"_foreach_{name}", None)
        for variant in packet.overloads() if packet else ():
            overload = getattr(packet, variant)
            returns = [str(result.type) for result in schema_of(overload).returns]
            if returns == ["List[Tensor]"] and str(overload) not in _LEFT_ALONE:
                yield overload


def _each(overload: Any) -> Callable[..., list[torch.Tensor]]:
    arguments = schema_of(overload).arguments
    name = schema_of(overload).name.partition("_foreach_")[2]
    function = _OTHERS.get(name) or getattr(torch, name)
    lists = {a.name for a in arguments if a.type.kind() == "ListType"}
    # Number arguments that torch's function takes by keyword only → the keyword.
    spelling = {"alpha": "alpha", **({"value": "value", "scalars": "value"} if name.startswith("addc") else {})}

    def decomposition(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        given = {argument.name: value for argument, value in zip(arguments, args, strict=False)} | kwargs
        count = max(len(value) for key, value in given.items() if key in lists)
        results = []
        for i in range(count):
            one = {key: value[i] if key in lists else value for key, value in given.items()}
            positional = [value for key, value in one.items() if key not in spelling]
            named = {spelling[key]: value for key, value in one.items() if key in spelling}
            results.append(function(*positional, **named))
        return results

    return decomposition
