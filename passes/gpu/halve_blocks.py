"""Halves the blocks of GPU kernels, to retry a kernel whose block does not fit the target.

    func @softmax {cuesta.blocks = [2, 256], cuesta.parallel = [0]}
→   func @softmax {cuesta.blocks = [1, 256], cuesta.parallel = [0]}
→   func @softmax {cuesta.blocks = [1, 128], cuesta.loops = [1], cuesta.parallel = [0]}

The largest block of a parallel class is halved first, then that of a class that a loop walks. If there is
neither, the largest class gets a loop. If all blocks are 1, nothing changes. A loop that has its turns' loads
in flight together, as that of a matrix product, first gives up stages: each keeps its loads in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuesta._mlir import func, ir
from cuesta.dialects.kernel_fields import BLOCKS, LOOPS, PARALLEL, STAGES
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
                        _halve(function)


def _halve(function: func.FuncOp) -> None:
    if STAGES.is_on(function):
        _shrink_product(function)
        return
    blocks, parallel = BLOCKS.of(function), PARALLEL.of(function)
    loops = LOOPS.find(function) or []
    for classes in (parallel, loops, range(len(blocks))):
        chosen = max((c for c in classes if blocks[c] > 1), key=lambda c: blocks[c], default=None)
        if chosen is None:
            continue
        blocks[chosen] //= 2
        BLOCKS.put(function, blocks)
        if chosen not in parallel and chosen not in loops:
            LOOPS.put(function, sorted([*loops, chosen]))
        return


def _shrink_product(function: func.FuncOp) -> None:
    stages = STAGES.of(function)
    if stages > 2:
        STAGES.put(function, stages - 1)
        return
    blocks = BLOCKS.of(function)
    chosen = max(range(len(blocks)), key=lambda c: blocks[c])
    if blocks[chosen] > LEAST:
        blocks[chosen] //= 2
        BLOCKS.put(function, blocks)
