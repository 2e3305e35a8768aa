"""Names torch's operator types, and reads the facts that torch keeps of each overload. Loaded with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# The type of steps such as cond and users' Triton kernels. Without it, equal calls are merged although they may write
# to their arguments, and a report does not say why they run in Python.
from torch._ops import HigherOrderOperator as HigherOrderOperator

# torch.ops.aten.add.Tensor: the target of each node of an ATen graph. Without it no graph is imported.
from torch._ops import OpOverload as OpOverload

# torch.ops.aten.add. Without it an artefact's calls into ATen are not checked.
from torch._ops import OpOverloadPacket as OpOverloadPacket
from torch._ops import _OpNamespace

#: torch.ops.aten. Without it torch.ops.cuesta cannot be filled on demand, and an artefact's calls are not checked.
OpNamespace = _OpNamespace


def schema_of(op: Any) -> torch.FunctionSchema:
    """The arguments and results of an overload, with their types and aliases. Without it no call into ATen can be
    made, and views and ops that write to their arguments are not told from others."""
    return op._schema


def has_schema(target: Any) -> bool:
    """Whether a node calls an overload: what has no schema is a function of Python's, such as getitem. Without it, an
    audit counts those among the ops."""
    return hasattr(target, "_schema")


def overload_name(op: OpOverload) -> str:
    """The overload's name without its packet's. Without it op_coverage does not find why an overload is called."""
    return op._overloadname


def is_composite(op: OpOverload) -> bool:
    """Whether torch implements the overload by calls of other ops. It may then return an argument whatever its schema
    says, so without this a call into ATen might free memory twice."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd"))


def is_decomposable_composite(op: OpOverload) -> bool:
    """Whether torch.export can decompose the op into those that implement it. Without it exported programs keep ops
    that cuesta has no rules for, and call them in ATen."""
    from torch._export.utils import _is_cia_op

    return bool(_is_cia_op(op))


def all_op_names() -> list[str]:
    """The names of all overloads that are registered. Without it the page on op coverage lacks the core overloads."""
    return torch._C._dispatch_get_all_op_names()


def implementation(op: Any) -> Callable[..., Any]:
    """The function that torch.library.custom_op was given. Cuesta's ops compute their fake results with it; without it
    each needs another function for them, and raises for fake tensors until it has one."""
    return op._init_fn
