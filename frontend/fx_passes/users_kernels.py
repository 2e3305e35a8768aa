"""Runs a user's Triton kernel without copying tensors that the kernel is the first to write.

torch's functional form of such a kernel copies every tensor that the kernel writes, runs the kernel on the copies and
returns them. Memory that is allocated only for the kernel to fill needs no copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from cuesta.frontend.python_steps import UNWRITTEN
from cuesta.torch_private.decompositions import clone_preserve_strides


def target_of(step: Node) -> Callable[..., Any]:
    """The function that runs a node in Python: its target, except for a user's kernel that fills new memory."""
    functional = torch.ops.higher_order.triton_kernel_wrapper_functional
    new = _new_tensors(step) if step.target is functional else []
    if not new:
        assert callable(step.target)
        return step.target

    def run(kwargs: Mapping[str, Any], tensors_to_clone: Sequence[str], **kernel: Any) -> dict[str, Tensor]:
        copied = set(tensors_to_clone).difference(new)
        given = {name: clone_preserve_strides(x) if name in copied else x for name, x in kwargs.items()}
        torch.ops.higher_order.triton_kernel_wrapper_mutation(kwargs=given, **kernel)
        return {name: given[name] for name in tensors_to_clone}

    return run


def _new_tensors(step: Node) -> list[str]:
    """The names of arguments that the kernel writes and that are new memory, passed once and used by no other node."""
    arguments: Any = step.kwargs["kwargs"]
    written: Any = step.kwargs["tensors_to_clone"]
    given = list(arguments.values())
    return [
        name
        for name in written
        if arguments[name].target in UNWRITTEN and len(arguments[name].users) == 1 and given.count(arguments[name]) == 1
    ]
