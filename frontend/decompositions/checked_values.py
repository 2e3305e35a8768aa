"""Decomposes ops that check their arguments' values on a CPU, adding assertions of the same conditions.

binary_cross_entropy(x, y)   →   _assert_async(all(0 <= x <= 1), "all elements of input should be …"); …
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from cuesta.torch_private.decompositions import get_decompositions, suggest_memory_format

aten = torch.ops.aten


def _assert_all(holds: Tensor, message: str) -> None:
    """Asserts on a CPU only. On a GPU eager's kernel ends the process, and a program does not wait for the values."""
    if holds.device.type == "cpu":
        aten._assert_async.msg(holds.all(), message)


def _within(x: Tensor, low: float, end: float) -> Tensor:
    """Whether each element is in [low, end)."""
    return (x >= low) & (x < end)


def _probabilities(x: Tensor, target: Tensor, *_: Any, **__: Any) -> None:
    for name, values in (("input", x), ("target", target)):
        # NaN fails both comparisons, and so the assertion.
        _assert_all((values >= 0) & (values <= 1), f"all elements of {name} should be between 0 and 1")


def _places(x: Tensor, indices: Tensor, output_size: Sequence[int], *_: Any, **__: Any) -> None:
    volume = "x".join(map(str, output_size))
    message = f"Found an invalid max index (output volumes are of size {volume})"
    _assert_all(_within(indices, 0, math.prod(output_size)), message)


def _classes(x: Tensor, target: Tensor, *_: Any, **__: Any) -> None:
    _assert_all(_within(target, 0, x.shape[-1]), "target out of range")


def _checked(op: Any, check: Callable[..., None]) -> Callable[..., Any]:
    """torch's decomposition of an op, preceded by the check that the decomposition lacks."""
    decomposition = get_decompositions([op])[op]

    @functools.wraps(decomposition)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check(*args, **kwargs)
        return decomposition(*args, **kwargs)

    return checked


_CHECKS: dict[Any, Callable[..., None]] = {
    aten.binary_cross_entropy.default: _probabilities,
    aten.max_unpool2d.default: _places,
    aten.max_unpool3d.default: _places,
    aten.multi_margin_loss.default: _classes,
}


def _in_format(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition whose results keep the first operand's memory format, as the kernel's do; torch's are
    row-major."""

    @functools.wraps(decomposition)
    def in_format(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        result: Tensor = decomposition(x, *args, **kwargs)
        return result.contiguous(memory_format=suggest_memory_format(x))

    return in_format


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {op: _checked(op, check) for op, check in _CHECKS.items()}
DECOMPOSITIONS[aten.max_unpool2d.default] = _in_format(DECOMPOSITIONS[aten.max_unpool2d.default])
