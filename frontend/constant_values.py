"""Evaluates nodes of a graph that depend on no input, while compiling.

Works on the graphs of Dynamo and of AOTAutograd. The graph's own calls are run on the CPU.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node

from cuesta.frontend.constant_nodes import NotConstant, meta_of, steps_of
from cuesta.torch_private.dispatch import TorchDispatchMode
from cuesta.torch_private.fake_tensors import unset_fake_temporarily
from cuesta.torch_private.ops import HigherOrderOperator, OpOverload, schema_of

#: Tensors of more elements are not evaluated: a mask over 8192 positions has this many.
LARGEST = 1 << 26


def evaluate(node: Node, user: Node) -> Any:
    """The value of a node that depends on no input, where `user` reads it; the graph's own calls are run on the CPU.

    Works on the graphs of Dynamo and of AOTAutograd. Raises NotConstant for any other node.
    """
    values: dict[Node, Any] = {}
    with unset_fake_temporarily(), torch.no_grad(), _Careful():
        for step in steps_of(node, user):
            try:
                values[step] = _run(step, values)
            except NotConstant:
                raise
            except Exception as problem:
                # A call may fail here for many reasons (an argument of another device, too little memory).
                raise NotConstant(f"{step.target} failed: {problem}") from problem
    return values[node]


#: Modules whose functions are run; functions from elsewhere could have any effect.
_KNOWN_MODULES = ("torch", "_operator", "operator", "math", "builtins")


def _run(node: Node, values: dict[Node, Any]) -> Any:
    if node.op == "get_attr":
        return _attribute(node)

    def value(argument: Any) -> Any:
        if isinstance(argument, Node):
            return values[argument] if argument in values else _stand_in(argument)
        names_gpu = isinstance(argument, str) and argument.partition(":")[0] in ("cuda", "xpu")
        return torch.device("cpu") if isinstance(argument, torch.device) or names_gpu else argument

    args: Any = torch.fx.node.map_aggregate(node.args, value)
    kwargs: Any = torch.fx.node.map_aggregate(node.kwargs, value)
    if node.op == "call_method":
        if str(node.target) in ("cuda", "xpu"):
            return args[0]
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    module = getattr(node.target, "__module__", None) or ""
    known = isinstance(node.target, OpOverload) or module.partition(".")[0] in _KNOWN_MODULES
    if not known or "_functorch" in module or isinstance(node.target, HigherOrderOperator):
        raise NotConstant(f"{node.target} is not evaluated at compile time")
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _stand_in(node: Any) -> torch.Tensor:
    """A tensor of a node's shape and dtype, for calls that do not read the node's values."""
    meta = meta_of(node)
    if not isinstance(meta, torch.Tensor) or not all(isinstance(n, int) for n in meta.shape):
        raise NotConstant(f"the shape of {node} is symbolic")
    return torch.empty((), dtype=meta.dtype).expand(meta.shape)


def _attribute(node: Node) -> torch.Tensor:
    """A copy of a tensor that the graph holds as a constant. Raises NotConstant for parameters and buffers, which may
    change."""
    if not is_held_constant(node):
        raise NotConstant(f"{node.target} is not constant")
    copy: torch.Tensor = _held(node).to("cpu", copy=True)
    return copy


def is_held_constant(node: Node) -> bool:
    """Whether a get_attr node names a constant that may be evaluated, no parameter or buffer of a model."""
    value = _held(node)
    is_constant = type(value) is torch.Tensor and "constant" in str(node.target)
    return is_constant and value.numel() <= LARGEST


def _held(node: Node) -> Any:
    value: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        value = getattr(value, part, None)
    return value


class _Careful(TorchDispatchMode):
    """Refuses random numbers and results of too many elements before they are made."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise NotConstant(f"{func} draws random numbers")
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema_of(func).returns)
        if not is_view and _elements((*args, *(kwargs or {}).values())) > LARGEST:
            raise NotConstant(f"{func} gives too many elements")
        return func(*args, **(kwargs or {}))


def _elements(arguments: Iterable[Any]) -> int:
    """An upper bound of a result's elements: from operands broadcast against each other, or from sizes as arguments."""
    shapes, largest = [], 0
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            shapes.append(argument.shape)
        elif isinstance(argument, (list, tuple)) and argument and all(isinstance(n, int) for n in argument):
            largest = max(largest, math.prod(map(abs, argument)))
        elif isinstance(argument, int) and argument != sys.maxsize:  # which stands for the end of a slice
            largest = max(largest, argument)
        elif isinstance(argument, (list, tuple)):
            largest = max(largest, _elements(argument))
    try:
        together = math.prod(torch.broadcast_shapes(*shapes)) if shapes else 0
    except RuntimeError:
        together = sum(map(math.prod, shapes))
    return max(largest, together)
