"""Computes arguments of a program from its parameters and buffers once, and anew when one of these changes.

Before every call each source is compared with the last call: the same tensor, memory and version. Writes through
`.data`, or by a library that torch does not know, change no version and go unnoticed. Tensors made under
`inference_mode` have no version, so arguments computed from them are computed in every call.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from cuesta.driver.calling import Boxed, as_boxed
from cuesta.torch_private.tensors import version

_address: Callable[[Tensor], int] = Tensor.data_ptr


class Make(Protocol):
    """Computes an argument from its sources."""

    def __call__(self, *sources: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class _Seen:
    """The identity, addresses and versions of tensors at one time."""

    tensors: list[weakref.ref[Tensor]]
    addresses: list[int]
    versions: list[int]

    @staticmethod
    def of(tensors: Sequence[Tensor]) -> _Seen:
        """Raises RuntimeError where a tensor has no version."""
        return _Seen(list(map(weakref.ref, tensors)), list(map(_address, tensors)), list(map(version, tensors)))

    def same(self, tensors: Sequence[Tensor]) -> bool:
        """Whether these are the same tensors, unchanged. Raises RuntimeError where a tensor has no version."""
        same = all(map(operator.is_, map(weakref.ref.__call__, self.tensors), tensors))
        return same and list(map(version, tensors)) == self.versions and list(map(_address, tensors)) == self.addresses


@dataclass
class FrozenArgument:
    """A computed argument, and the positions of its sources."""

    sources: tuple[int, ...]
    make: Make
    kept: tuple[_Seen, Tensor] | None = field(default=None)

    def made(self, args: Sequence[Any]) -> Tensor:
        """The argument for the current values of its sources."""
        now = [args[i] for i in self.sources]
        kept = self.kept
        if any(source.is_inference() for source in now):
            return self._make(now)
        if kept is not None and kept[0].same(now):
            return kept[1]
        seen = _Seen.of(now)
        made = self._make(now)
        self.kept = (seen, made)
        return made

    def _make(self, sources: Iterable[Tensor]) -> Tensor:
        return self.make(*(source.detach() for source in sources))


def bind(frozen: Sequence[FrozenArgument], boxed: Boxed) -> Boxed:
    """Wraps the call of a graph whose last arguments are `frozen`, so that callers do not pass these."""
    sources = sorted({i for argument in frozen for i in argument.sources})
    last: tuple[_Seen, list[Tensor]] | None = None

    def unchanged(now: Sequence[Tensor]) -> list[Tensor] | None:
        try:
            return last[1] if last is not None and last[0].same(now) else None
        except RuntimeError:  # a tensor has no version
            return None

    @as_boxed
    def call(args: list[Any]) -> list[Any]:
        nonlocal last
        now = [args[i] for i in sources]
        made = unchanged(now)
        if made is None:
            seen = None if any(source.is_inference() for source in now) else _Seen.of(now)
            made = [argument.made(args) for argument in frozen]
            last = None if seen is None else (seen, made)
        args += made
        del now
        return boxed(args)

    return call
