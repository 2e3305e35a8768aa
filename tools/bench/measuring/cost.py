"""Computes the least work of a call on any backend: bytes read, bytes written, and the operations of its products.

Runs the call once in eager and observes every ATen op:

- Bytes read: the inputs, weights and buffers that any op reads, each once; of a gathered table only the gathered rows.
  Bytes written: the call's results, gradients included, and tensors updated in place, each once.
- Forward and backward count as two calls, because the backward begins when the forward has ended. Weights and inputs
  that the backward reads count again. A forward intermediate that is an operand of a product in the backward counts as
  written once and read once. Other intermediates do not count: they can be recomputed from the counted tensors without
  a product, or never leave the registers.
- Operations: matrix products, convolutions and attention, by torch.utils.flop_counter; a multiplication and an addition
  are two. Causal attention counts its unmasked part only, flex_attention all of it. Nothing else is counted.
- flex_attention is one op: what its score and mask functions read beside the score and the blocks is not seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import (
    conv_flop_count,
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
    shape_wrapper,
)

from cuesta.tools.bench.cases.workload import Workload
from cuesta.torch_private import pytree
from cuesta.torch_private.dispatch import TorchDispatchMode, is_in_backward, without_onednn
from cuesta.torch_private.ops import HigherOrderOperator, schema_of
from cuesta.torch_private.tensors import storage_key

aten = torch.ops.aten

#: Ops that read as many bytes of their first tensor as they return. Not embedding, which may return a row twice.
_GATHERS = (aten.index, aten.index_select, aten.gather, aten.take)


@dataclass(frozen=True)
class Cost:
    """The cost of one call. All but `operations` in bytes."""

    read: int
    written: int
    footprint: int
    """Bytes read or written, each counted once: a cache of this size serves the whole call."""
    operations: int


def cost_of(workload: Workload) -> Cost:
    """Runs a call of the workload in eager, with gradients where the caller has enabled them."""
    call = workload.compiled("eager")
    # oneDNN's LSTM is one op, which would hide its products. flex_attention compiles itself, which Dynamo refuses where
    # a mode observes.
    with without_onednn(), torch.compiler.set_stance("force_eager"), _Observer() as seen:
        outcome = call()
    gradients = [parameter.grad for parameter in workload.parameters if parameter.grad is not None]
    return seen.cost([*_tensors(outcome), *gradients])


Extent = tuple[Any, ...]
"""The elements of a storage that a tensor covers: offset, sizes and strides. For a gather a serial number follows."""


class _Observer(TorchDispatchMode):
    """Observes every ATen op of a call. Identifies storages by address; those older than the call are never freed."""

    supports_higher_order_operators = True
    """Steps with functions among their arguments, such as flex_attention, come as one op."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0
        #: Storage that an op allocated → whether in the backward.
        self.made: dict[int, bool] = {}
        #: Whether in the backward → storage older than the call → extent that is read → bytes.
        self.read: dict[bool, dict[int, dict[Extent, int]]] = {False: defaultdict(dict), True: defaultdict(dict)}
        self.updated: dict[int, int] = {}
        self.kept: dict[int, int] = {}
        self.sizes: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        is_backward = is_in_backward()
        taken = list(_tensors((args, kwargs)))
        formula = _FORMULAS.get(_packet(func))
        if formula is not None:
            self.operations += formula(*args, **kwargs, out_val=result)
        if not _is_view(func):
            gathered = _gathered(func, args, result)
            for index, tensor in enumerate(taken):
                self._take(tensor, is_backward, formula is not None, gathered if index == 0 else None)
            for tensor in _updated(func, args, kwargs):
                if (key := _key(tensor)) not in self.made:
                    self.updated[key] = _bytes(tensor)
        before = set(map(_key, taken))
        self.made |= {key: is_backward for tensor in _tensors(result) if (key := _key(tensor)) not in before}
        return result

    def _take(self, tensor: Tensor, is_backward: bool, is_product: bool, gathered: int | None) -> None:
        """Records that an op reads a tensor: all of its elements, or `gathered` bytes if the op gathers from it."""
        key = _key(tensor)
        if key not in self.made:
            self.sizes[key] = tensor.untyped_storage().nbytes()
            extent: Extent = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
            if gathered is None:
                self.read[is_backward][key][extent] = _bytes(tensor)
            else:
                # Each gather counts by itself: two gathers from one table need not read the same rows.
                self.read[is_backward][key][*extent, len(self.read[is_backward][key])] = gathered
        elif is_backward and is_product and not self.made[key]:
            self.kept[key] = max(self.kept.get(key, 0), _bytes(tensor))

    def cost(self, results: Sequence[Tensor]) -> Cost:
        """The cost of the observed call, which returned `results`."""
        written = {key: _bytes(tensor) for tensor in results if (key := _key(tensor)) in self.made} | self.updated
        kept = sum(self.kept.values())
        phases = [self._bytes_read(extents) for extents in self.read.values()]
        both = phases[0] | {key: max(count, phases[0].get(key, 0)) for key, count in phases[1].items()}
        return Cost(
            read=sum(sum(phase.values()) for phase in phases) + kept,
            written=sum(written.values()) + kept,
            footprint=sum((written | both).values()) + kept,
            operations=self.operations,
        )

    def _bytes_read(self, extents: Mapping[int, Mapping[Extent, int]]) -> dict[int, int]:
        return {key: min(sum(parts.values()), self.sizes[key]) for key, parts in extents.items()}


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor))


def _key(tensor: Tensor) -> int:
    return storage_key(tensor)


def _bytes(tensor: Tensor) -> int:
    """The bytes of a tensor's distinct elements: a broadcast dim (stride 0) counts as size 1."""
    count = tensor.element_size()
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride or not size else 1
    return count


def _packet(func: Any) -> Any:
    """What all overloads of an op have in common; a step with functions has no overloads."""
    return func if isinstance(func, HigherOrderOperator) else func.overloadpacket


def _is_view(func: Any) -> bool:
    """Whether the op returns a view: it reads and writes no element."""
    if isinstance(func, HigherOrderOperator):
        return False
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema_of(func).returns)


def _updated(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """The arguments that the op writes to; of a step with functions none is known."""
    if isinstance(func, HigherOrderOperator):
        return
    for index, argument in enumerate(schema_of(func).arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from _tensors(args[index] if index < len(args) else kwargs.get(argument.name))


def _gathered(func: Any, args: Sequence[Any], result: Any) -> int | None:
    """Bytes of its first tensor that a gather reads; None for other ops."""
    packet = _packet(func)
    if packet is aten.embedding:
        rows: Tensor = args[1].unique()
        return rows.numel() * args[0].shape[-1] * args[0].element_size()
    return _bytes(result) if packet in _GATHERS else None


def _seen(query: Sequence[int], key: Sequence[int], is_causal: bool) -> float:
    """The share of attention scores that are not masked."""
    rows, columns = query[-2], key[-2]
    if not is_causal:
        return 1.0
    return sum(min(row + 1, columns) for row in range(rows)) / (rows * columns)


def _attention(query: Any, key: Any, value: Any, _p: float = 0.0, causal: bool = False, **_: Any) -> int:
    return round(sdpa_flop_count(query, key, value) * _seen(query, key, causal))


def _attention_backward(
    gradient: Any, query: Any, key: Any, value: Any, _out: Any, _logsumexp: Any, _p: float, causal: bool, **_: Any
) -> int:
    return round(sdpa_backward_flop_count(gradient, query, key, value) * _seen(query, key, causal))


def _convolution_backward(gradient: Any, image: Any, weight: Any, *rest: Any, **_: Any) -> int:
    """The image's and the weight's gradient each cost as much as the forward. Torch's own formula ignores groups for
    the weight's gradient."""
    transposed, wanted = rest[-4], rest[-1]
    return sum(wanted[:2]) * conv_flop_count(image, weight, gradient, transposed=transposed)


_FORMULAS: dict[Any, Callable[..., int]] = {
    **flop_registry,
    aten.convolution_backward: shape_wrapper(_convolution_backward),
    # Attention on a CPU: torch has no formula for these ops.
    aten._scaled_dot_product_flash_attention_for_cpu: shape_wrapper(_attention),
    aten._scaled_dot_product_flash_attention_for_cpu_backward: shape_wrapper(_attention_backward),
}
