"""Estimates the scratch of calls into ATen that take much: memory from torch's allocator, freed before they return.

The plan cannot change a call's scratch, but the buffers that are in the arena meanwhile come on top of it. Scratch per
thread is counted for as many threads as torch has when the graph is compiled.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from cuesta._mlir import ir
from cuesta.dialects.aten import decode_call
from cuesta.dialects.host import Call
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import memref_shape
from cuesta.passes.plan_memory.lifetimes import byte_count, element_bytes
from cuesta.sizes import hint


def scratch_bytes(op: ir.Operation) -> int:
    """Estimated bytes of an op's scratch; 0 if it takes little, or an unknown amount."""
    rule = _RULES.get(Call.overload.of(op)) if Call.matches(op) else None
    return 0 if rule is None else rule(op)


def _rnn_layer(op: ir.Operation) -> int:
    """oneDNN's LSTM: both weights in oneDNN's own layout, the gates of every step, and a dozen states.

    Measured with torch 2.13 and AVX-512: within 1 % at 8 and 16 sequences of 1 to 64 steps and 512 states; at 256
    states, 12 % more is taken.
    """
    x, *weights = (op.operands[i].type for i in range(3))
    (steps, batch, _), (gates, _) = memref_shape(x)[0], memref_shape(weights[0])[0]
    element = element_bytes(ir.MemRefType(x).element_type)
    states = hint(batch) * hint(gates) // 4
    return sum(hint(byte_count(w)) for w in weights) + element * (hint(steps) * hint(batch) * hint(gates) + 12 * states)


def _convolution(op: ir.Operation) -> int:
    """oneDNN's convolution of two dims in f32: the weight in oneDNN's layout, and in a row-major call the images too.

    This and the scratch of gradients were measured with torch 2.13 and AVX-512, for the layers of ResNet-18, ResNet-50
    and MobileNetV3. Scratch per thread, 8 KB and more, is not included.
    """
    x, weight = (op.operands[i].type for i in range(2))
    if not _is_onednn(op, x):
        return 0
    (result,) = [r.type for r in op.results] or [op.operands[-1].type]
    return _size(weight) if _is_channels_last(x) else max(_size(weight) + _size(x), _size(result))


def _gradients(op: ir.Operation) -> int:
    """Gradients of oneDNN's convolution: their scratch, without the tensors that they return."""
    result, x, weight = (op.operands[i].type for i in range(3))
    if not _is_onednn(op, x):
        return 0
    arguments, _ = decode_call(Call.args.of(op), list(op.operands))
    if not arguments[-1][1]:  # of the weight
        return _size(weight) if _is_channels_last(x) else max(_size(weight) + _size(result), _size(x))
    if not _is_channels_last(x):
        return max(_size(weight), _size(x) + _size(result))
    sizes, _ = memref_shape(weight)
    is_depthwise = sizes[1] == 1 and arguments[-2] > 1
    if is_depthwise and max(hint(n) for n in sizes[2:]) > _LARGEST_WINDOW:
        return (_BLOCK + 1) * _size(weight)
    return 2 * _size(weight)


#: Largest window of a depthwise convolution for which oneDNN has a special kernel for the weight's gradient. For larger
#: windows oneDNN uses blocks of 16 x 16 channels, in each of which a depthwise weight uses one element.
_LARGEST_WINDOW, _BLOCK = 3, 256


def _attention(op: ir.Operation) -> int:
    """ATen's attention on a CPU: each thread's scores of a block, with their maxima, sums and weighted values; and the
    logsumexp if it is not a result of the op."""
    query, key = (memref_shape(op.operands[i].type)[0] for i in range(2))
    batch, heads, length, size = map(hint, query)
    rows, columns = _attention_block(length, hint(key[2]))
    unasked = batch * heads * length if len(op.results) == 1 else 0
    return _F32 * (torch.get_num_threads() * rows * (columns + 2 + size) + unasked)


def _attention_gradients(op: ir.Operation) -> int:
    """Gradients of ATen's attention: each thread's weights of a block and their gradients, and the sums of rows."""
    _, query, key = (memref_shape(op.operands[i].type)[0] for i in range(3))
    rows, columns = _attention_block(hint(query[2]), hint(key[2]))
    return _F32 * (torch.get_num_threads() * 2 * rows * columns + rows)


def _attention_block(queries: int, keys: int) -> tuple[int, int]:
    """Queries and keys per block in aten/src/ATen/native/cpu/FlashAttentionKernel.cpp."""
    rows = 256 if queries >= 768 else 64 if queries >= 192 else 32
    return min(rows, queries), min(512, keys)


_F32 = 4


def _is_onednn(op: ir.Operation, images: ir.Type) -> bool:
    sizes, _ = memref_shape(images)
    module = op.parent.parent
    return len(sizes) == 4 and str(ir.MemRefType(images).element_type) == "f32" and target_of(module).kind == "cpu"


def _is_channels_last(images: ir.Type) -> bool:
    sizes, strides = memref_shape(images)
    return strides[1] == 1 and sizes[1] != 1


def _size(kind: ir.Type) -> int:
    return hint(byte_count(kind))


_RULES: dict[str, Callable[[ir.Operation], int]] = {
    "aten._scaled_dot_product_flash_attention_for_cpu.default": _attention,
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": _attention_gradients,
    "aten.convolution.default": _convolution,
    "aten.convolution_backward.default": _gradients,
    "aten.mkldnn_rnn_layer.default": _rnn_layer,
}
