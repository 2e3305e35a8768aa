"""Says what is known of a whole module: attributes of the top module.

    module attributes {cuesta.target = "cuda:90", cuesta.device = "cuda:0", cuesta.zeros = ["(s0 % 2)"],
                       cuesta.products = {across = "kernel", attention = "library"}} { … }

- target and device: absent for the CPU. All tensors are on this device, except arguments with an attribute
  `cuesta.device` of their own and results of calls with the attribute `device`.
- zeros: sizes that are 0 in every call of the program, which is used only for such calls.
- products: who computes the products and attention of f32 in a module for a CPU, by kind
  (`cuesta.policy.product_kinds`), if that was measured. For other kinds, passes use a rule of thumb.
- hints: the value of each symbol of the module's sizes in the traced call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import torch

from cuesta._mlir import ir
from cuesta.dialects.fields import IntDict, Raw, Text, Texts
from cuesta.sizes.facts import rules
from cuesta.sizes.rules import follow
from cuesta.targets import CPU, Target, parse_target

#: DEVICE is an attribute of arguments too.
TARGET, DEVICE = Text("cuesta.target"), Text("cuesta.device")
ZEROS = Texts("cuesta.zeros")
PRODUCTS = Raw("cuesta.products")
HINTS = IntDict("cuesta.hints")


def mark_module(module: ir.Module, target: Target, device: torch.device) -> None:
    """Records the target and the device of `module`."""
    if target == CPU:
        return
    TARGET.put(module.operation, str(target))
    DEVICE.put(module.operation, str(device))


def target_of(module: ir.Module | ir.Operation) -> Target:
    """The target of a top module. Raises OptionError if the attribute names no target."""
    target = TARGET.find(module.operation)
    return CPU if target is None else parse_target(target)


def device_of(module: ir.Module | ir.Operation) -> torch.device:
    """The device of a top module's tensors; without the attribute, the first device of the target's type."""
    device = DEVICE.find(module.operation)
    if device is not None:
        return torch.device(device)
    kind = target_of(module).device_type
    return torch.device(kind) if kind == "cpu" else torch.device(kind, 0)


def on_cpu(value: ir.Value) -> bool:
    """Whether the target of a value's module is a CPU."""
    op = value.owner.owner if isinstance(value.owner, ir.Block) else value.owner
    while op.operation.parent is not None:
        op = op.operation.parent
    return not target_of(op.operation).gpu


def mark_zeros(module: ir.Module, zeros: Sequence[str]) -> None:
    """Records which sizes are 0."""
    if zeros:
        ZEROS.put(module.operation, list(zeros))


def zeros_of(module: ir.Module) -> tuple[str, ...]:
    """The sizes in a module that are 0."""
    return tuple(ZEROS.find(module.operation) or ())


def known_sizes(module: ir.Module) -> AbstractContextManager[object]:
    """A context in which sizes are computed and compared with what is known of the module's sizes."""
    return follow(rules(zeros_of(module)))


def mark_products(module: ir.Module, measured: Mapping[str, str]) -> None:
    """Records who computes which kinds of products."""
    if measured:
        words = {kind: ir.StringAttr.get(who, module.context) for kind, who in measured.items()}
        PRODUCTS.put(module.operation, ir.DictAttr.get(words, module.context))


def measured_products(module: ir.Module) -> dict[str, str]:
    """Kind of products → who computes them, for the kinds that the module names."""
    measured = PRODUCTS.find(module.operation)
    return {} if measured is None else {named.name: named.attr.value for named in ir.DictAttr(measured)}
