"""Collects the unique kernels of a model's graphs, each as linalg and as Triton IR."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects import host, make_context, tt, walk
from cuesta.dialects.kernel_fields import GRID
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.tt.instructions import ElementwiseInlineAsm
from cuesta.driver.stage_pipelines import pipeline_of
from cuesta.export.compile_for import lower_graph, trace
from cuesta.lowering.tt_to_binary.kernel import KernelText
from cuesta.lowering.tt_to_binary.texts import kernel_texts
from cuesta.options import Options
from cuesta.passes.pipelines import stages_for
from cuesta.targets import Target
from cuesta.tools.gpu_kernels.suite import SuiteModel
from cuesta.tools.models.case import Size


@dataclass(frozen=True)
class SuiteKernel:
    """A kernel of the suite on two levels, linalg and Triton IR."""

    #: model and graph, such as "gpt2, backward", and the kind of target
    origin: str
    kind: str
    #: a func.func of linalg on tensors, as form-kernels leaves it
    linalg: str
    text: KernelText
    grid: tuple[int, int, int]
    #: ops with their element types, ranks, reduced dims and numbers of warps, for `cover`
    features: frozenset[str]

    @property
    def needs_kind(self) -> bool:
        """Whether the kernel is for GPUs of its kind only, as the tiles of matrix products and instructions are."""
        return any(f'"{op.OPERATION_NAME}"' in self.text.text for op in (tt.Dot, ElementwiseInlineAsm))

    @property
    def structure(self) -> str:
        """The kernel's text without numbers: equal for kernels that differ in sizes only."""
        text = re.sub(r"\d+", "#", self.text.text.replace(f'sym_name = "{self.text.name}"', ""))
        return f"{self.kind} {text}" if self.needs_kind else text

    def __str__(self) -> str:
        return f"{self.text.name} ({self.origin})"


def collect(model: SuiteModel, size: Size, training: bool, target: Target) -> list[SuiteKernel]:
    """The kernels of a model's graphs for `target`. Among kernels that differ by name only, keeps the first."""
    module, inputs = model.module(size)
    module.train(training)
    options = Options.from_torch(None, {"target": target})
    found: dict[str, SuiteKernel] = {}
    for graph in trace(module, inputs, target, training=training):
        with make_context():
            lowered = lower_graph(graph, target, options, "kernels")
            linalg = {
                op.name.value: op.operation.get_asm(use_local_scope=True)
                for nested in kernel_modules(lowered)
                for op in nested.body.operations
            }
            for op in walk(lowered.operation):
                if host.Launch.matches(op) and host.Launch.together.is_on(op):
                    host.Launch.together.drop(op)  # a kernel of several has no linalg of its own
            for stage in ("blocks", "tt"):
                pipeline_of(stages_for(target)[stage], options).run(lowered)
            functions = [op for op in walk(lowered.operation) if tt.Func.matches(op)]
            for text, op in zip(kernel_texts(lowered), functions, strict=True):
                x, y, z = GRID.known(op)
                grid = (x, y, z)
                key = text.text.replace(f'sym_name = "{text.name}"', "") + f"{grid} {text.warps} {text.stages}"
                if key not in found:
                    origin = f"{model.name}, {graph.kind}"
                    found[key] = SuiteKernel(origin, target.kind, linalg[text.name], text, grid, _features(op, text))
    return list(found.values())


def cover(kernels: Sequence[SuiteKernel]) -> list[SuiteKernel]:
    """A small subset of the kernels that has all their features: greedily adds the kernel with the most new ones."""
    missing = frozenset[str]().union(*(kernel.features for kernel in kernels))
    chosen: list[SuiteKernel] = []
    while missing:
        best = max(kernels, key=lambda kernel: (len(kernel.features & missing), -len(kernel.text.text)))
        chosen.append(best)
        missing -= best.features
    return chosen


def _features(function: ir.Operation, text: KernelText) -> frozenset[str]:
    found = {f"{text.warps} warps"}
    for op in walk(function):
        kinds = {_element(value.type) for value in (*op.operands, *op.results)}
        found.add(f"{op.name} {' '.join(sorted(kinds))}")
        if tt.Reduce.matches(op):
            shape = re.findall(r"\d+(?=x)", str(op.operands[0].type))
            found.add(f"reduce dim {tt.Reduce.axis.of(op)} of {len(shape)}, {len(op.operands)} at a time")
        if tt.Load.matches(op) or tt.Store.matches(op):
            rank = str(op.operands[0].type).count("x")
            found.add(f"{op.name} of rank {rank}{' masked' if len(op.operands) > 2 - tt.Load.matches(op) else ''}")
        if tt.ExternElementwise.matches(op):
            found.add(tt.ExternElementwise.symbol.of(op))
    return frozenset(found)


def _element(kind: ir.Type) -> str:
    return re.sub(r"tensor<(\d+x)*|>$", "", str(kind))
