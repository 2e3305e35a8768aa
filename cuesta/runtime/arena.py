"""Scratch memory of the host programs, kept between calls and shared by all compiled graphs.

    with pool.lease(plan.arena_bytes) as arena:
        entry(arena.address, ...)

A call leases one arena for as long as it runs, so a pool holds as many arenas as calls ever ran at once: one, unless
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
    """A block of scratch memory. Leased from a pool until `release`, or until the end of a `with`."""

    __slots__ = ("__weakref__", "_leased", "_pool", "_storage", "address", "nbytes")

    def __init__(self, pool: ArenaPool, nbytes: int) -> None:
        # The device is named, since torch.set_default_device may have named another.
        self._storage = torch.empty(nbytes, dtype=torch.uint8, device="cpu")
        if self._storage.data_ptr() % ALIGNMENT:  # torch aligns to as much itself, but promises nothing
            self._storage = torch.empty(nbytes + ALIGNMENT - 1, dtype=torch.uint8, device="cpu")
        use_huge_pages(self._storage.data_ptr(), self._storage.nbytes)
        self._pool = pool
        self._leased = True
        self.address = (self._storage.data_ptr() + ALIGNMENT - 1) & -ALIGNMENT
        """Of the first byte; a multiple of ALIGNMENT."""
        self.nbytes = nbytes
        """Bytes from `address`; at least what was asked for."""

    def release(self) -> None:
        """Gives the arena back. What it holds may be overwritten from here on."""
        if not self._leased:
            raise RuntimeError("this arena was already released; another call may be using it")
        self._leased = False
        self._pool._free.append(self)

    def drop(self) -> None:
        """Gives the memory back to torch."""
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
    """Hands out arenas. Threads may share a pool: two leases at once never give the same arena."""

    def __init__(self) -> None:
        # A stack, so that nested calls find the arenas they had last time. list.pop and list.append are atomic.
        self._free: list[Arena] = []
        self._all: weakref.WeakSet[Arena] = weakref.WeakSet()
        self._lock = threading.Lock()

    def lease(self, nbytes: int) -> Arena:
        """An arena of at least `nbytes` that nobody else holds; its content is whatever was left there.

        Raises what torch.empty raises where there is no such memory.
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
        del arena  # the last reference: freed before its successor is allocated, so the two never count together
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
        """Puts a free arena that is too small back, for a free one of at least `nbytes`. None where there is none."""
        for arena in reversed(self._free.copy()):
            if arena.nbytes < nbytes:
                continue
            try:
                self._free.remove(arena)
            except ValueError:  # another thread took it meanwhile
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
