"""Large blocks of memory in pages of 2 MB, where the system gives those to who asks for them (Linux' `madvise`).

    use_huge_pages(tensor.data_ptr(), tensor.nbytes)

What a program returns is new memory in each call, and the system clears it page by page, at the first touch. No more
memory is taken than without: a page is asked for where all of it is the block's. docs/decisions/0023-huge-pages.md has
what it saves.
"""

from __future__ import annotations

import ctypes
import sys

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


def may_be_large(nbytes: Number) -> bool:
    """Whether a block of so many bytes may want huge pages; one of unknown size may."""
    return sys.platform == "linux" and (not isinstance(nbytes, int) or nbytes >= LARGE)


def use_huge_pages(address: int, nbytes: int) -> None:
    """Wishes for huge pages in a block to which nothing was written yet. Nothing happens below LARGE bytes."""
    if not may_be_large(nbytes):
        return
    first, end = -(-address // HUGE_PAGE) * HUGE_PAGE, (address + nbytes) // HUGE_PAGE * HUGE_PAGE
    _PROCESS.madvise(first, end - first, MADV_HUGEPAGE)
