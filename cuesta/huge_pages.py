"""Requests pages of 2 MB for large blocks of memory, on systems that give them on request (Linux' `madvise`).

    use_huge_pages(tensor.data_ptr(), tensor.nbytes)

A program returns new memory in each call, and the system clears it page by page, at the first touch. Huge pages take no
more memory: only pages that are wholly inside the block are requested. docs/decisions/0023-huge-pages.md has the gains,
and why blocks that are allocated and freed in each call get none on a machine that gives free pages to its host.
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
    """Whether this machine is a guest that gives large free blocks back to its host; touching these again is slow."""
    return reports_free_pages(Path("/sys/bus/virtio/devices"))


def reports_free_pages(devices: Path) -> bool:
    """Whether one of the virtio devices in a folder, as Linux lists them, reports free pages to a host."""
    for device in devices.glob("*"):
        try:
            kind, features = ((device / name).read_text().strip() for name in ("device", "features"))
        except OSError:
            continue
        if int(kind, 16) == _BALLOON and features[_REPORTS : _REPORTS + 1] == "1":
            return True
    return False


def may_come_large(nbytes: Number) -> bool:
    """Whether to request huge pages for a block of so many bytes that is allocated and freed in each call. A block of
    unknown size may be large enough."""
    return sys.platform == "linux" and (not isinstance(nbytes, int) or nbytes >= LARGE) and not gives_free_pages_away()


def use_huge_pages(address: int, nbytes: int) -> None:
    """Requests huge pages for a block to which nothing was written yet. Does nothing below LARGE bytes."""
    if sys.platform != "linux" or nbytes < LARGE:
        return
    first, end = -(-address // HUGE_PAGE) * HUGE_PAGE, (address + nbytes) // HUGE_PAGE * HUGE_PAGE
    _PROCESS.madvise(first, end - first, MADV_HUGEPAGE)
