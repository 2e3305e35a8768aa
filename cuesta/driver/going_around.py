"""Compiles a graph although one of its kernels fails to compile: calls the ops of that kernel in ATen instead.

No kernel of ours is to be the reason that a graph does not compile. If a pass or LLVM fails, these are tried in turn;
each keeps the nodes that were found before:

1. The nodes that became the failing kernels are called in ATen. If the kernel has a matrix product, at first only the
   product is, so that its epilogue stays a kernel.
2. If no kernel fails by itself, or the failure comes before there are kernels, bisection over the graph's nodes finds
   those without which it compiles.
3. The caller runs the graph op by op.

All other nodes that call the same op on tensors of the same sizes are called in ATen as well: their kernels would fail
too. A warning and the report say what was done. With CUESTA_STRICT set, none of this happens and the failure is raised.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch.fx import Node

from cuesta.driver.calling import Run
from cuesta.driver.dump.reproducer import LoweringFailed
from cuesta.driver.failed_kernels import nodes_at_fault
from cuesta.driver.loading import MadeProgram
from cuesta.driver.op_by_op import op_by_op_run
from cuesta.driver.own_errors import is_strict, raise_told, told_of
from cuesta.errors import CuestaError, Unsupported
from cuesta.frontend.convention import Convention
from cuesta.frontend.fx_nodes import not_callable, result_metas
from cuesta.frontend.python_steps import is_view
from cuesta.frontend.rules import CALL_IN_ATEN
from cuesta.reports.compile_report import GraphReport
from cuesta.torch_private.ops import OpOverload, schema_of

log = logging.getLogger("cuesta")

Made = TypeVar("Made")

#: Failures of one graph that are worked around; each costs a compile of the whole graph. Repeated failures usually have
#: unrelated causes; a graph that fails more often runs op by op.
_MOST_ROUNDS = 6
#: Nodes that bisection finds at most; each takes about 11 lowerings for a graph of a thousand nodes.
_MOST_FOUND = 3

#: Ops whose kernels are matrix products.
_PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm", "convolution"})


def go_around(
    gm: torch.fx.GraphModule,
    failure: LoweringFailed,
    report: GraphReport,
    opt_level: int,
    compile: Callable[[], Made],
    lowers: Callable[[LoweringFailed], bool],
) -> Made:
    """Compiles the graph with some nodes called in ATen, and names these in the report and a warning.

    `lowers` says whether the graph with its current marks passes the stage that failed. Raises LoweringFailed where no
    choice of nodes avoids the failure; then no node stays marked.
    """
    marked: list[Node] = []
    first = failure
    for _ in range(_MOST_ROUNDS):
        found = _next_nodes(failure, gm, opt_level) or _halved(_candidates(gm), functools.partial(lowers, failure))
        if not found:
            break
        alike = _alike(gm, found)
        _mark(alike, failure)
        marked += alike
        report.instead.append({"ops": sorted({_name(node) for node in alike}), "error": failure.first_line})
        try:
            made = compile()
        except LoweringFailed as again:
            failure = again
            continue
        except Unsupported:  # a level cannot express the call into ATen
            break
        log.warning(
            "the %s graph calls %s in ATen: %s", report.name, ", ".join(sorted(set(map(_name, marked)))), told_of(first)
        )
        return made
    for node in marked:
        del node.meta[CALL_IN_ATEN]
    report.instead.clear()
    raise first


def run_otherwise(
    failure: CuestaError,
    gm: torch.fx.GraphModule,
    convention: Convention,
    report: GraphReport,
    around: Callable[[LoweringFailed], MadeProgram],
) -> Run:
    """The replacement for a program whose code could not be made or loaded.

    `around` compiles the graph without the failing kernels; if that fails too, the graph runs op by op. In strict mode
    the failure is raised instead.
    """
    if is_strict():
        raise_told(failure)
    if isinstance(failure, LoweringFailed):
        with contextlib.suppress(LoweringFailed):
            made = around(failure)
            if made.convention == convention:
                return made.executable
    report.fallback = str(failure)
    log.warning("the %s graph runs op by op: %s", report.name, told_of(failure))
    return op_by_op_run(gm, convention)


def _next_nodes(failure: LoweringFailed, gm: torch.fx.GraphModule, opt_level: int) -> list[Node]:
    """The nodes of the failing kernels to call in ATen now: their products, else all."""
    nodes = [node for node in nodes_at_fault(failure, gm, opt_level) if _may_be_called(node)]
    return [node for node in nodes if _name(node) in _PRODUCTS] or nodes


def _candidates(gm: torch.fx.GraphModule) -> list[Node]:
    return [node for node in gm.graph.nodes if _may_be_called(node)]


def _may_be_called(node: Node) -> bool:
    """Whether a node can be called in ATen and is not yet. A view computes nothing, so it cannot."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload) or is_view(node):
        return False
    return CALL_IN_ATEN not in node.meta and bool(result_metas(node)) and not_callable(node) is None


def _halved(nodes: Sequence[Node], lowers: Callable[[], bool]) -> list[Node]:
    """Bisects for nodes with which, called in ATen, the graph lowers; empty if it does not lower even with all of them.

    Assumes that more calls never make a failure. So the shortest prefix of the nodes with which the graph lowers ends
    in a node at fault.
    """
    found: list[Node] = []
    while len(found) < _MOST_FOUND:
        rest = [node for node in nodes if node not in found]
        if not _lowers_with([*found, *rest], lowers):
            return []
        least = bisect.bisect_left(range(len(rest)), True, key=lambda n: _lowers_with([*found, *rest[:n]], lowers))
        if least == 0:
            break
        found.append(rest[least - 1])
        if _lowers_with(found, lowers):
            break
    return found


def _lowers_with(nodes: Sequence[Node], lowers: Callable[[], bool]) -> bool:
    """Whether the graph lowers with these nodes called in ATen."""
    for node in nodes:
        node.meta[CALL_IN_ATEN] = "called in ATen to find out whether the rest compiles"
    try:
        return lowers()
    finally:
        for node in nodes:
            del node.meta[CALL_IN_ATEN]


def _mark(nodes: Iterable[Node], failure: LoweringFailed) -> None:
    for node in nodes:
        node.meta[CALL_IN_ATEN] = f"cuesta's kernel for the op does not compile: {failure.first_line}"


def _alike(gm: torch.fx.GraphModule, nodes: Iterable[Node]) -> list[Node]:
    """All nodes that call the same op as one of these, on tensors of the same kind and sizes."""
    wanted = {_signature(node) for node in nodes}
    return [node for node in _candidates(gm) if _signature(node) in wanted]


def _signature(node: Node) -> str:
    arguments = torch.fx.map_arg((node.args, node.kwargs), lambda operand: _described(operand.meta.get("val")))
    return f"{node.target} {arguments}"


def _described(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    strides = value.stride() if value.layout == torch.strided else ""
    return f"{value.dtype} {tuple(value.shape)} {strides} on {value.device}"


def _name(node: Node) -> str:
    return str(schema_of(node.target).name).rpartition(":")[2]
