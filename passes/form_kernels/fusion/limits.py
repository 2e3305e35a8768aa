"""Holds the limits that the target machine sets to fusion, such as the most ops of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from cuesta.errors import PipelineError


@dataclass(frozen=True)
class FusionLimits:
    """Limits of one kernel. Each keeps a merge from costing more than the memory traffic that it saves."""

    #: Most bytes that a kernel's intermediate tensors take per tile.
    tile_bytes: int
    #: A kernel that reads more bytes than this needs at least `min_tiles` tiles.
    serial_bytes: int
    min_tiles: int
    #: Most generics of one kernel. Each further one saves little traffic, and lengthens every attempt to merge.
    most_generics: int
    #: Most elements of a generic that runs once: in the tail after the tiles, or in a kernel without tiles.
    tail_elements: int
    #: Whether generics that have parallel loops may join a reduction to one number, such as the norm of a single row,
    #: if each of them runs over few elements (`tail_elements`): a kernel of one program then saves launches.
    serial_kernels: bool
    #: Whether a kernel may end with a tail, which waits for all of its tiles.
    tails: bool
    #: Whether a tile runs its ops one after the other, each over the whole tile. Otherwise a tile without loops
    #: computes each value once and writes only after that, and a tile with loops may recompute a value at any time.
    in_sequence: bool
    #: Whether a scatter may write in any order, each write being atomic. Otherwise its writes are sequential along the
    #: loops that the positions depend on.
    atomics: bool
    #: Whether a conversion to a wider type joins its reader's kernel if possible, else its operand's producer's kernel.
    converts_late: bool
    #: Most kernels of a single number each that become one kernel; a launch costs more than all their work.
    scalars_together: int
    #: Most tensors that a kernel of equal groups which share nothing writes.
    written_together: int = 0
    #: Most elements of elementwise work (a value per row or column) that every tile may recompute for its part.
    repeated_elements: int = 0
    #: Least points along a loop in a tile of elementwise work, if one of its generics lacks that loop and so is
    #: repeated once per tile.
    repeated_rows: int = 1
    #: Most elements of a tile that a reduction spans if it keeps a loop within the tile; None for no limit.
    staged_elements: int | None = None
    #: Most elements of a row, where a program walks rows that are reduced both along and down; each loop's size is
    #: rounded up to a power of two. Such a tile may span more than `staged_elements`.
    row_elements: int = 0
    #: Whether a reader of a matrix product (an epilogue) may be in the product's kernel.
    epilogues: bool = True
    #: How many neighbouring tiles run together as a strip, if a tile alone would access memory with a stride.
    strip: int = 1
    #: Whether kernels that differ in one size may become one kernel, with the size as a parameter.
    shares_code: bool = False
    #: Least bytes of a donated argument whose memory another value may take.
    donated_reuse_from: int = 1 << 16
    #: Whether results take it. Otherwise values do that only this function needs: a CUDA graph's argument is what
    #: another graph writes in its next replay, so a result would not last there.
    donated_to_results: bool = False


#: Columns of a strip on a GPU: a warp reads that many at once.
STRIP = 32
#: Columns of the narrowest strip on a GPU: the floats of one memory sector.
SECTOR = 8
#: A program that has fewer elements than this of each row, in many rows, reads a part of each memory sector.
FEW_IN_A_ROW = 16
#: Tensors of equal work, such as conversions of weights, that a program on a GPU writes. A thread has a part of each in
#: registers until the last is computed. Of 97 weights, 121 vectors, and 42 weights that are transposed, ptxas made
#: code of 32 registers that loads one after the other and spills the rest; the last two took 129 µs on an H200 for 6 MB
#: and 37 µs for 7 MB. Of 16 a thread has 128 registers, and all its loads are in flight together.
WRITTEN = 16
#: Programs that keep a GPU busy: two for each multiprocessor.
PROGRAMS = 264

#: Columns of the narrowest strip on a CPU: four cache lines of f32.
NARROWEST_STRIP = 64
#: Least rows of a tile on a CPU, if each tile recomputes a value that its rows share. `tile_sizes` keeps to it.
LEAST_ROWS = 16

#: A few threads share the tiles, and a tile's tensors take half of a usual L2 cache.
CPU = FusionLimits(
    tile_bytes=1 << 20,
    serial_bytes=1 << 18,
    min_tiles=8,
    most_generics=128,
    tail_elements=1 << 16,
    serial_kernels=False,
    tails=True,
    in_sequence=True,
    atomics=False,
    converts_late=False,
    scalars_together=0,
    repeated_rows=LEAST_ROWS,
    strip=NARROWEST_STRIP,
    shares_code=True,
    donated_to_results=True,
)
#: Thousands of threads need tiles. What does not fit registers is read again. Programs cannot wait for one another.
GPU = FusionLimits(
    tile_bytes=1 << 22,
    serial_bytes=1 << 16,
    min_tiles=128,
    most_generics=128,
    tail_elements=1 << 13,
    serial_kernels=True,
    tails=False,
    in_sequence=False,
    atomics=True,
    converts_late=True,
    scalars_together=64,
    written_together=WRITTEN,
    repeated_elements=1 << 14,
    staged_elements=1 << 9,
    row_elements=1 << 13,
    strip=STRIP,
)

_BY_NAME = {"cpu": CPU, "gpu": GPU}


def limits_of(name: str) -> FusionLimits:
    """The limits of the machine called `name`. Raises PipelineError for an unknown name."""
    if name not in _BY_NAME:
        raise PipelineError(f"form-kernels knows the targets {', '.join(_BY_NAME)}, not {name!r}")
    return _BY_NAME[name]
