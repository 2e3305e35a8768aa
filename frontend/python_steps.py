"""Finds the nodes of an ATen graph that no program can contain, so that they run in Python, and says why.

Imports no MLIR.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cuesta.frontend.capture.effects import is_effect
from cuesta.frontend.graph_key import aliases_of
from cuesta.runtime.dtypes import DTYPES
from cuesta.torch_private.decompositions import is_non_overlapping_and_dense_or_false
from cuesta.torch_private.ops import HigherOrderOperator, OpOverload, schema_of

aten = torch.ops.aten
_DTYPES = frozenset(DTYPES.values())

#: Namespaces of collectives. A collective reads and writes its tensors after it has returned, until a wait. torch finds
#: the work to wait for by a tensor's storage, and a program's memory plan knows nothing of that work.
_COLLECTIVES = frozenset({"_c10d_functional", "_c10d_functional_autograd", "c10d", "_dtensor", "fsdp", "symm_mem"})

#: Op → the position of its `storage_offset` among the op's arguments. The offset counts from the start of the storage.
#: A program sees only the part of the storage that an argument covers, and another call may pass another part. Of a
#: view, it sees only the values.
_OFFSETS: dict[Any, int] = {
    aten.as_strided.default: 3,
    aten.as_strided_copy.default: 3,
    aten.as_strided_scatter.default: 4,
}

#: Views that a program computes as copies, because its own strides cannot express them.
_GATHERED = frozenset({aten.as_strided.default, aten.diagonal.default, aten.unfold.default, aten.view.dtype})

#: Ops that copy the whole storage of their tensor and overwrite some elements; the result is at the same offset in the
#: copy. Fake tensors give it offset 0.
COPIES_OF_WHOLE_MEMORY = frozenset(
    op.default for op in (aten.as_strided_scatter, aten.diagonal_scatter, aten.select_scatter, aten.slice_scatter)
)

#: Ops that allocate a tensor and leave it uninitialised.
UNWRITTEN = frozenset(
    {
        *(aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default),
        *(aten.new_empty.default, aten.new_empty_strided.default),
    }
)

#: Sparse layouts: several tensors in one, whose number of elements depends on the data.
_SPARSE = frozenset({torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc})

#: Prefixes of ops that turn a quantised tensor into a plain one.
_OUT_OF_QUANTISED = ("aten.dequantize.", "aten.int_repr.", "aten.q_per_channel_")


def python_steps(gm: GraphModule) -> dict[Node, str]:
    """The nodes of a graph that no program can contain → the reason, without the `getitem` nodes of their results."""
    found: dict[Node, str] = {}
    #: nodes with quantised values; fake tensors do not show that a value is quantised
    quantised: set[Node] = set()
    placed = {view for node in gm.graph.nodes for view in _views_of_whole_memory(node)}
    shared = _views_beside_results(gm)
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        takes_quantised = any(n in quantised for n in node.all_input_nodes)
        reason = "it takes a quantised tensor" if takes_quantised else _reason(node)
        reason = "its offset counts from the start of the storage, not of the tensor" if node in placed else reason
        reason = "it shares memory with another result" if node in shared else reason
        if reason is not None:
            found[node] = reason
        name = str(node.target)
        if name.startswith("aten.quantize_per") or (takes_quantised and not name.startswith(_OUT_OF_QUANTISED)):
            quantised.add(node)
    for node in gm.graph.nodes:  # memory that a user's Triton kernel fills; a program would fill it a first time
        if node.target in UNWRITTEN and node.users and all(user in found for user in node.users):
            found[node] = "only steps in Python write to it"
    return found


def takes_nested_size(gm: GraphModule) -> bool:
    """Whether an argument is a nested int, the size of a nested tensor's ragged dim: a symbol that is no number."""
    values = [n.meta.get("val") for n in gm.graph.find_nodes(op="placeholder")]
    return any(isinstance(value, torch.SymInt) and value.node.is_nested_int() for value in values)


def is_random(node: Node) -> bool:
    """Whether a node draws random numbers from torch's generator."""
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def writes_argument(node: Node) -> bool:
    """Whether a node copies a new value into an argument, as AOTAutograd does at the end of a graph."""
    destination = node.args[0] if node.args else None
    copies = node.op == "call_function" and node.target is aten.copy_.default
    return copies and isinstance(destination, Node) and destination.op == "placeholder"


def is_view(node: Node) -> bool:
    """Whether a node's result shares its first operand's memory by torch's rules."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
        return False
    if node.target is operator.getitem:
        return is_view(node.args[0])
    return isinstance(node.target, OpOverload) and any(
        r.alias_info is not None and not r.alias_info.is_write for r in schema_of(node.target).returns
    )


def offset_of(node: Node) -> Any:
    """The `storage_offset` that a view by strides, a copy of one or a write through one is given; None if none is."""
    position = _OFFSETS[node.target]
    return node.args[position] if len(node.args) > position else node.kwargs.get("storage_offset")


def _views_of_whole_memory(node: Node) -> list[Node]:
    """The nodes that must run in Python because `node` addresses a whole storage by offset, where an argument or a view
    is only part of that storage: `node` itself, and the views and whole-storage copies that it is made from."""
    if node.op != "call_function" or node.target not in _OFFSETS:
        return []
    offset = offset_of(node)
    before, source = views_of(node.args[0], COPIES_OF_WHOLE_MEMORY)
    views = [node, *before]
    if offset is None:  # it begins where its tensor does; only elements in a view's gaps or past its end are foreign
        return views if len(views) > 1 and (has_gaps(views[1]) or _reaches_past(node, views[1])) else []
    return views if _is_given(source) or len(views) > 1 else []


def _views_beside_results(gm: GraphModule) -> set[Node]:
    """The views of each result that a program would copy (`_GATHERED`) although another result shares its memory and
    no argument does: the caller must see a write to one result in the other. Results that the output node's `ALIASES`
    place in an argument are left out."""
    (output,) = gm.graph.find_nodes(op="output")
    in_arguments = {output.args[0][position] for position in aliases_of(output)}
    found = {item: views_of(item) for item in output.args[0] if isinstance(item, Node) and item not in in_arguments}
    users = Counter(root for _, root in found.values())
    shared = {root for root, count in users.items() if count > 1 and not _is_given(root)}
    return {view for views, root in found.values() if root in shared and _gathers(views) for view in views}


def _is_given(node: Any) -> bool:
    """Whether a value is an argument of the graph or a tensor that the graph holds."""
    return isinstance(node, Node) and node.op in ("placeholder", "get_attr")


def _gathers(views: Sequence[Node]) -> bool:
    return any(view.target in _GATHERED for view in views)


def views_of(node: Any, and_ops: Collection[Any] = ()) -> tuple[list[Node], Any]:
    """The chain of views that ends in `node`, last view first, and the value viewed; `and_ops` count as views."""
    views = []
    while isinstance(node, Node) and (is_view(node) or node.target in and_ops):
        views.append(node)
        node = node.args[0]
    return views, node


def has_gaps(node: Node) -> bool:
    """Whether a node's result is a tensor whose elements are not side by side in memory, each once."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not is_non_overlapping_and_dense_or_false(value)


def _reaches_past(node: Node, view: Node) -> bool:
    """Whether `node`, which begins where `view` does, may reach past the last element of `view`."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return False
    from cuesta.torch_private.symbolic_shapes import statically_known_true

    last = sum((n - 1) * stride for n, stride in zip(value.shape, value.stride(), strict=True))
    within = statically_known_true
    return not (within(value.numel() == 0) or within(last < view.meta["val"].numel()))


def _reason(node: Node) -> str | None:
    target = node.target
    if isinstance(node.meta.get("val"), torch.SymBool):
        return "a comparison of sizes"
    if _unbacked(node) - set().union(*map(_unbacked, node.all_input_nodes)):
        return "its result's size depends on the data"
    if target is aten.sym_storage_offset.default and _unbacked(node):
        return "its tensor's storage offset depends on the data"  # the offset does not follow from the arguments' sizes
    if any(isinstance(n.meta.get("val"), torch.SymFloat) and _unbacked(n) for n in node.all_input_nodes):
        return "it takes a float that depends on the data"
    if any(isinstance(n.meta.get("val"), torch.SymBool) for n in node.all_input_nodes):
        return "it takes a comparison of sizes"
    if isinstance(target, HigherOrderOperator):
        return "a higher-order op"
    if not isinstance(target, OpOverload):
        return None  # arithmetic on sizes
    if target.namespace in _COLLECTIVES:
        return "a collective"
    if schema_of(target).is_mutable and not writes_argument(node):
        return "it writes to its arguments"
    value = node.meta.get("val")
    about_sizes = schema_of(target).name.startswith("aten::sym_")
    makes_tensors = any(isinstance(leaf, torch.Tensor) for leaf in _leaves(value))
    if not (about_sizes or makes_tensors or is_effect(node)):
        return "it returns no tensor"
    given = [*_leaves((node.args, node.kwargs)), *_leaves([n.meta.get("val") for n in node.all_input_nodes])]
    if any(isinstance(leaf, torch.Generator) for leaf in given):
        return "it takes a generator"
    for leaf in (*given, *_leaves(value)):
        if isinstance(leaf, torch.Tensor) and leaf.layout in _SPARSE:
            return "programs take no sparse tensors"
        dtype = leaf.dtype if isinstance(leaf, torch.Tensor) else leaf
        if isinstance(dtype, torch.dtype) and dtype not in _DTYPES:
            return f"cuesta has no type for {str(dtype).removeprefix('torch.')}"
    return None


def _unbacked(node: Node) -> set[Any]:
    """The symbols in a node's value that stand for data-dependent sizes."""
    from cuesta.torch_private.symbolic_shapes import free_unbacked_symbols

    leaves = _leaves(node.meta.get("val"))  # one by one: torch refuses the dict that a user's Triton kernel returns
    return set().union(*(free_unbacked_symbols(leaf) for leaf in leaves if not _is_of_numbers(leaf)))


def _is_of_numbers(leaf: Any) -> bool:
    """Whether a value has no symbols. Saves time: torch's search for symbols makes an expression of each number."""
    if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
        return all(type(n) is int for n in (*leaf.shape, *leaf.stride(), leaf.storage_offset()))
    return leaf is None or type(leaf) is int


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    if isinstance(tree, (list, tuple)):
        for item in tree:
            yield from _leaves(item)
    else:
        yield tree
