"""Registers and finds import rules: the function that turns a call of an ATen overload into cuesta ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cuesta.sizes import Number, number, stride
from cuesta.torch_private.ops import OpOverload

#: overload ("aten.view.default") or packet ("aten.view", for all its overloads) → import rule.
RULES: dict[str, Callable[..., Any]] = {}

#: overload or packet → import rule for calls on complex numbers.
COMPLEX_RULES: dict[str, Callable[..., Any]] = {}

#: Key in a node's meta; its value is the reason to call the node in ATen although a rule could express it.
CALL_IN_ATEN = "cuesta_call_in_aten"


class Decline(Exception):
    """Raised by a rule that cannot express a call, which becomes a call into ATen with the message as its reason."""


def imports(
    *targets: str, namespace: str = "aten", complex_numbers: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers `rule(b, *args, **kwargs)` for torch ops, named without their `namespace`.

    `b` is the `Call` (frontend/call.py), and `args` are its arguments, with tensors replaced by ir.Values. The rule
    returns a value, or a list of values for an op of several results (None where a result is not computed). With
    `complex_numbers` the rule is for calls that have a complex operand or result.
    """
    rules = COMPLEX_RULES if complex_numbers else RULES

    def enter(rule: Callable[..., Any]) -> Callable[..., Any]:
        for target in targets:
            name = f"{namespace}.{target}"
            assert name not in rules, f"two import rules for {name}"
            rules[name] = rule
        return rule

    return enter


def sizes_of(meta: torch.Tensor) -> tuple[Number, ...]:
    """The sizes of a traced tensor."""
    return tuple(number(n) for n in meta.shape)


def strides_of(meta: torch.Tensor) -> tuple[Number, ...]:
    """The strides of a traced tensor."""
    return tuple(stride(n) for n in meta.stride())


def find_rule(overload: OpOverload) -> Callable[..., Any] | None:
    """The rule for the overload: by its full name, else by its packet's."""
    return _find(RULES, overload)


def find_complex_rule(overload: OpOverload) -> Callable[..., Any] | None:
    """The rule for a call of the overload on complex numbers."""
    return _find(COMPLEX_RULES, overload)


def _find(rules: dict[str, Callable[..., Any]], overload: OpOverload) -> Callable[..., Any] | None:
    name = str(overload)
    return rules.get(name) or rules.get(name.rpartition(".")[0])
