"""Pads the factors of large matrix products whose rows in memory do not begin at multiples of 16 bytes, such as those
of a head with 50257 classes, so that cuBLAS takes a fast kernel.

    %1 = mm(%x, t(%w))    w: 50257x768    →    %p = mm(%x, t(constant_pad_nd(%w, [0, 0, 0, 47])))
                                               %1 = slice(%p, 1, 0, 50257)

A kernel of ours that computes a factor, such as a weight that autocast converts, writes it into the padded buffer, and
readers read the result's slice in place. A factor that the caller or a library made is copied, so that the product is
padded only where it gains more time than the copy takes. Columns of a result that the caller gets are not padded: all
of it would be copied.

The pass runs on a joint graph before the split, so that the forward graph saves the padded result. A product that is
not padded is a kernel of ours (`passes/libraries/products/routes`), at two thirds of the speed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.devices import target_of_device
from cuesta.frontend.fx_nodes import is_pointwise, memory_root, packet_of
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.frontend.python_steps import is_view
from cuesta.targets import Target

aten = torch.ops.aten

#: cuBLAS wants rows to begin at multiples of so many elements of bf16 or f16; padding makes them multiples of a line of
#: memory, or of a sector of it where that would add more than the share `_MOST_ADDED` to the bytes.
_ALIGNED, _LINE, _SECTOR = 8, 64, 16
_MOST_ADDED = 1 / 8
#: Multiplications, and bytes, that take a second on an H200: a product by a kernel of ours, and a copy.
_MULTIPLICATIONS, _BYTES = 2.5e14, 4e12
#: The share of the product's time that is saved if M, K, or N is padded. On an H200 GPT-2's head, 8192x768x50257, took
#: 1.29 ms as our kernel, and 0.87 padded; the gradients of its input 1.09 and 0.80, and of its weight 0.86 and 0.79.
_SAVED = (0.05, 0.25, 0.3)
#: Multiplications a second where our kernel loads a factor element by element, because its rows begin unaligned, and of
#: cuBLAS with padded rows. Gradients of a head, 8192x512x50265 with logits' gradients from another graph, took our
#: kernels 3.7 and 3.9 ms on an H100.
_ONE_BY_ONE, _PADDED = 5.5e13, 3.2e14
#: Seconds of a launch more.
_LAUNCH = 3e-6


def pad_ragged_products(gm: GraphModule, target: Target | None = None) -> None:
    """Rewrites `mm` and `addmm` of a graph for an NVIDIA GPU, or for the interpreter of its kernels. `target` is the
    user's choice; None stands for the device of each product."""
    graph = gm.graph
    returned = {memory_root(value) for value in graph.output_node().all_input_nodes}
    padding = _Padding(gm)
    for node in list(graph.nodes):
        if packet_of(node) not in (aten.mm, aten.addmm) or node.kwargs or not _is_for_cublas(node, target):
            continue
        sizes = _sizes(node)
        ragged = list(_ragged(node, sizes))
        is_returned = memory_root(node) in returned
        if is_returned:
            ragged = [d for d in ragged if d != 2]  # the caller gets the rows as they are
        if ragged and _pays(node, sizes, ragged, is_returned):
            padding.pad(node, sizes, ragged)
    if padding.is_used:
        graph.eliminate_dead_code()
        graph.lint()
        gm.recompile()


def _is_for_cublas(node: Node, target: Target | None) -> bool:
    """Whether cuBLAS multiplies narrow floats, or the interpreter stands for a GPU where it does."""
    value = node.meta["val"]
    if value.dtype not in (torch.bfloat16, torch.float16):
        return False
    if target is None:
        return value.device.type == "cuda" and target_of_device(value.device).kind == "cuda"
    return target.kind in ("cuda", "tt")


def _factors(node: Node) -> tuple[Node, Node]:
    left, right = node.args[-2:]
    assert isinstance(left, Node) and isinstance(right, Node)
    return left, right


def _sizes(node: Node) -> list[Any]:
    """M, K, N."""
    left, right = (factor.meta["val"] for factor in _factors(node))
    return [*left.shape, right.shape[1]]


def _ragged(node: Node, sizes: list[Any]) -> Iterator[int]:
    """The dims of a product, 0 for M, 1 for K, 2 for N, that are rows of one of its matrices and not aligned."""
    left, right = (factor.meta["val"] for factor in _factors(node))
    rows = {(0, 1)[_row(left)], (1, 2)[_row(right)], 2}
    yield from (d for d in sorted(rows) if type(sizes[d]) is int and sizes[d] % _ALIGNED)


def _row(matrix: Tensor) -> int:
    """The dim along which a matrix's elements are side by side."""
    return 1 if matrix.stride(1) == 1 else 0


def _pays(node: Node, sizes: list[Any], ragged: list[int], is_returned: bool) -> bool:
    """Whether the product gains more time than its zeros take, as a product of few columns has many, and copies: of
    factors that no kernel of ours writes, and of a result with more rows than the caller gets."""
    if any(type(size) is not int for size in sizes):
        return False
    count = math.prod(sizes)
    gain = max(_SAVED[d] for d in ragged) * count / _MULTIPLICATIONS
    copies = {node: _copy_seconds(node)} if is_returned and 0 in ragged else {}
    for factor, dims in zip(_factors(node), ((0, 1), (1, 2)), strict=True):
        value = factor.meta["val"]
        if {*dims}.isdisjoint(ragged) or _is_written_by_us(_base(factor)):
            continue
        copies[_base(factor)] = _copy_seconds(factor)
        if dims[_row(value)] in ragged:
            gain = max(gain, count / _ONE_BY_ONE - count / _PADDED)
    return gain > sum(copies.values()) + _zeros(sizes, ragged) * node.meta["val"].element_size() / _BYTES


def _zeros(sizes: list[int], ragged: list[int]) -> int:
    """How many elements are added to the matrices of a product."""
    m, k, n = sizes
    wide_m, wide_k, wide_n = (size + (_padding_of(size) if d in ragged else 0) for d, size in enumerate(sizes))
    return wide_m * wide_k + wide_k * wide_n + wide_m * wide_n - m * k - k * n - m * n


def _copy_seconds(node: Node) -> float:
    value = node.meta["val"]
    return float(2 * value.numel() * value.element_size() / _BYTES + _LAUNCH)


def _base(factor: Node) -> Node:
    """What a factor is the transpose of, if it is one."""
    while packet_of(factor) in (aten.t, aten.alias) and isinstance(factor.args[0], Node):
        factor = factor.args[0]
    return factor


def _is_written_by_us(value: Node) -> bool:
    """Whether a kernel of ours computes a value, which then writes it with the padding."""
    root = memory_root(value)
    if root.op != "call_function":
        return False
    return is_pointwise(root) or packet_of(root) in (aten._to_copy, aten._log_softmax_backward_data)


def _padding_of(size: int) -> int:
    """How many zeros a row of so many elements gets."""
    to_line = -size % _LINE
    return to_line if to_line <= size * _MOST_ADDED else -size % _SECTOR


class _Padding:
    """Pads products of one graph; a factor that several products read is padded once."""

    def __init__(self, gm: GraphModule) -> None:
        self._graph = gm.graph
        self._write = NodeWriter(gm, "padding")
        self._made: dict[tuple[Node, tuple[int, int]], Node] = {}

    @property
    def is_used(self) -> bool:
        """Whether a product was padded."""
        return bool(self._made)

    def pad(self, node: Node, sizes: list[int], ragged: list[int]) -> None:
        """Replaces a product by a padded one; `ragged` are the dims to pad, of M, K, N."""
        m, k, n = (_padding_of(size) if d in ragged else 0 for d, size in enumerate(sizes))
        left, right = _factors(node)
        *bias, _, _ = node.args
        factors = [self._padded(left, (m, k)), self._padded(right, (k, n))]
        with self._graph.inserting_before(node):
            for addend in bias:
                assert isinstance(addend, Node)
                shape = addend.meta["val"].shape
                widths = (m if len(shape) == 2 and shape[0] != 1 else 0, n if shape[-1] != 1 else 0)
                factors.insert(0, self._call_pad(addend, widths[-len(shape) :]))
            made = self._write.call(node.target, *factors)
            if m:
                made = self._write.call(aten.slice.Tensor, made, 0, 0, sizes[0])
            if n:
                made = self._write.call(aten.slice.Tensor, made, 1, 0, sizes[2])
        node.replace_all_uses_with(made)
        _view_anyhow(made)

    def _padded(self, factor: Node, widths: tuple[int, int]) -> Node:
        """A factor with as many zeros more along each of its dims; a view of what it is a view of, padded."""
        if not any(widths):
            return factor
        if packet_of(factor) is aten.t and isinstance(factor.args[0], Node):
            inner = self._padded(factor.args[0], widths[::-1])
            with self._graph.inserting_after(inner):
                return self._write.call(aten.t.default, inner)
        key = (factor, widths)
        if key not in self._made:
            with self._graph.inserting_after(factor):
                self._made[key] = self._call_pad(factor, widths)
        return self._made[key]

    def _call_pad(self, value: Node, widths: tuple[int, ...]) -> Node:
        if not any(widths):
            return value
        amounts = [amount for width in reversed(widths) for amount in (0, width)]
        return self._write.call(aten.constant_pad_nd.default, value, amounts)


def _view_anyhow(node: Node) -> None:
    """Lets views of a value, whose rows have padding behind them now, copy it where no strides express them."""
    for user in node.users:
        if packet_of(user) in (aten.view, aten._unsafe_view):
            user.target = aten.reshape.default
        if is_view(user):
            _view_anyhow(user)
