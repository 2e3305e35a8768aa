"""The types of flex_attention's results; what it computes is in end_to_end/contract/test_flex_attention.py."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, GraphModule

from cuesta.frontend.attention.spelling import _take_part


def test_a_result_takes_the_type_that_torch_gives_it() -> None:
    """torch 2.11 gives the gradient of a captured tensor of bf16 as bf16, and torch 2.13 as its sums, in f32."""
    graph = Graph()
    sums = graph.placeholder("sums")
    part = graph.call_function(operator.getitem, ((sums,), 0))
    graph.output(part)
    sums.meta["val"], part.meta["val"] = torch.zeros(3), torch.zeros(3, dtype=torch.bfloat16)
    _take_part(part, [sums])
    (result,) = graph.find_nodes(op="call_function", target=torch.ops.aten._to_copy.default)
    assert result.meta["val"].dtype == torch.bfloat16
    assert GraphModule({}, graph)(torch.ones(3)).dtype == torch.bfloat16
