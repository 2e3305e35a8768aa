"""Python's collector of cyclic garbage, held back while a graph is compiled.

A compile makes some hundred thousand objects that it needs to its end. The collector, which counts what is made, goes
through all objects of the process for it again and again, a third of a second each time, and finds next to nothing:
torch alone has half a million.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from cuesta.unread_logs import names_as_wanted


class _Holders:
    """How many hold the collector back now, and whether the first of them found it at work."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.was_enabled = False


_holders = _Holders()


@contextmanager
def held_back() -> Iterator[None]:
    """No automatic collection in this process until the block ends; blocks may nest, and threads have theirs."""
    with _holders.lock:
        if _holders.count == 0:
            _holders.was_enabled = gc.isenabled()
            gc.disable()
        _holders.count += 1
    try:
        yield
    finally:
        with _holders.lock:
            _holders.count -= 1
            is_last = _holders.count == 0 and _holders.was_enabled
        if is_last:
            # The next object made would have it go through all that is new, and leave that young: Dynamo, which has the
            # young ones collected behind each compile, would have it go through all of them again.
            gc.collect(1)  # not within the lock: what it finalises may compile
            gc.enable()


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


def _end(_: Any) -> None:
    _AT_WORK.close()  # it may have begun before we were told
