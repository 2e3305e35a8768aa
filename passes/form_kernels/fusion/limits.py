"""What fusion has to know of the machine that kernels run on."""

from __future__ import annotations

from dataclasses import dataclass

from cuesta.errors import PipelineError


@dataclass(frozen=True)
class Machine:
    """Limits of one kernel. Each keeps a merge from costing more than the memory traffic that it saves."""

    #: What the tensors inside a kernel may take per tile, in bytes.
    tile_bytes: int
    #: A kernel that reads more than this, in bytes, wants at least `min_tiles` tiles.
    serial_bytes: int
    min_tiles: int
    #: Generics of one kernel. More of them save little traffic each, and trying a merge takes time for every one.
    most_generics: int
    #: What runs once, after the tiles or for want of any, may have this many elements.
    tail_elements: int
    #: Whether a kernel may end with a part that waits for all of its tiles.
    tails: bool
    #: Whether a tile runs one op after the other, each over all of it. Else one without loops of its own computes each
    #: value once and writes only then, and another may compute a value again at any time.
    in_sequence: bool
    #: Whether what writes at computed positions may do it in any order, each write in one step. Else one follows the
    #: other, along the loops that positions depend on.
    atomics: bool
    #: Whether a conversion to a wider type belongs to what reads it first, and to what writes its operand after that.
    converts_late: bool
    #: Kernels of a single number each that become one, at most; a launch costs more than all their work.
    scalars_together: int
    #: Elements up to which elementwise work for rows or columns may be done again by every tile that has some of them.
    repeated_elements: int = 0
    #: How many points of a loop a tile of elementwise work has, at least, where a part of that work lacks the loop.
    repeated_rows: int = 1
    #: What one reduction of a tile may leave to another one there, in elements; None for no limit.
    staged_elements: int | None = None
    #: Whether what reads a matrix product may be in the product's kernel.
    epilogues: bool = True
    #: Tiles that go together where they lie side by side in memory and each would reach into it in steps.
    strip: int = 1
    #: Whether kernels that differ in one size may be one.
    shares_code: bool = False
    #: Bytes from which a donated argument is lent to a result; None for never. Where torch's allocator has free memory
    #: at hand nothing is won, and a CUDA graph's argument is what another one writes in its next replay.
    lent_from: int | None = None


#: Columns of a strip on a GPU: what a warp reads at once.
STRIP = 32
#: Columns of the narrowest strip: the floats that memory gives at once.
SECTOR = 8
#: Programs that keep a GPU busy: two for each multiprocessor.
PROGRAMS = 264

#: Columns of the narrowest strip on a CPU: four cache lines of f32.
NARROWEST_STRIP = 64
#: Rows of a tile on a CPU, at least, where each tile does something again that rows share. `tile_sizes` keeps to it.
LEAST_ROWS = 16

#: Tiles go to a few threads, and to their caches: half of a usual L2.
CPU = Machine(
    tile_bytes=1 << 20,
    serial_bytes=1 << 18,
    min_tiles=8,
    most_generics=128,
    tail_elements=1 << 16,
    tails=True,
    in_sequence=True,
    atomics=False,
    converts_late=False,
    scalars_together=0,
    repeated_rows=LEAST_ROWS,
    strip=NARROWEST_STRIP,
    shares_code=True,
    lent_from=1 << 16,
)
#: Thousands of threads want tiles; what does not fit registers is read again. Programs cannot wait for one another.
GPU = Machine(
    tile_bytes=1 << 22,
    serial_bytes=1 << 16,
    min_tiles=128,
    most_generics=128,
    tail_elements=1 << 13,
    tails=False,
    in_sequence=False,
    atomics=True,
    converts_late=True,
    scalars_together=64,
    repeated_elements=1 << 14,
    staged_elements=1 << 9,
    strip=STRIP,
)

_BY_NAME = {"cpu": CPU, "gpu": GPU}


def machine(name: str) -> Machine:
    """The machine of that name. Raises PipelineError for another."""
    if name not in _BY_NAME:
        raise PipelineError(f"form-kernels knows the targets {', '.join(_BY_NAME)}, not {name!r}")
    return _BY_NAME[name]
