"""Lends scratch memory to host programs. It is kept between calls and shared by all compiled graphs.

    with pool.lease(plan.arena_bytes) as arena:
        entry(arena.address, ...)

A call leases one arena while it runs, so a pool holds as many arenas as calls ever ran at the same time: one, unless
graphs nest or several threads call. The memory comes from torch, so torch's profiler and its memory limits see it.
"""

from __future__ import annotations

import threading
import weakref
from types import TracebackType

import torch

from cuesta.huge_pages import use_huge_pages

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""


class Arena:
    """A block of scratch memory, leased from a pool until `release`, or until the end of a `with`."""

    __slots__ = ("__weakref__", "_leased", "_pool", "_storage", "address", "nbytes")

    def __init__(self, pool: ArenaPool, nbytes: int) -> None:
        # The device is given because torch.set_default_device may have set another default.
        self._storage = torch.empty(nbytes, dtype=torch.uint8, device="cpu")
        if self._storage.data_ptr() % ALIGNMENT:  # torch aligns to 64 bytes too, but does not guarantee it
            self._storage = torch.empty(nbytes + ALIGNMENT - 1, dtype=torch.uint8, device="cpu")
        use_huge_pages(self._storage.data_ptr(), self._storage.nbytes)
        self._pool = pool
        self._leased = True
        self.address = (self._storage.data_ptr() + ALIGNMENT - 1) & -ALIGNMENT
        """Of the first byte; a multiple of ALIGNMENT."""
        self.nbytes = nbytes
        """Bytes from `address`; at least what was asked for."""

    def release(self) -> None:
        """Returns the arena to the pool. Its content may be overwritten from then on."""
        if not self._leased:
            raise RuntimeError("this arena was already released; another call may be using it")
        self._leased = False
        self._pool._free.append(self)

    def drop(self) -> None:
        """Frees the arena's memory instead of returning the arena to the pool."""
        if not self._leased:
            raise RuntimeError("this arena was already released; another call may be using it")
        self._leased = False
        self._storage, self.address, self.nbytes = torch.empty(0, dtype=torch.uint8, device="cpu"), 0, 0

    def __enter__(self) -> Arena:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class ArenaPool:
    """Hands out arenas. Threads may share a pool: no two leases hold the same arena at the same time."""

    def __init__(self) -> None:
        # A stack, so that nested calls find the arenas they had last time. list.pop and list.append are atomic.
        self._free: list[Arena] = []
        self._all: weakref.WeakSet[Arena] = weakref.WeakSet()
        self._lock = threading.Lock()

    def lease(self, nbytes: int) -> Arena:
        """An arena of at least `nbytes` that nobody else holds. Its content is undefined.

        Raises what torch.empty raises if memory runs out.
        """
        try:
            arena = self._free.pop()
        except IndexError:
            return self._allocate(nbytes)
        if arena.nbytes >= nbytes:
            arena._leased = True
            return arena
        larger = self._exchange(arena, nbytes)
        if larger is not None:
            return larger
        del arena  # frees the small arena before the larger one is allocated, so that both never exist together
        return self._allocate(nbytes)

    def trim(self) -> None:
        """Frees the arenas that no call holds."""
        self._free.clear()

    @property
    def held_bytes(self) -> int:
        """Bytes of all arenas, leased and free. A leased arena that was dropped without release is not counted."""
        with self._lock:
            return sum(arena.nbytes for arena in self._all)

    def _exchange(self, small: Arena, nbytes: int) -> Arena | None:
        """Exchanges an arena that is too small for a free one of at least `nbytes`. None if there is none."""
        for arena in reversed(self._free.copy()):
            if arena.nbytes < nbytes:
                continue
            try:
                self._free.remove(arena)
            except ValueError:  # another thread took this arena meanwhile
                continue
            self._free.append(small)
            arena._leased = True
            return arena
        return None

    def _allocate(self, nbytes: int) -> Arena:
        arena = Arena(self, nbytes)
        with self._lock:
            self._all.add(arena)
        return arena
