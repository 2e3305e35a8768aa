"""Guards a graph that writes an argument against calls whose arguments share memory where those of the compile did not.

AOTAutograd moves writes to the end of a graph, which is right only if no other argument sees them. It checks that when
it compiles, and Dynamo guards the answer only where arguments did share memory. So a later call may pass two views of
one memory, and every backend's result would be wrong. Such a call runs Dynamo's graph op by op.

    def f(x, y):                        m = torch.ones(8)
        x.add_(1)                       f(m[:4], m[4:])     compiled
        return y * 2                    f(m[:4], m[2:6])    op by op: y * 2 sees what x.add_ wrote
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch

from cuesta.errors import InputError
from cuesta.runtime.arguments import missing_memory
from cuesta.runtime.shared_memory import pairs_written
from cuesta.torch_private.fake_tensors import forward_metadata

log = logging.getLogger("cuesta")

Tensor = torch.Tensor

#: Sets of addresses for which the answer is kept. A loop's memory comes from torch's pools, so there are few.
_KEPT = 64

_data_ptr: Callable[[Tensor], int] = Tensor.data_ptr


def guard_shared_memory(
    gm: torch.fx.GraphModule, compiled: Callable[..., Any], example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    """A callable that runs `compiled`, or `gm` where a call's arguments alias each other and those of the compilation
    did not.

    AOTAutograd has just made `compiled` of `gm`, Dynamo's graph. A graph that writes no argument, or that has only one
    tensor, is called without a guard. A call raises InputError where its arguments alias and one has lost its memory.
    """
    written = frozenset(_written(len(example_inputs)))
    tensors = [i for i, value in enumerate(example_inputs) if _has_address(value)]
    if len(tensors) < 2 or not any(i in written for i in tensors):
        return compiled

    def pairs(arguments: Sequence[Any]) -> Iterator[tuple[int, int]]:
        return pairs_written({i: arguments[i] for i in tensors}, written)

    shared, addresses = frozenset(pairs(example_inputs)), _addresses(example_inputs, tensors)
    #: addresses of arguments that share no more than those that the graph was compiled with
    fitting: set[tuple[int, ...]] = set()
    warned = False

    def is_as_compiled(arguments: Sequence[Any]) -> bool:
        """Whether no two of these share memory that did not in the compile."""
        if not shared.issuperset(pairs(arguments)):
            return False
        if len(fitting) >= _KEPT:
            fitting.clear()
        fitting.add(addresses(arguments))
        return True

    def call(*arguments: Any) -> Any:
        if addresses(arguments) in fitting or is_as_compiled(arguments):
            return compiled(*arguments)
        nonlocal warned
        if not warned:
            warned = True
            log.warning(
                "a graph runs op by op: its arguments share memory, the graph writes one of them, and it was compiled "
                "for arguments that share none"
            )
        for i in tensors:
            if missing := missing_memory(arguments[i]):  # eager would read it all the same
                raise InputError(f"argument {i} of a graph: {missing}")
        return gm(*arguments)

    return call


def _addresses(arguments: Sequence[Any], tensors: Sequence[int]) -> Callable[[Sequence[Any]], tuple[int, ...]]:
    """A function from a call's arguments to the addresses of its tensors and the numbers among them. The numbers are
    the sizes that Dynamo does not guard."""
    pick = operator.itemgetter(*tensors)
    numbers = [i for i, value in enumerate(arguments) if type(value) is int]
    if not numbers:
        return lambda given: tuple(map(_data_ptr, pick(given)))
    return lambda given: (*map(_data_ptr, pick(given)), *[given[i] for i in numbers])


def _has_address(value: Any) -> bool:
    return type(value) in (Tensor, torch.nn.Parameter) and value.layout == torch.strided


def _written(count: int) -> Collection[int]:
    """The positions of the arguments that the graph compiled last by AOTAutograd writes.

    Where arguments alias already, AOTAutograd passes on other arguments than Dynamo gave, and its positions are not
    Dynamo's. Then all positions count as written.
    """
    metadata = forward_metadata()
    if metadata is None:
        return ()
    written = [i for i, info in enumerate(metadata.input_info) if info.mutates_data]
    return range(count) if written and len(metadata.input_info) != count else written
