"""The target and the device that a module is for: attributes of the top module, absent where it is the CPU.

    module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} { … }

The device is where tensors are that nothing else is said of: an argument with `cuesta.device` among its
attributes, or a result of a call with the attribute `device`, is on that one.
"""

from __future__ import annotations

import torch

from cuesta._mlir import ir
from cuesta.targets import CPU, Target, parse_target

TARGET, DEVICE = "cuesta.target", "cuesta.device"


def mark_module(module: ir.Module, target: Target, device: torch.device) -> None:
    """Says what `module` is for."""
    if target == CPU:
        return
    module.operation.attributes[TARGET] = ir.StringAttr.get(str(target))
    module.operation.attributes[DEVICE] = ir.StringAttr.get(str(device))


def target_of(module: ir.Module | ir.Operation) -> Target:
    """What a top module is for. Raises OptionError where its attribute names no target."""
    attributes = module.operation.attributes
    return parse_target(attributes[TARGET].value) if TARGET in attributes else CPU


def device_of(module: ir.Module | ir.Operation) -> torch.device:
    """Where a top module's tensors are; the first device of its target's type where it does not say."""
    attributes = module.operation.attributes
    if DEVICE in attributes:
        return torch.device(attributes[DEVICE].value)
    kind = target_of(module).device_type
    return torch.device(kind) if kind == "cpu" else torch.device(kind, 0)


def on_cpu(value: ir.Value) -> bool:
    """Whether the module that a value is in is for a CPU."""
    op = value.owner.owner if isinstance(value.owner, ir.Block) else value.owner
    while op.operation.parent is not None:
        op = op.operation.parent
    return not target_of(op.operation).gpu
