"""Names private parts of FX: modules that write their code late, and the mark of erased nodes. Loaded with torch."""

import torch
from torch.fx._lazy_graph_module import _LazyGraphModule

#: A graph module that generates its Python code only when that is read. Without it, each change and each copy of a
#: graph generates the code of all nodes.
LazyGraphModule = _LazyGraphModule


def is_erased(node: torch.fx.Node) -> bool:
    """Whether the node has been taken out of its graph. Without it, a mask's node is erased twice, which raises."""
    return node._erased


def chooses_attention(node: torch.fx.Node) -> bool:
    """Whether the node is Dynamo's call for `with torch.nn.attention.sdpa_kernel(…)`. Without it, attention that the
    user has computed by one backend is computed by another."""
    return node.op == "call_function" and node.target is torch.nn.attention._sdpa_kernel
