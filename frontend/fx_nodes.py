"""Reading the nodes of an FX graph: tensors among arguments, what a node makes, whose memory it shares."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from cuesta.errors import Unsupported
from cuesta.frontend.capture.effects import is_effect
from cuesta.frontend.graph_key import attribute
from cuesta.frontend.python_steps import is_view
from cuesta.frontend.refused_arguments import is_checked, refuses
from cuesta.frontend.refused_types import refused_type
from cuesta.frontend.rules import sizes_of
from cuesta.runtime.dtypes import COMPUTABLE, SPELLING


def last_placeholder(graph: torch.fx.Graph) -> torch.fx.Node:
    """The last argument of a graph that has any."""
    return [node for node in graph.nodes if node.op == "placeholder"][-1]


def keep_results(graph: torch.fx.Graph, positions: Sequence[int]) -> None:
    """Leaves a graph the results at these positions, and what is said of them."""
    node = graph.output_node()
    results: Sequence[Any] = node.args[0]  # type: ignore[assignment]
    if len(node.meta.get("desc", ())) == len(results):
        node.meta["desc"] = [node.meta["desc"][i] for i in positions]
    node.args = (tuple(results[i] for i in positions),)


def tensor_nodes(tree: Any) -> list[torch.fx.Node]:
    """The FX nodes among arguments that hold tensors, in the order in which operands are numbered."""
    if isinstance(tree, torch.fx.Node):
        return [tree] if isinstance(tree.meta.get("val"), torch.Tensor) else []
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    if isinstance(tree, (list, tuple)):
        return [n for item in tree for n in tensor_nodes(item)]
    return []


def result_metas(node: torch.fx.Node) -> list[torch.Tensor]:
    result = node.meta.get("val")
    return [m for m in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(m, torch.Tensor)]


def makes(node: torch.fx.Node) -> bool:
    """Whether a node computes from numbers alone."""
    return isinstance(node.target, torch._ops.OpOverload) and not tensor_nodes((node.args, node.kwargs))


def is_complex(node: torch.fx.Node) -> bool:
    """Whether an operand or a result of a node is complex."""
    metas = [n.meta["val"] for n in tensor_nodes((node.args, node.kwargs))] + result_metas(node)
    return any(meta.dtype.is_complex for meta in metas)


def not_compilable(node: torch.fx.Node, device: torch.device, moves_scalars: bool, gpu: bool) -> str | None:
    """Why kernels on `device`, those of a GPU where `gpu`, cannot hold this node's operands or results, or None."""
    operands = [n.meta["val"] for n in tensor_nodes((node.args, node.kwargs))]
    if any(0 in sizes_of(meta) for meta in operands + _read_results(node)) and not _leaves_out_empty(node):
        return "a tensor without elements"
    for meta in operands + result_metas(node):
        # Our own ops hand seeds of other types through.
        if SPELLING.get(meta.dtype) not in COMPUTABLE and not str(node.target).startswith("cuesta."):
            return f"kernels do not compute on {str(meta.dtype).removeprefix('torch.')}"
        if gpu and meta.dtype == torch.complex128:
            return "kernels for GPUs do not compute on complex128: Triton has no type of 16 bytes"
        if meta.device != device and not (moves_scalars and meta.dim() == 0):
            return f"a tensor on the {meta.device.type} in a graph on {device}"
        if meta.layout != torch.strided:
            return f"kernels take strided tensors, not {meta.layout}"
    refused = refused_type(node.target, operands, result_metas(node))
    if refused:
        return f"of {str(refused).removeprefix('torch.')}, which ATen refuses"
    return "of arguments that ATen refuses" if is_checked(node.target) and _is_refused(node) else None


def _is_refused(node: torch.fx.Node) -> bool:
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    return refuses(node.target, args, kwargs)


def not_callable(node: torch.fx.Node) -> str | None:
    """Why a node, a call of an op, cannot be a call into ATen, or None."""
    target, metas = node.target, node.meta.get("val")
    assert isinstance(target, torch._ops.OpOverload)
    results = [metas] if isinstance(metas, torch.Tensor) else [] if is_effect(node) else metas
    # Numbers beside tensors (attention's longest sequence) follow from the sizes, so they are what was traced.
    kinds = (torch.Tensor, int, torch.SymInt, type(None))
    if not isinstance(results, (list, tuple)) or any(not isinstance(m, kinds) for m in results):
        return f"returns {type(metas).__name__}, not tensors"
    if target._schema.is_mutable:
        return "mutates its arguments"
    for arg in (*node.args, *node.kwargs.values()):
        if isinstance(arg, torch.Generator):
            return "takes a generator"
        if isinstance(arg, torch.fx.Node) and isinstance(arg.meta.get("val"), torch.SymFloat):
            return "takes a float that depends on sizes"
    if len({m.device for m in results if isinstance(m, torch.Tensor)}) > 1:
        return "returns tensors on several devices"
    return None


def _read_results(node: torch.fx.Node) -> list[torch.Tensor]:
    """Without those of several that nobody takes, such as the statistics that batch norm leaves empty in evaluation."""
    results = node.meta.get("val")
    if not isinstance(results, (list, tuple)) or any(user.target is not operator.getitem for user in node.users):
        return result_metas(node)
    read = [results[user.args[1]] for user in node.users]  # type: ignore[index]
    return [meta for meta in read if isinstance(meta, torch.Tensor)]


def _leaves_out_empty(node: torch.fx.Node) -> bool:
    """Whether operands without elements do not matter to a node: caches begin as a concatenation with nothing."""
    return node.target is torch.ops.aten.cat.default and all(0 not in sizes_of(m) for m in result_metas(node))


def memory_root(node: torch.fx.Node) -> torch.fx.Node:
    """The node whose memory a node's result shares by torch's rules, through views; itself where it has its own.

    Results with one root may share memory, others must not, even where their values turn out to be equal.
    """
    while lies_in_operands_memory(node):
        (node, *_) = node.all_input_nodes
    return node


def lies_in_operands_memory(node: torch.fx.Node) -> bool:
    """Whether a node's result is a view of its first operand: by its schema, or the "unsafe" view that a reshape which
    copies, and a product of three dims, are traced as; what is written to a part of it is seen in the whole."""
    return is_view(node) or node.target is torch.ops.aten._unsafe_view.default


def shared_offsets(
    results: Sequence[torch.fx.Node], in_arguments: Mapping[torch.fx.Node, tuple[torch.fx.Node, torch.fx.Node]]
) -> dict[int, int | torch.SymInt]:
    """The position of each result that lies in an argument's memory, or in memory that other results share → where it
    begins there, in elements of the result: behind the argument's first element, or in the shared memory. Left out
    where they are without elements, or to be conjugated or negated when read.

    `in_arguments` has the results that lie in an argument, each with that and the node that is its value then."""
    groups: dict[tuple[torch.fx.Node, bool], list[int]] = {}
    for i, node in enumerate(results):
        groups.setdefault((memory_root(node), node in in_arguments), []).append(i)
    found: dict[int, int | torch.SymInt] = {}
    for (root, given), positions in groups.items():
        metas = [results[i].meta["val"] for i in positions]
        whole = [root.meta["val"]] if given else []
        plain = not any(meta.is_conj() or meta.is_neg() or 0 in sizes_of(meta) for meta in metas + whole)
        is_one = len({storage_of(node) for node in [results[i] for i in positions] + [root] * given}) == 1
        if given and plain and is_one:
            offsets = zip(positions, [_offset_behind(meta, *whole) for meta in metas], strict=True)
            found.update({i: offset for i, offset in offsets if offset is not None})
        elif len(positions) > 1 and root.op == "call_function" and plain and is_one:
            found.update({i: meta.storage_offset() for i, meta in zip(positions, metas, strict=True)})
    return found


def _offset_behind(part: torch.Tensor, whole: torch.Tensor) -> int | torch.SymInt | None:
    """Where a view of a tensor begins behind the tensor's first element, in elements of the view; None where no whole
    number says so."""
    begin, first = part.storage_offset(), whole.storage_offset()
    if part.dtype == whole.dtype:
        return begin - first
    between = begin * part.itemsize - first * whole.itemsize
    return between // part.itemsize if isinstance(between, int) and between % part.itemsize == 0 else None


def tensor_attribute(gm: torch.fx.GraphModule, target: str) -> torch.Tensor:
    value = attribute(gm, target)
    if not isinstance(value, torch.Tensor):
        raise Unsupported(f"the graph holds {target}, a {type(value).__name__}: higher-order ops run in Python")
    return value


def storage_of(node: torch.fx.Node) -> StorageWeakRef | None:
    """The memory that a node's tensor lies in, which its views share; None for what is no tensor with one."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    return StorageWeakRef(value.untyped_storage())
