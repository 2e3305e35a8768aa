"""Holds back Python's collector of cyclic garbage while a graph is compiled.

A compile makes some hundred thousand objects that it needs to its end. Because of their number, the collector scans all
objects of the process again and again, a third of a second each time, and finds next to nothing: torch alone has half a
million.

The collector does not scan them after a compile either: they are moved to the old generation unscanned. A fifth to two
fifths of them are garbage, all small Python objects (30 MB of a training step of BERT's), which the next full
collection frees. After many compiles, a full collection runs.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from cuesta.torch_private.unread_logs import guard_times_as_wanted, names_as_wanted

#: Objects that blocks may leave before a full collection: twice as many as torch has, a dozen large models'.
_MOST_LEFT = 1_000_000


class _Holders:
    """The number of blocks that hold the collector back now, whether it was enabled before, and what the blocks have
    left."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.was_enabled = False
        #: objects allocated in blocks and not freed, since the last full collection
        self.left = 0


_holders = _Holders()


@contextmanager
def held_back() -> Iterator[None]:
    """Disables automatic collection in this process until the block ends. Blocks may nest and overlap between
    threads."""
    with _holders.lock:
        if _holders.count == 0:
            _holders.was_enabled = gc.isenabled()
            gc.disable()
        _holders.count += 1
    failed = True
    try:
        yield
        failed = False
    finally:
        with _holders.lock:
            _holders.count -= 1
            is_last = _holders.count == 0 and _holders.was_enabled
            if is_last:
                _holders.left += gc.get_count()[0]
        if is_last:
            _settle(failed)
            gc.enable()


def _settle(failed: bool) -> None:
    """Moves the objects that a block left to the old generation. Otherwise the next allocation would make the collector
    scan all of them, and so would Dynamo, which collects the young generations after each compile.

    After a failed block they are collected: the exception holds frames, and frames may hold a caller's tensors.
    """
    # Outside of the lock, because a finaliser may start a compile.
    if _holders.left > _MOST_LEFT:
        _holders.left = 0
        gc.collect()
    elif failed or gc.get_freeze_count():  # objects that the process froze, as servers do before they fork, stay frozen
        gc.collect(1)
    else:
        gc.freeze()
        gc.unfreeze()


#: Holds the collector back while Dynamo is at work in any thread: Dynamo calls back for the first that begins and the
#: last that ends.
_AT_WORK = ExitStack()


def hold_back_in_dynamo() -> None:
    """Disables automatic collection from where Dynamo begins with a frame until it has its guards.

    This holds until torch.compiler.reset, which forgets callbacks. Dynamo traces before it asks for a backend, so it
    applies to all backends alike.
    """
    from cuesta.torch_private.dynamo import call_around_compiles

    call_around_compiles(_begin, _end)


def _begin(_: Any) -> None:
    _AT_WORK.enter_context(held_back())
    _AT_WORK.enter_context(names_as_wanted())
    _AT_WORK.enter_context(guard_times_as_wanted())


def _end(_: Any) -> None:
    _AT_WORK.close()  # `_begin` may not have been called, if Dynamo began before we registered
