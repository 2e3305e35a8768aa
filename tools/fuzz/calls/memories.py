"""Memory that the arguments of a call are views of, made so that an access beside an argument shows.

memory = Memories()
x = memory(60, "float32", "end", seed=3)[5:53].view(4, 12)
covered = memory.seal([x])           # every byte that is not x's has all its bits set: NaN
before = memory.bytes()
...                                  # the call
after = memory.bytes()               # where `covered` is False, these must be the same
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy
import torch

Tensor = torch.Tensor

#: Where memory may lie.
PLACES = (
    "torch",  # from torch's allocator, aligned to 64 bytes
    "end",  # its last byte is followed by a page that nobody may touch
    "begin",  # its first byte follows such a page
    "odd",  # one byte off any alignment; not for complex128, which eager itself reads by aligned instructions alone
    "numpy",  # owned by a numpy array
    "dlpack",  # the same, handed over by DLPack
    "shared",  # shared between processes
    "read only",  # of a file, mapped without the right to write
    "inference",  # an inference tensor
)

#: Variables that have glibc look for writes beside what malloc gave, at each call of it, and fill what is freed: a
#: process begins with them.
HEAP_CHECKS = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165"}

_ALL_BITS = 0xFF
_NO_ACCESS = 0
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Memories:
    """Makes the memory of one call's arguments, and keeps it as long as it lives. `loses` says whether memory can get
    lost."""

    loses: bool = True
    blocks: list[Tensor] = field(default_factory=list)
    _read_only: list[Tensor] = field(default_factory=list)

    def __call__(self, count: int, dtype: str, place: str = "torch", seed: int = 0) -> Tensor:
        """`count` random numbers as a tensor of one dim that has its memory to itself, in one of `PLACES`."""
        kind = getattr(torch, dtype)
        with torch.inference_mode() if place == "inference" else contextlib.nullcontext():
            if place in ("torch", "inference"):
                block = torch.empty(count, dtype=kind)
            else:
                place = "torch" if place == "odd" and kind == torch.complex128 else place
                block = _bytes_in(place, count * kind.itemsize).view(kind)
            block.copy_(numbers(count, kind, seed))
        self.blocks.append(block)
        if place == "read only":
            self._read_only.append(block)
        return block

    def lost(self, x: Tensor) -> Tensor:
        """The tensor, whose storage has no byte any more."""
        if self.loses:
            x.untyped_storage().resize_(0)
        return x

    def seal(self, arguments: Iterable[object]) -> list[Tensor]:
        """Sets every bit that is none of the arguments', then takes the right to write from what is read only.

        Gives for each block which of its bytes are an argument's."""
        given = [x for x in arguments if isinstance(x, Tensor)]
        masks = [_covered(block, given) for block in self.blocks]
        with torch.inference_mode():  # which may write to inference tensors
            for block, mask in zip(self.blocks, masks, strict=True):
                block.view(torch.uint8)[~mask] = _ALL_BITS
        for block in self._read_only:
            _protect(block.data_ptr(), block.nbytes, mmap.PROT_READ)
        return masks

    def bytes(self) -> list[Tensor]:
        """A copy of the memory of every block as it is now."""
        with torch.no_grad():
            return [block.detach().view(torch.uint8).clone() for block in self.blocks]


def numbers(count: int, dtype: torch.dtype, seed: int) -> Tensor:
    """Quarters from -4 to 4, whole numbers from -5 to 5 (from 0 without a sign), or coin flips: their sums and products
    are exact in most types, so that results do not hang on rounding."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_complex:
        return torch.view_as_complex(torch.randint(-16, 17, (count, 2), generator=generator).float() / 4).to(dtype)
    if dtype.is_floating_point:
        return (torch.randint(-16, 17, (count,), generator=generator).float() / 4).to(dtype)
    low, high = (0, 2) if dtype == torch.bool else (-5 if dtype.is_signed else 0, 6)
    return torch.randint(low, high, (count,), generator=generator).to(dtype)


def _bytes_in(place: str, size: int) -> Tensor:
    if size == 0 or place == "shared":
        made = torch.empty(size, dtype=torch.uint8)
        return made.share_memory_() if place == "shared" else made
    if place == "numpy":
        return torch.from_numpy(numpy.zeros(size, dtype=numpy.uint8))
    if place == "dlpack":
        return torch.utils.dlpack.from_dlpack(numpy.zeros(size, dtype=numpy.uint8))
    if place == "odd":
        room = torch.empty(size + 1, dtype=torch.uint8).numpy()
        return torch.frombuffer(room, dtype=torch.uint8, count=size, offset=1)
    if place == "read only":
        with tempfile.TemporaryFile() as file:
            file.truncate(size)
            return torch.frombuffer(mmap.mmap(file.fileno(), size), dtype=torch.uint8)
    return _between_guards(size, at_end=place == "end")


def _between_guards(size: int, at_end: bool) -> Tensor:
    """Memory with a page before its first page and one after its last that nobody may touch; it ends where its last
    page does, or begins where its first page does."""
    page = mmap.PAGESIZE
    inner = -(-size // page) * page
    room = mmap.mmap(-1, inner + 2 * page)
    whole = torch.frombuffer(room, dtype=torch.uint8)
    _protect(whole.data_ptr(), page, _NO_ACCESS)
    _protect(whole.data_ptr() + page + inner, page, _NO_ACCESS)
    return torch.frombuffer(room, dtype=torch.uint8, count=size, offset=page + (inner - size if at_end else 0))


def _protect(address: int, size: int, rights: int) -> None:
    start = address & -mmap.PAGESIZE
    if size and _libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(address + size - start), rights):
        raise OSError(ctypes.get_errno(), "mprotect")


def in_memory(x: object) -> bool:
    """Whether it is a tensor whose elements lie in this process's memory."""
    if not isinstance(x, Tensor) or x.layout != torch.strided or x.device.type != "cpu":
        return False
    return x.numel() > 0 and not x._is_zerotensor() and x.untyped_storage().nbytes() > 0


def overlaps_itself(x: object) -> bool:
    """Whether two elements of a tensor share a byte."""
    if not isinstance(x, Tensor) or not in_memory(x):
        return False
    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    places = torch.zeros(extent, dtype=torch.int8)
    places.as_strided(x.shape, x.stride()).fill_(1)
    return int(places.sum()) < x.numel()


def _covered(block: Tensor, tensors: Iterable[Tensor]) -> Tensor:
    """Which of a block's bytes belong to one of the tensors."""
    mask = torch.zeros(block.nbytes, dtype=torch.bool)
    with torch.no_grad():
        for x in tensors:
            if not in_memory(x):
                continue
            start, size = x.data_ptr() - block.data_ptr(), x.element_size()
            if 0 <= start < block.nbytes:
                strides = (*(n * size for n in x.stride()), 1)
                mask.as_strided((*x.shape, size), strides, start).fill_(True)
    return mask
