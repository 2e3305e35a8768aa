"""Makes memory for the arguments of a call such that an access outside the arguments is detected.

memory = Memories()
x = memory(60, "float32", "end", seed=3)[5:53].view(4, 12)
covered = memory.seal([x])           # sets all bits of every byte outside x: NaN
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

from cuesta.torch_private.tensors import is_zerotensor

Tensor = torch.Tensor

#: Kinds of memory.
PLACES = (
    "torch",  # from torch's allocator, aligned to 64 bytes
    "end",  # its last byte is followed by an inaccessible page
    "begin",  # its first byte follows an inaccessible page
    "odd",  # one byte off any alignment; not for complex128, which eager itself reads with aligned instructions only
    "numpy",  # owned by a numpy array
    "dlpack",  # a numpy array's memory, imported by DLPack
    "shared",  # shared between processes
    "read only",  # of a file that is mapped read-only
    "inference",  # an inference tensor
)

#: Environment variables that make glibc check for writes outside malloc's blocks at each call, and fill freed memory.
#: They must be set when a process starts.
HEAP_CHECKS = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165"}

_ALL_BITS = 0xFF
_NO_ACCESS = 0
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Memories:
    """Makes the memory of one call's arguments, and keeps it alive. `loses`: whether `lost` frees a tensor's memory."""

    loses: bool = True
    blocks: list[Tensor] = field(default_factory=list)
    _read_only: list[Tensor] = field(default_factory=list)

    def __call__(self, count: int, dtype: str, place: str = "torch", seed: int = 0) -> Tensor:
        """`count` random numbers as a tensor of rank 1 in a new block of memory, in one of `PLACES`."""
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
        """Resizes the tensor's storage to 0 bytes if `loses`; returns the tensor."""
        if self.loses:
            x.untyped_storage().resize_(0)
        return x

    def seal(self, arguments: Iterable[object]) -> list[Tensor]:
        """Sets every bit outside the arguments, then write-protects the read-only blocks.

        Returns for each block a mask of the bytes that belong to an argument."""
        given = [x for x in arguments if isinstance(x, Tensor)]
        masks = [_covered(block, given) for block in self.blocks]
        with torch.inference_mode():  # only this mode may write to inference tensors
            for block, mask in zip(self.blocks, masks, strict=True):
                block.view(torch.uint8)[~mask] = _ALL_BITS
        for block in self._read_only:
            _protect(block.data_ptr(), block.nbytes, mmap.PROT_READ)
        return masks

    def bytes(self) -> list[Tensor]:
        """A copy of the current memory of every block."""
        with torch.no_grad():
            return [block.detach().view(torch.uint8).clone() for block in self.blocks]


def numbers(count: int, dtype: torch.dtype, seed: int) -> Tensor:
    """Quarters from -4 to 4, integers from -5 to 5 (from 0 if unsigned), or random bools. Their sums and products are
    exact in most types, so that results do not depend on rounding."""
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
    """Memory between two inaccessible pages. It ends at the second one if `at_end`, else it begins after the first."""
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
    """Whether x is a tensor whose elements are in this process's memory."""
    if not isinstance(x, Tensor) or x.layout != torch.strided or x.device.type != "cpu":
        return False
    return x.numel() > 0 and not is_zerotensor(x) and x.untyped_storage().nbytes() > 0


def overlaps_itself(x: object) -> bool:
    """Whether two elements of a tensor share a byte."""
    if not isinstance(x, Tensor) or not in_memory(x):
        return False
    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    places = torch.zeros(extent, dtype=torch.int8)
    places.as_strided(x.shape, x.stride()).fill_(1)
    return int(places.sum()) < x.numel()


def _covered(block: Tensor, tensors: Iterable[Tensor]) -> Tensor:
    """Mask of a block's bytes that belong to any of the tensors."""
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
