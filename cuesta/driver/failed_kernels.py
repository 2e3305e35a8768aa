"""Finds which kernels of a failing compile are at fault, and which nodes of the graph became these kernels.

A kernel is tried by itself: a module with only this kernel and its launches runs through the stages after `kernels`, as
far as the whole module came. Bisection over the kernels finds one among a hundred in about 14 trials.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

import cuesta.dialects as dialects
from cuesta._mlir import ir
from cuesta.dialects.kernel_module import launched_kernels
from cuesta.driver.autotune.kernel_traffic import kernel_functions
from cuesta.driver.dump.reproducer import LoweringFailed, as_bytecode
from cuesta.driver.stage_pipelines import MACHINE_CODE
from cuesta.errors import CompileError
from cuesta.lowering.host_to_llvm import WORDS
from cuesta.lowering.host_to_llvm.object_code import begin_object
from cuesta.passes.infra.pipeline import Pipeline
from cuesta.sizes import assumptions

#: The level at which kernels are functions of their own.
_KERNELS = "kernels"

#: A name that a location gives an op, in its text: `loc("encoder.layers.0:mm"("model.py":3:0))`.
_NAME = re.compile(r'"([^"]*)"(?=\()')


def nodes_at_fault(failure: LoweringFailed, gm: torch.fx.GraphModule, opt_level: int) -> list[torch.fx.Node]:
    """The nodes, in the graph's order, that became the kernels which fail by themselves.

    Empty if no kernel is at fault, or if the failure comes before there are kernels.
    """
    names = list(failure.pipelines)
    if _KERNELS not in names or failure.stage in names[: names.index(_KERNELS) + 1]:
        return []
    with failure.original.context, ir.Location.unknown(), assumptions():
        try:
            kernels = _at_kernels(failure)
        except CompileError:  # the compile that failed got further
            return []
        code, behind = as_bytecode(kernels), dict([*failure.pipelines.items()][names.index(_KERNELS) + 1 :])

        def fails(tried: Sequence[str]) -> bool:
            """Whether a program of these kernels alone fails no later than the stage at which the whole module did."""
            module = ir.Module.parse(code)
            _keep(module, set(tried))
            return not gets_through(module, behind, failure.stage, opt_level)

        found = set(failing(list(kernel_functions(kernels)), fails))
        named = {name for op in _ops_of(kernels, found) for name in names_in(op.location)}
    return [node for node in gm.graph.nodes if node.name in named]


def gets_through(module: ir.Module, pipelines: Mapping[str, Pipeline], stage: str, opt_level: int) -> bool:
    """Whether a module passes the stages of these pipelines in order, up to the stage of that name.

    The stage "machine code" stands for all stages and LLVM. The module is changed in place.
    """
    try:
        for name, pipeline in pipelines.items():
            pipeline.run(module, verify=False)
            dialects.verify(module, f"stage {name}")
            if name == stage:
                return True
        WORDS.drop(module.operation)
        if stage == MACHINE_CODE:
            begin_object(module, opt_level)()
    except CompileError:
        return False
    return True


def failing(names: Sequence[str], fails: Callable[[Sequence[str]], bool]) -> list[str]:
    """Bisects for the names that fail by themselves; `fails` says whether any of the given names does."""
    if not names or not fails(names):
        return []
    if len(names) == 1:
        return list(names)
    middle = len(names) // 2
    return [*failing(names[:middle], fails), *failing(names[middle:], fails)]


def names_in(location: ir.Location) -> list[str]:
    """The names of the graph nodes that an op came from."""
    return [name.rpartition(":")[2] for name in _NAME.findall(str(location))]


def _at_kernels(failure: LoweringFailed) -> ir.Module:
    module = ir.Module.parse(as_bytecode(failure.original))
    for name, pipeline in failure.pipelines.items():
        pipeline.run(module, verify=False)
        if name == _KERNELS:
            break
    return module


def _ops_of(module: ir.Module, kernels: set[str]) -> Iterator[ir.Operation]:
    """The ops inside the kernels of these names, and the launches of these kernels."""
    for name, function in kernel_functions(module).items():
        if name in kernels:
            yield from dialects.walk(function)
    for op in dialects.walk(module.operation):
        if op.name == "host.launch" and kernels.intersection(launched_kernels(op)):
            yield op


def _keep(module: ir.Module, names: set[str]) -> None:
    """Keeps only the launches of these kernels, and the kernels that are still launched."""
    launches = [op for op in dialects.walk(module.operation) if op.name == "host.launch"]
    used: set[str] = set()
    for launch in launches:
        kernels = launched_kernels(launch)
        if names.intersection(kernels):
            used.update(kernels)
        else:
            launch.erase()
    for name, function in kernel_functions(module).items():
        if name not in used:
            function.erase()
