"""What a call into ATen takes of torch's allocator while it runs, and gives back before it returns, where that is much.

The plan cannot change it, but what lies in the arena meanwhile comes on top of it.
"""

from __future__ import annotations

from collections.abc import Callable

from cuesta._mlir import ir
from cuesta.dialects.types import memref_shape
from cuesta.passes.plan_memory.lifetimes import byte_count, element_bytes
from cuesta.sizes import hint


def scratch_bytes(op: ir.Operation) -> int:
    """Bytes, about; 0 for what takes little, or nobody knows."""
    rule = _RULES.get(op.attributes["overload"].value) if op.name == "host.aten" else None
    return 0 if rule is None else rule(op)


def _rnn_layer(op: ir.Operation) -> int:
    """oneDNN's LSTM: both weights in its own layout, the gates of every step, and states, of which it holds a dozen.

    Measured with torch 2.13 and AVX-512: within 1 % at 8 and 16 sequences of 1 to 64 steps and 512 states; 12 % more is
    taken at 256 states.
    """
    x, *weights = (op.operands[i].type for i in range(3))
    (steps, batch, _), (gates, _) = memref_shape(x)[0], memref_shape(weights[0])[0]
    element = element_bytes(ir.MemRefType(x).element_type)
    states = hint(batch) * hint(gates) // 4
    return sum(hint(byte_count(w)) for w in weights) + element * (hint(steps) * hint(batch) * hint(gates) + 12 * states)


_RULES: dict[str, Callable[[ir.Operation], int]] = {"aten.mkldnn_rnn_layer.default": _rnn_layer}
