"""Registers for complex numbers the rules that they share with real ones: rules that move or convert elements."""

from __future__ import annotations

from cuesta.frontend.aten import creation, indexing, pointwise, reduction, scatter, shape, strided  # noqa: F401  fill RULES
from cuesta.frontend.rules import COMPLEX_RULES, RULES

_MOVES = (
    *("view.default", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "_reshape_copy", "view_copy.default"),
    *("t", "transpose", "permute", "t_copy", "transpose_copy", "permute_copy", "expand", "expand_copy"),
    *("slice.Tensor", "narrow", "slice_copy", "select.int", "select_copy", "diagonal", "diagonal_copy"),
    *("split.Tensor", "split_with_sizes", "unsafe_split.Tensor", "unbind", "split_with_sizes_copy"),
    *("cat", "stack", "flip", "roll", "repeat", "constant_pad_nd", "unfold", "as_strided", "as_strided_copy"),
    *("slice_backward", "slice_scatter", "select_scatter", "select_backward", "diagonal_scatter"),
    *("clone", "contiguous", "detach", "alias", "lift_fresh_copy", "lift_fresh", "view_as", "alias_copy"),
    *("detach_copy", "copy", "where", "masked_fill", "embedding", "index_select", "gather"),
    *("index.Tensor", "_unsafe_index.Tensor", "index_put.default", "_unsafe_index_put.default"),
    *("scatter.value", "scatter.src", "put", "index_copy", "index_fill.int_Scalar", "masked_scatter"),
    *("full", "full_like", "fill", "new_full", "scalar_tensor"),
    *("zeros", "zeros_like", "new_zeros", "_efficientzerotensor", "ones", "ones_like", "new_ones"),
    *("empty.memory_format", "empty_like", "new_empty", "empty_permuted", "empty_strided", "new_empty_strided"),
)

#: Ops that convert to another type, or that first convert their operand to bool.
_CONVERTS = ("_to_copy", "any", "all")

_SHARED = {f"aten.{name}" for name in (*_MOVES, *_CONVERTS)} | {"prims.convert_element_type"}
COMPLEX_RULES.update({name: rule for name, rule in RULES.items() if name in _SHARED})
