"""Python's collector of cyclic garbage, held back while a graph is compiled.

A compile makes some hundred thousand objects that it needs to its end. The collector, which counts what is made, goes
through all objects of the process for it again and again, a third of a second each time, and finds next to nothing:
torch alone has half a million.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
            if _holders.count == 0 and _holders.was_enabled:
                gc.enable()
