"""Python's collector of cyclic garbage, held back while a graph is compiled.

A compile makes some hundred thousand objects that it needs to its end. The collector, which counts what is made, goes
through all objects of the process for it again and again, a third of a second each time, and finds next to nothing:
torch alone has half a million.

Nor does it go through them behind a compile: they are old then, without a look. A fifth to two fifths of them are
garbage, of small Python objects (30 MB of a training step of BERT's), which the next full collection finds; many
compiles bring one about.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from cuesta.unread_logs import guard_times_as_wanted, names_as_wanted

#: Objects that blocks leave before all are gone through: twice as many as torch has, a dozen large models'.
_MOST_LEFT = 1_000_000


class _Holders:
    """How many hold the collector back now, whether the first of them found it at work, and what they have left."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.was_enabled = False
        #: objects made and not given back in blocks, since all were gone through
        self.left = 0


_holders = _Holders()


@contextmanager
def held_back() -> Iterator[None]:
    """No automatic collection in this process until the block ends; blocks may nest, and threads have theirs."""
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
    """Makes the objects that a block left old ones: the next object made would have the collector go through all of
    them, and Dynamo, which has the young ones collected behind each compile, would do so again.

    Where the block failed they are gone through: what was raised holds frames, and those a caller's tensors.
    """
    # None of it within the lock: what a collection finalises may compile.
    if _holders.left > _MOST_LEFT:
        _holders.left = 0
        gc.collect()
    elif failed or gc.get_freeze_count():  # what the process has frozen, as servers do before they fork, stays frozen
        gc.collect(1)
    else:
        gc.freeze()
        gc.unfreeze()


#: What holds it back while Dynamo is at work, in whichever thread: it says so of the first that begins and of the last.
_AT_WORK = ExitStack()


def hold_back_in_dynamo() -> None:
    """From now until torch._dynamo.reset, which forgets it, no automatic collection from where Dynamo begins with a
    frame until it has its guards. It traces before it asks for a backend, so this is for all backends alike."""
    from torch._dynamo.callback import callback_handler, on_compile_end, on_compile_start

    if _begin not in callback_handler.start_callbacks:
        on_compile_start(_begin)
        on_compile_end(_end)


def _begin(_: Any) -> None:
    _AT_WORK.enter_context(held_back())
    _AT_WORK.enter_context(names_as_wanted())
    _AT_WORK.enter_context(guard_times_as_wanted())


def _end(_: Any) -> None:
    _AT_WORK.close()  # it may have begun before we were told
