"""What gradients compute again and what is saved for them, where that depends on what cuesta fuses.

torch's partitioner saves what is not on its list of ops that cost nothing in another's loop. The list lacks ops that
Inductor takes apart before and cuesta has whole, and `detach`, through which autograd hands results to gradients:

    %y = relu(%x)       forward graph: returns %x, which others need, and %y     →   returns %x
    %d = detach(%y)     backward graph: threshold_backward(%g, %d)               →   threshold_backward(%g, relu(%x))

What takes longer to compute than to read stays detached, and so is saved: a loss's gradient may lie in its memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from unittest import mock

import torch
from torch._functorch import partitioners

from cuesta.frontend.fx_nodes import memory_root

aten = torch.ops.aten

#: Ops that cuesta computes in the loops of others and that are not on torch's list.
_CHEAP = frozenset({aten.hardswish, aten.amin})

#: Results that autograd hands to gradients as they take so long to compute.
_DEAR = frozenset(
    {
        *(aten.exp, aten.expm1, aten.exp2, aten.tanh, aten.sigmoid, aten.tan, aten.pow, aten.special_ndtri),
        *(aten.sqrt, aten.rsqrt, aten.reciprocal),
    }
)


@contextlib.contextmanager
def cheap_ops_known() -> Iterator[None]:
    """Within it torch's partitioner computes again what cuesta computes in the loops of others."""
    types = partitioners.get_default_op_list()
    ours = dataclasses.replace(
        types, fusible_ops=types.fusible_ops | _CHEAP, recomputable_ops=types.recomputable_ops | _CHEAP
    )
    with mock.patch.object(partitioners, "get_default_op_list", lambda: ours):
        yield


def read_undetached(graph: torch.fx.Graph) -> None:
    """Lets what reads a detached value in a joint graph, which has no gradients to come, read the value itself, unless
    that takes long to compute."""
    for node in graph.find_nodes(op="call_function", target=aten.detach.default):
        value = node.args[0]
        assert isinstance(value, torch.fx.Node)
        if getattr(memory_root(value).target, "overloadpacket", None) not in _DEAR:
            node.replace_all_uses_with(value, delete_user_cb=lambda user: user.op != "output")
            if not node.users:
                graph.erase_node(node)
