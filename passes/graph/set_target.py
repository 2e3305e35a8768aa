"""Sets the target of a module, in place of the target that it was made for.

    module attributes {cuesta.products = {across = "kernel"}}   →   module attributes {cuesta.target = "cuda:90", …}

`cuesta-opt --target` runs this pass first, as a graph that was dumped on a CPU has a CPU's marks, or none.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cuesta._mlir import ir
from cuesta.dialects.top_module import DEVICE, PRODUCTS, TARGET, mark_module, target_of
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.targets import parse_target


@register_pass("set-target")
@dataclass(frozen=True)
class SetTarget(Pass):
    """Sets the target of a module, and drops what was measured for another target."""

    target: str = "cpu"

    def run(self, module: ir.Module) -> None:
        target = parse_target(self.target)
        if target_of(module) == target:
            return
        for field in (TARGET, DEVICE, PRODUCTS):
            field.drop(module.operation)
        mark_module(module, target, torch.device(target.device_type))
