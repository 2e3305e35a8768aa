"""Halves the blocks of GPU kernels, to retry a kernel whose block does not fit the target.

    func @softmax {cuesta.blocks = [2, 256], cuesta.parallel = [0]}
→   func @softmax {cuesta.blocks = [1, 256], cuesta.parallel = [0]}
→   func @softmax {cuesta.blocks = [1, 128], cuesta.loops = [1], cuesta.parallel = [0]}

The largest block of a parallel class is halved first, then that of a class that a loop walks. If there is
neither, the largest class gets a loop. If all blocks are 1, nothing changes. A matrix product first gives
up stages, because each stage keeps its loads in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.fields import int_array, int_attr, ints
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.product import LEAST
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass


@register_pass("halve-blocks")
@dataclass(frozen=True)
class HalveBlocks(Pass):
    """Halves the blocks that choose-blocks chose."""

    #: How often each kernel's blocks are halved.
    times: int = 1

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            for nested in kernel_modules(module):
                for function in functions(nested):
                    for _ in range(self.times):
                        _halve(function.attributes)


def _halve(attributes: ir.OpAttributeMap) -> None:
    if "cuesta.stages" in attributes:
        _shrink_product(attributes)
        return
    blocks, parallel = ints(attributes["cuesta.blocks"]), ints(attributes["cuesta.parallel"])
    loops = ints(attributes["cuesta.loops"]) if "cuesta.loops" in attributes else []
    for classes in (parallel, loops, range(len(blocks))):
        chosen = max((c for c in classes if blocks[c] > 1), key=lambda c: blocks[c], default=None)
        if chosen is None:
            continue
        blocks[chosen] //= 2
        attributes["cuesta.blocks"] = int_array(blocks)
        if chosen not in parallel and chosen not in loops:
            attributes["cuesta.loops"] = int_array(sorted([*loops, chosen]))
        return


def _shrink_product(attributes: ir.OpAttributeMap) -> None:
    stages = attributes["cuesta.stages"].value
    if stages > 2:
        attributes["cuesta.stages"] = int_attr(stages - 1)
        return
    blocks = ints(attributes["cuesta.blocks"])
    chosen = max(range(len(blocks)), key=lambda c: blocks[c])
    if blocks[chosen] > LEAST:
        blocks[chosen] //= 2
        attributes["cuesta.blocks"] = int_array(blocks)
