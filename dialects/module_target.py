"""Records the target and the device of a module: attributes of the top module, absent for the CPU.

    module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0"} { … }

All tensors are on this device, except arguments with an attribute `cuesta.device` of their own and results of calls
with the attribute `device`.
"""

from __future__ import annotations

import torch

from cuesta._mlir import ir
from cuesta.targets import CPU, Target, parse_target

TARGET, DEVICE = "cuesta.target", "cuesta.device"


def mark_module(module: ir.Module, target: Target, device: torch.device) -> None:
    """Records the target and the device of `module`."""
    if target == CPU:
        return
    module.operation.attributes[TARGET] = ir.StringAttr.get(str(target))
    module.operation.attributes[DEVICE] = ir.StringAttr.get(str(device))


def target_of(module: ir.Module | ir.Operation) -> Target:
    """The target of a top module. Raises OptionError if the attribute names no target."""
    attributes = module.operation.attributes
    return parse_target(attributes[TARGET].value) if TARGET in attributes else CPU


def device_of(module: ir.Module | ir.Operation) -> torch.device:
    """The device of a top module's tensors; without the attribute, the first device of the target's type."""
    attributes = module.operation.attributes
    if DEVICE in attributes:
        return torch.device(attributes[DEVICE].value)
    kind = target_of(module).device_type
    return torch.device(kind) if kind == "cpu" else torch.device(kind, 0)


def on_cpu(value: ir.Value) -> bool:
    """Whether the target of a value's module is a CPU."""
    op = value.owner.owner if isinstance(value.owner, ir.Block) else value.owner
    while op.operation.parent is not None:
        op = op.operation.parent
    return not target_of(op.operation).gpu
