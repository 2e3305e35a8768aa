"""Marks ops that the options want called in ATen, though cuesta could compile them; the importer reads the marks.

With `bitwise_eager`, results have the bits of eager's on CPU. Ops with only one possible result are compiled: ops that
move data, and ops that IEEE 754 rounds once. All other ops (exp, tanh, x ** 3, sums, matrix products, a + alpha * b,
which ATen rounds once and cuesta twice) are calls into ATen. They are not decomposed, because the decomposition would
round differently. docs/options.md states the limits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cuesta.frontend.rules import CALL_IN_ATEN
from cuesta.options import EAGERS_BITS, EAGERS_NUMBERS, Options
from cuesta.torch_private.ops import OpOverload, schema_of

#: ATen ops that create, move or select numbers and compute none.
_MOVES = frozenset(
    {
        *("_conj_copy", "_reshape_copy", "_to_copy", "_unsafe_index", "_unsafe_view", "alias", "alias_copy"),
        *("as_strided", "as_strided_copy", "cat", "clone", "constant_pad_nd", "contiguous", "copy", "detach"),
        *("detach_copy", "diagonal", "diagonal_copy", "diagonal_scatter", "embedding", "empty", "empty_like"),
        *("empty_strided", "expand", "expand_copy", "fill", "flip", "full", "full_like", "gather", "index"),
        *("index_put", "index_select", "lift_fresh", "lift_fresh_copy", "masked_fill", "narrow"),
        *("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "permute"),
        *("permute_copy", "repeat", "reshape", "roll", "scalar_tensor", "select", "select_backward", "select_copy"),
        *("select_scatter", "slice", "slice_backward", "slice_copy", "slice_scatter", "split", "split_with_sizes"),
        *("split_with_sizes_copy", "squeeze", "stack", "t", "t_copy", "transpose", "transpose_copy", "unbind"),
        *("unfold", "unsafe_split", "unsqueeze", "view", "view_as", "view_copy", "where", "zeros", "zeros_like"),
    }
)

#: ATen ops that round once, or not at all, for every dtype.
_EXACT = frozenset(
    {
        *("abs", "add", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift"),
        *("bitwise_xor", "ceil", "copysign", "div", "eq", "floor", "ge", "gt", "isfinite", "isinf", "isnan", "le"),
        *("logical_and", "logical_not", "logical_or", "logical_xor", "lt", "mul", "ne", "neg", "reciprocal"),
        *("round", "rsub", "sign", "signbit", "square", "sub", "threshold_backward", "trunc"),
    }
)

#: ATen ops that are exact only on integers. On floats, the maximum of 0.0 and -0.0 may be either, and a quotient is
#: rounded twice.
_EXACT_ON_INTEGERS = frozenset(
    ("arange", "clamp", "clamp_max", "clamp_min", "floor_divide", "maximum", "minimum", "relu", "remainder")
)


def mark_calls(gm: torch.fx.GraphModule, options: Options) -> None:
    """Marks nodes of a functional ATen graph that must be called in ATen, each with the reason."""
    for node in gm.graph.nodes:
        reason = _reason(node, options)
        if reason is not None:
            node.meta[CALL_IN_ATEN] = reason


def _reason(node: Node, options: Options) -> str | None:
    if not isinstance(node.target, OpOverload):
        return None
    if options.bitwise_eager and not _is_exact(node):
        return EAGERS_BITS
    if options.fallback_random and _drops_on_gpu(node):
        return EAGERS_NUMBERS
    return None


def _drops_on_gpu(node: Node) -> bool:
    """Whether a node is a dropout on a GPU. Eager's kernel there draws random numbers in another order than cuesta,
    which draws the mask; on a CPU both draw the mask."""
    return node.target is torch.ops.aten.native_dropout.default and node.meta["val"][0].device.type != "cpu"


def _is_exact(node: Node) -> bool:
    """Whether a call of an ATen op has eager's bits when cuesta compiles it."""
    name = schema_of(node.target).name.removeprefix("aten::")
    if name in _MOVES or name == "copy_":
        return True
    if name in _EXACT:
        return not _scales(node) and not node.kwargs.get("rounding_mode")
    return name in _EXACT_ON_INTEGERS and not any(map(_is_float, _metas(node)))


def _scales(node: Node) -> bool:
    """Whether an op multiplies an operand by an `alpha` other than 1, as add, sub and rsub may."""
    alpha = node.kwargs.get("alpha", node.args[2] if len(node.args) > 2 else 1)
    return "alpha" in {a.name for a in schema_of(node.target).arguments} and bool(alpha != 1)


def _metas(node: Node) -> list[Any]:
    return [n.meta.get("val") for n in (node, *node.all_input_nodes)] + list(node.args) + list(node.kwargs.values())


def _is_float(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() or value.is_complex()
    return isinstance(value, (float, complex))
