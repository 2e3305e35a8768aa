"""Large blocks of memory in pages of 2 MB, where the system gives those to who asks for them (Linux' `madvise`).

    use_huge_pages(tensor.data_ptr(), tensor.nbytes)

What a program returns is new memory in each call, and the system clears it page by page, at the first touch. No more
memory is taken than without: a page is asked for where all of it is the block's. docs/decisions/0023-huge-pages.md has
what it saves, and why blocks that come and go with each call are not for a machine that gives free pages to its host.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path

from cuesta.sizes import Number

HUGE_PAGE = 2 << 20
"""Bytes."""
LARGE = 2 * HUGE_PAGE
"""Bytes from which a block is worth the call: wherever it begins, it has a whole page of its own."""
MADV_HUGEPAGE = 14
"""Linux' number for the wish. A kernel without such pages refuses it, and nothing changes."""

_PROCESS = ctypes.CDLL(None)
if sys.platform == "linux":
    _PROCESS.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


_BALLOON, _REPORTS = 5, 5
"""virtio's number for the device by which a host takes memory back from a guest, and the bit among its features for
pages that the guest reports as free (Virtual I/O Device Version 1.2, 5.5: Traditional Memory Balloon Device)."""


@functools.cache
def gives_free_pages_away() -> bool:
    """Whether this machine is a guest that gives large free blocks to its host: they are slow to touch again."""
    return reports_free_pages(Path("/sys/bus/virtio/devices"))


def reports_free_pages(devices: Path) -> bool:
    """Whether one of the virtio devices in a folder, as Linux shows them, tells a host which pages are free."""
    for device in devices.glob("*"):
        try:
            kind, features = ((device / name).read_text().strip() for name in ("device", "features"))
        except OSError:
            continue
        if int(kind, 16) == _BALLOON and features[_REPORTS : _REPORTS + 1] == "1":
            return True
    return False


def may_come_large(nbytes: Number) -> bool:
    """Whether to wish for huge pages in a block of so many bytes that comes and goes with each call; one of unknown
    size may be large enough."""
    return sys.platform == "linux" and (not isinstance(nbytes, int) or nbytes >= LARGE) and not gives_free_pages_away()


def use_huge_pages(address: int, nbytes: int) -> None:
    """Wishes for huge pages in a block to which nothing was written yet. Nothing happens below LARGE bytes."""
    if sys.platform != "linux" or nbytes < LARGE:
        return
    first, end = -(-address // HUGE_PAGE) * HUGE_PAGE, (address + nbytes) // HUGE_PAGE * HUGE_PAGE
    _PROCESS.madvise(first, end - first, MADV_HUGEPAGE)
