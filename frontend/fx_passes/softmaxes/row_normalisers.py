"""Lets gradients of log_softmax compute its result anew, from its operand and what normalises each row.

    forward:   %y = log_softmax(%x)                      forward:   %y = log_softmax(%x)
    backward:  log_softmax_backward(%g, %y)          →              %m = amax(%x), %s = log(sum(exp(%x - %m)))
                                                         backward:  log_softmax_backward(%g, (%x - %m) - %s)

torch's partitioner then saves a number or two of each row, and %x. A language model's loss takes %x, the logits, to f32
first: instead of f32 logits of a large vocabulary, of which nothing else is read but those of the targets, the narrow
ones are saved. The forward graph need not write %y at all, as the loss is computed in the loops that compute %y.

Of a narrow %x the ops compute in f32, and %y is rounded once, as in eager.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

from cuesta.frontend.fx_passes.node_writer import NodeWriter

aten = torch.ops.aten
#: Gradients that take the result of log_softmax as their second operand; a loss's needs its shape only.
_GRADIENTS = (
    aten._log_softmax_backward_data.default,
    aten.nll_loss_backward.default,
    aten.nll_loss2d_backward.default,
)


def save_normalisers(gm: GraphModule) -> None:
    """Rewrites log_softmax in a joint graph where gradients read it."""
    writer = NodeWriter(gm, "rows")
    for node in gm.graph.find_nodes(op="call_function", target=aten._log_softmax.default):
        gradients = [user for user in node.users if user.target in _GRADIENTS and user.args[1] is node]
        if node.meta["val"].dim() > 0 and any(user.target == _GRADIENTS[0] for user in gradients):
            _rewrite(writer, node, gradients)
            gm.graph.erase_node(node)


def _rewrite(writer: NodeWriter, node: Node, gradients: list[Node]) -> None:
    """Computes a log_softmax as decompose does, and once more for its gradients: the partitioner would save a value
    that the forward graph reads too."""
    x, dim, _ = node.args
    assert isinstance(x, Node)
    own = node.meta["val"].dtype
    wide = torch.promote_types(own, torch.float32)

    def rounded(value: Node) -> Node:
        return value if own == wide else writer.call(aten._to_copy.default, value, dtype=own)

    with node.graph.inserting_before(node):
        if x.meta["val"].dtype != wide:
            x = writer.call(aten._to_copy.default, x, dtype=wide)
        highest = writer.call(aten.amax.default, x, [dim], True)
        shifted = writer.call(aten.sub.Tensor, x, highest)
        total = writer.call(aten.sum.dim_IntList, writer.call(aten.exp.default, shifted), [dim], True)
        logarithm = writer.call(aten.log.default, total)
        result = rounded(writer.call(aten.sub.Tensor, shifted, logarithm))
        anew = rounded(writer.call(aten.sub.Tensor, writer.call(aten.sub.Tensor, x, highest), logarithm))
    for saved in (highest, logarithm):
        saved.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    for gradient in gradients:
        gradient.update_arg(1, anew)
    node.replace_all_uses_with(result)
