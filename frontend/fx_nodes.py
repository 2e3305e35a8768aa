"""Queries nodes of an FX graph: tensor operands, results, why kernels or ATen cannot take a node, memory it shares."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cuesta.errors import Unsupported
from cuesta.frontend.capture.effects import is_effect
from cuesta.frontend.graph_key import attribute
from cuesta.frontend.python_steps import is_view
from cuesta.frontend.refused_arguments import is_checked, refuses
from cuesta.frontend.refused_types import refused_type
from cuesta.frontend.rules import sizes_of
from cuesta.runtime.dtypes import COMPUTABLE, FLOAT8, SPELLING
from cuesta.targets import Target
from cuesta.torch_private.ops import OpOverload, schema_of
from cuesta.torch_private.tensors import memory_of

#: Pointwise ops that torch 2.11 does not tag as such.
UNTAGGED = frozenset({torch.ops.aten.leaky_relu})


def last_placeholder(graph: torch.fx.Graph) -> Node:
    """The last placeholder of a graph that has at least one."""
    return [node for node in graph.nodes if node.op == "placeholder"][-1]


def add_argument(graph: torch.fx.Graph, name: str, value: torch.Tensor) -> Node:
    """Adds a last argument to a graph, with the sizes and type of `value`."""
    with graph.inserting_after(last_placeholder(graph)):
        argument = graph.placeholder(name)
        argument.target = argument.name  # unique: FX's generated code would confuse it with a node of the same name
        argument.meta["val"] = value
    return argument


def inserting_behind(node: Node) -> AbstractContextManager[Any]:
    """A context in which nodes are added to the node's graph behind it, and behind all placeholders."""
    return node.graph.inserting_after(node if node.op != "placeholder" else last_placeholder(node.graph))


#: Ops that convert their operand to another type.
_CONVERSIONS = frozenset({torch.ops.aten._to_copy, torch.ops.prims.convert_element_type})


def is_conversion(node: Node) -> bool:
    """Whether a node converts its operand to another type."""
    return packet_of(node) in _CONVERSIONS


def packet_of(node: Node) -> Any:
    """The op that a node calls, whatever the overload; None for a node that calls no op."""
    return getattr(node.target, "overloadpacket", None)


def keep_results(graph: torch.fx.Graph, positions: Sequence[int]) -> None:
    """Drops all results of a graph but those at `positions`, together with the descriptions of dropped results."""
    node = graph.output_node()
    results: Sequence[Any] = node.args[0]  # type: ignore[assignment]
    if len(node.meta.get("desc", ())) == len(results):
        node.meta["desc"] = [node.meta["desc"][i] for i in positions]
    node.args = (tuple(results[i] for i in positions),)


def tensor_nodes(tree: Any) -> list[Node]:
    """The FX nodes in nested arguments whose values are tensors, in the order in which operands are numbered."""
    if isinstance(tree, Node):
        return [tree] if isinstance(tree.meta.get("val"), torch.Tensor) else []
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    if isinstance(tree, (list, tuple)):
        return [n for item in tree for n in tensor_nodes(item)]
    return []


def result_metas(node: Node) -> list[torch.Tensor]:
    result = node.meta.get("val")
    return [m for m in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(m, torch.Tensor)]


def makes(node: Node) -> bool:
    """Whether a node calls an op that takes no tensors, such as `full`."""
    return isinstance(node.target, OpOverload) and not tensor_nodes((node.args, node.kwargs))


def is_pointwise(node: Node) -> bool:
    """Whether a node calls a pointwise op."""
    return torch.Tag.pointwise in getattr(node.target, "tags", ()) or packet_of(node) in UNTAGGED


def is_by_element(node: Node) -> bool:
    """Whether a node computes each element from those at the same place, without random numbers."""
    is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return not is_random and (is_pointwise(node) or packet_of(node) is torch.ops.aten._to_copy)


def is_complex(node: Node) -> bool:
    """Whether an operand or a result of a node is complex."""
    metas = [n.meta["val"] for n in tensor_nodes((node.args, node.kwargs))] + result_metas(node)
    return any(meta.dtype.is_complex for meta in metas)


def not_compilable(node: Node, device: torch.device, moves_scalars: bool, gpu: bool) -> str | None:
    """Why kernels on `device` (a GPU where `gpu`) cannot take this node's operands or give its results, or None.

    With `moves_scalars`, 0-d tensors may be on another device."""
    operands = [n.meta["val"] for n in tensor_nodes((node.args, node.kwargs))]
    if any(0 in sizes_of(meta) for meta in operands + _read_results(node)) and not _leaves_out_empty(node):
        return "a tensor without elements"
    known = COMPUTABLE | FLOAT8 if is_view(node) or is_conversion(node) else COMPUTABLE
    for meta in operands + result_metas(node):
        # cuesta's own ops pass on random seeds, whose types kernels do not compute on.
        if SPELLING.get(meta.dtype) not in known and not str(node.target).startswith("cuesta."):
            return f"kernels do not compute on {str(meta.dtype).removeprefix('torch.')}"
        if gpu and meta.dtype == torch.complex128:
            return "kernels for GPUs do not compute on complex128: Triton has no type of 16 bytes"
        if meta.device != device and not (moves_scalars and meta.dim() == 0):
            return f"a tensor on the {meta.device.type} in a graph on {device}"
        if meta.layout != torch.strided:
            return f"kernels take strided tensors, not {meta.layout}"
    refused = refused_type(node.target, operands, result_metas(node))
    if refused:
        return f"{str(refused).removeprefix('torch.')} input: ATen raises"
    return "invalid arguments: ATen raises" if is_checked(node.target) and _is_refused(node) else None


def _is_refused(node: Node) -> bool:
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    return refuses(node.target, args, kwargs)


def not_callable(node: Node) -> str | None:
    """Why a node that calls an op cannot be a call into ATen, or None."""
    target, metas = node.target, node.meta.get("val")
    assert isinstance(target, OpOverload)
    results = [metas] if isinstance(metas, torch.Tensor) else [] if is_effect(node) else metas
    # Numbers among the results (attention's longest sequence) follow from the sizes: the traced value holds.
    kinds = (torch.Tensor, int, torch.SymInt, type(None))
    if not isinstance(results, (list, tuple)) or any(not isinstance(m, kinds) for m in results):
        return f"returns {type(metas).__name__}, not tensors"
    if schema_of(target).is_mutable:
        return "mutates its arguments"
    for arg in (*node.args, *node.kwargs.values()):
        if isinstance(arg, torch.Generator):
            return "takes a generator"
        if isinstance(arg, Node) and isinstance(arg.meta.get("val"), torch.SymFloat):
            return "takes a float that depends on sizes"
    if len({m.device for m in results if isinstance(m, torch.Tensor)}) > 1:
        return "returns tensors on several devices"
    return None


def _read_results(node: Node) -> list[torch.Tensor]:
    """The results that other nodes use. Unused results may be empty, such as batch norm's statistics in evaluation."""
    results = node.meta.get("val")
    if not isinstance(results, (list, tuple)) or any(user.target is not operator.getitem for user in node.users):
        return result_metas(node)
    read = [results[user.args[1]] for user in node.users]  # type: ignore[index]
    return [meta for meta in read if isinstance(meta, torch.Tensor)]


def _leaves_out_empty(node: Node) -> bool:
    """Whether a node may ignore operands without elements: a cache begins as a concatenation with an empty tensor."""
    return node.target is torch.ops.aten.cat.default and all(0 not in sizes_of(m) for m in result_metas(node))


def memory_root(node: Node) -> Node:
    """The node whose memory a node's result shares through views, by torch's rules; the node itself where its result
    is no view. Results with the same root may share memory; results with different roots must not, even if equal.
    """
    while lies_in_operands_memory(node):
        (node, *_) = node.all_input_nodes
    return node


def lies_in_operands_memory(node: Node) -> bool:
    """Whether a node's result shares its first operand's memory: a view by its schema, or `_unsafe_view`, which a
    copying reshape and a product of three dims are traced as. Writes through the result are seen in the operand."""
    return is_view(node) or node.target is torch.ops.aten._unsafe_view.default


def shared_offsets(
    results: Sequence[Node], in_arguments: Mapping[Node, tuple[Node, Node]]
) -> dict[int, int | torch.SymInt]:
    """Position of each result that shares memory with an argument or with other results → its offset in elements: from
    the argument's first element, or from the start of the shared memory. Groups with a tensor without elements, or
    with the conjugate or negative bit, are left out.

    `in_arguments`: result in an argument's memory → (argument, node whose value the argument holds after the call)."""
    groups: dict[tuple[Node, bool], list[int]] = {}
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
    """Offset of the view `part` from the first element of `whole`, in elements of `part`; None where that is not known
    to be a whole number."""
    begin, first = part.storage_offset(), whole.storage_offset()
    if part.dtype == whole.dtype:
        return begin - first
    between = begin * part.itemsize - first * whole.itemsize
    return between // part.itemsize if isinstance(between, int) and between % part.itemsize == 0 else None


def tensor_attribute(gm: GraphModule, target: str) -> torch.Tensor:
    value = attribute(gm, target)
    if not isinstance(value, torch.Tensor):
        raise Unsupported(f"the graph holds {target}, a {type(value).__name__}: higher-order ops run in Python")
    return value


def storage_of(node: Node) -> int | None:
    """A number for the storage of a node's tensor, which its views share; None for values that are no strided
    tensors."""
    return memory_of(node.meta.get("val"))


#: Ops whose result has the same number everywhere → which of their arguments it is; None for 0.
_FILLING: dict[Any, int | None] = {
    **dict.fromkeys((torch.ops.aten.zeros, torch.ops.aten.new_zeros, torch.ops.aten.zeros_like)),
    **dict.fromkeys((torch.ops.aten.full, torch.ops.aten.full_like), 1),
    torch.ops.aten.new_full: 2,
    torch.ops.aten.scalar_tensor: 0,
}


def filling_of(node: Any) -> float | None:
    """The number that all elements of a node's result are, by the op that makes it; None for any other node."""
    if not isinstance(node, Node) or packet_of(node) not in _FILLING:
        return None
    place = _FILLING[packet_of(node)]
    number: Any = 0 if place is None else node.args[place]
    return number if isinstance(number, (int, float)) else None


def is_for_gpu(node: Node, target: Target | None) -> bool:
    """Whether a node's value is computed on a GPU: by the target, or without one by the value's own device."""
    return bool(node.meta["val"].device.type != "cpu") if target is None else target.gpu
