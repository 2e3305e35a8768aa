"""Collects the functions that the text of an entry calls: helpers of the steps, and external functions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cuesta.lowering.host_to_llvm import (
    allocate_step,
    argument_step,
    bounds_step,
    dispatch_step,
    gpu_step,
    launch_step,
    tensor_steps,
    typed_step,
)
from cuesta.lowering.host_to_llvm.steps import DECLARATIONS

_CALLED = re.compile(r'llvm\.(?:call|mlir\.addressof) @"?(\w+)')
_STEPS = (argument_step, allocate_step, tensor_steps, dispatch_step, typed_step, gpu_step, launch_step, bounds_step)

#: Name → text of each function that all programs share. Helpers call helpers and external functions only.
HELPERS = {name: text for steps in _STEPS for name, text in steps.HELPERS.items()}


def needed(texts: Sequence[str]) -> list[str]:
    """The helpers that `texts` call, directly or through others, and declarations of the external functions."""
    found: dict[str, str] = {}
    pending = list(texts)
    while pending:
        for name in _CALLED.findall(pending.pop()):
            if name in found:
                continue
            if name in HELPERS:
                found[name] = HELPERS[name]
                pending.append(HELPERS[name])
            elif name in DECLARATIONS:
                found[name] = f"llvm.func @{name}{DECLARATIONS[name]}"
    return list(found.values())
