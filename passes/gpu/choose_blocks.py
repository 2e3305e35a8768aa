"""Chooses the block that each program of a GPU kernel works on.

    func @softmax {cuesta.parallel = [0], cuesta.sizes = [3072, 250]}
→   func @softmax {…, cuesta.blocks = [4, 256], cuesta.warps = 4, cuesta.align = [16, 16]}

`cuesta.blocks` has a power of two for each class. For a parallel class it is the part that one program takes. For
another class it is the whole (rounded up to a power of two) or, if that does not fit the registers, the part that
a loop takes at a time; `cuesta.loops` lists the classes with such a loop. `cuesta.singles` lists classes of few
elements that lie far apart, which a program takes one by one, without a loop. `cuesta.align` has, for each argument,
the alignment of its pointer in every launch, in bytes, as far as offsets tell; `cuesta.wide` says that positions take
i64.

If sizes depend on the call, blocks are chosen for the sizes of the traced call. A kernel that is faster for sizes like
these has a second version for all others (`kernel_versions`), which has a loop over each class to reduce;
`cuesta.fits` says that the loop is left out if the sizes fit the block. `cuesta.multiples` has, for each parameter, a
number that divides it in every launch that runs the version.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cuesta._mlir import func, ir
from cuesta.dialects import host
from cuesta.dialects.kernel_fields import (
    ALIGN,
    APART,
    BLOCKS,
    CLASSES,
    COUNTS,
    FITS,
    LOOKED_UP,
    LOOPS,
    MULTIPLES,
    NEIGHBOURS,
    PARALLEL,
    SINGLES,
    SIZES,
    STAGES,
    WARPS,
    WIDE,
    WINDOWS,
)
from cuesta.dialects.kernel_module import (
    argument_shapes,
    destination_of,
    is_computed_with,
    kernel_modules,
    operand_classes,
    parameters,
)
from cuesta.dialects.kernel_scatter import is_scatter
from cuesta.dialects.named_linalg import is_fill, is_generic
from cuesta.dialects.product import tile_of
from cuesta.dialects.types import byte_size, spelling_of
from cuesta.dialects.upstream_fields import INDEX_DIM
from cuesta.errors import Unsupported
from cuesta.passes.analysis.gathered_loops import computed_reads
from cuesta.passes.analysis.launches import Launch, common_divisor, is_wide, largest, launches_of
from cuesta.passes.gpu.block_sizes import SQUARE, Blocks, choose, product_blocks
from cuesta.passes.gpu.kernel_space import Space, Walk
from cuesta.passes.gpu.looked_up import looked_up_classes
from cuesta.passes.gpu.walked_classes import find_walk, reduced_classes
from cuesta.passes.gpu.window_blocks import window_blocks
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.tiles.kernel_versions import (
    add_version,
    choose_at_launch,
    excess,
    needs_more_than_half,
    wide_offsets,
    widening,
)
from cuesta.sizes import Number, Size, hint, symbol
from cuesta.sizes.facts import divisor_of

#: The pointer alignment that wide loads require, in bytes.
ALIGNED = 16
#: The largest multiple that is tracked for a size: the widest block.
_LARGEST_MULTIPLE = 1 << 20
#: If one block takes a whole row, there are versions for rows of half, a quarter, twice as many elements and so on
#: (`_SHIFTS`), none shorter than `_SHORTEST`.
_SHIFTS, _SHORTEST = (-1, -2, -3, 1, 2), 32
#: Least elements of a block along a class to reduce whose size differs from call to call: `PART` if the class is
#: fastest in memory, `ROOM` if no loop can walk the class, so that no call may have more elements.
PART, ROOM = 128, 2048
#: Tensors of fewer elements stay in a GPU's caches near the threads.
_CACHED = 1 << 15
_NONE: Mapping[int, int] = {}
_NO_NAMES: Mapping[str, int] = {}


@register_pass("choose-blocks")
class ChooseBlocks(Pass):
    """Chooses block sizes, warps and known alignments of GPU kernels."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            launches = launches_of(module)
            kernels = [
                _Kernel.read(function, launches.get(function.name.value, []))
                for nested in kernel_modules(module)
                for function in functions(nested)
            ]
            beside = _beside(module, {kernel.function.name.value: kernel.space.total for kernel in kernels})
            for kernel in kernels:
                _annotate(replace(kernel, beside=beside.get(kernel.function.name.value, 0)))


def _beside(module: ir.Module, elements: Mapping[str, int]) -> dict[str, int]:
    """Kernel → the most elements of what is launched together with it; `elements` are those of each kernel."""
    found: dict[str, int] = {}
    for function in functions(module):
        for group in host.groups_in(function.regions[0].blocks[0]):
            names = [host.Launch.kernel.of(op) for op in group]
            total = sum(elements[name] for name in names)
            for name in names:
                found[name] = max(found.get(name, 0), total - elements[name])
    return found


@dataclass(frozen=True)
class _Kernel:
    """A kernel, with everything that the choice of its blocks depends on."""

    function: func.FuncOp
    launches: Sequence[Launch]
    generics: list[ir.Operation]
    sizes: list[Number]
    #: The kernel as numbers: its sizes are estimates of `sizes`.
    space: Space
    #: the elements of what is launched together with the kernel
    beside: int = 0

    @staticmethod
    def read(function: func.FuncOp, launches: Sequence[Launch]) -> _Kernel:
        generics = [o.operation for o in function.regions[0].blocks[0].operations]
        generics = [op for op in generics if is_generic(op) or is_scatter(op)]
        accesses = {
            (value, tuple(classes)): classes
            for g in generics
            for value, classes in zip(g.operands, operand_classes(g), strict=True)
            if _in_memory(value)
        }
        tensors = [*accesses.values(), *(t for g in generics for t in _read_at_positions(g, function, launches))]
        sizes = SIZES.of(function)
        # A symbolic size that is 0 in the traced call is larger in other calls.
        traced = zip(largest(launches, sizes), sizes, strict=True)
        about = [_SHORTEST if n == 0 and isinstance(size, Size) else n for n, size in traced]
        written = [
            classes
            for g in generics
            for value, classes in list(zip(g.operands, operand_classes(g), strict=True))[-len(g.results) :]
            if _in_memory(value)
        ]
        shapes = argument_shapes(function)
        strides = [shapes[destination_of(value) or value][1] for value, _ in accesses]
        looked_up = looked_up_classes(generics, shapes)  # marks the reads that are counted below
        space = Space(
            about,
            frozenset(PARALLEL.of(function)),
            tensors or [[]],
            written,
            [CLASSES.of(g) for g in generics] or [[]],
            [reduced_classes(g) for g in generics] or [set()],
            _width(function, launches),
            gathers=any(map(computed_reads, generics)),
            looked_up=looked_up,
            lookups=sum(APART.is_on(op) for g in generics for op in computed_reads(g)),
            scatters=any(map(is_scatter, generics)),
            strides=[[n if isinstance(n, int) else 1 for n in own] for own in strides],
        )
        return _Kernel(function, launches, generics, sizes, space)

    @property
    def parallel(self) -> frozenset[int]:
        return self.space.parallel

    @property
    def unknown(self) -> set[int]:
        """The classes whose size differs from call to call."""
        return {c for c, size in enumerate(self.sizes) if isinstance(size, Size)}

    @property
    def products(self) -> list[ir.Operation]:
        return [g for g in self.generics if tile_of(g) is not None]

    def choose(self, least: Mapping[int, int]) -> Blocks:
        if self.products:
            return product_blocks(self.products, [n if isinstance(n, int) else 0 for n in self.sizes])
        for generic in self.generics:
            if WINDOWS.is_on(generic):
                return window_blocks(generic, self.space)
        walk = Walk() if self.unknown else find_walk(self.generics, self.space)
        return choose(self.space, walk, least, self.beside)


def _width(function: func.FuncOp, launches: Sequence[Launch]) -> int:
    """The size of an element of the tensor that takes most memory of a kernel's, in bytes."""
    shapes = argument_shapes(function).items()
    widths = [(math.prod(largest(launches, sizes)), byte_size(spelling_of(x))) for x, (sizes, _) in shapes]
    return max(widths, key=math.prod, default=(0, 4))[1]


def _annotate(kernel: _Kernel) -> None:
    """Chooses blocks for a kernel and for versions of it that only some sizes allow, those of the traced call first."""
    function, name = kernel.function, kernel.function.name.value
    offsets = wide_offsets(kernel.launches)
    versions = [v for v in _versions(kernel) if v.unless or offsets]
    if not versions:
        _annotate_general(kernel)
        return
    names = [name, *(f"{name}__{number}" for number in range(1, len(versions)))]
    general = add_version(function, f"{name}__any")
    copies = [function, *(add_version(function, own) for own in names[1:])]
    _annotate_general(replace(kernel, function=general))
    for version, copied in zip(versions, copies, strict=True):
        _write(replace(kernel, function=copied), version.blocks, set(version.blocks.loops), version.wide, offsets)
        if any(version.counts):
            COUNTS.put(copied, list(version.counts))
    for launch in kernel.launches:
        aligned = [launch.offsets[i] % multiple for i, multiple in offsets.items()]
        given = [(own, [*map(launch.size, v.unless), *aligned]) for own, v in zip(names, versions, strict=True)]
        choose_at_launch(launch, [*given, (general.name.value, [])])


@dataclass(frozen=True)
class _Version:
    """A version of a kernel, in terms of its parameters. It may run if all numbers of `unless` are 0."""

    blocks: Blocks
    unless: list[Number]
    wide: Mapping[str, int]
    counts: Sequence[int] = ()


def _versions(kernel: _Kernel) -> list[_Version]:
    """Versions for the traced sizes, then for other sizes; none if known sizes would make no difference."""
    if not kernel.launches:
        return []
    least = dict.fromkeys(kernel.unknown & kernel.parallel, SQUARE)
    walked = kernel.unknown - kernel.parallel
    wide = widening(kernel.function, kernel.launches, kernel.space.fastest)
    multiples = [symbol(p) % multiple for p, multiple in wide.items()]
    chosen = kernel.choose(least)
    whole = sorted(walked - set(chosen.loops), key=lambda c: chosen.sizes[c])
    if not whole:
        return [*_exact(kernel, chosen, wide), _Version(chosen, multiples, wide)]
    *others, row = whole
    found = [chosen]
    for shift in _SHIFTS:
        about = list(kernel.space.sizes)
        about[row] = chosen.sizes[row] << shift if shift > 0 else chosen.sizes[row] >> -shift
        other = replace(kernel, space=replace(kernel.space, sizes=about)).choose(least)
        if about[row] >= _SHORTEST and other not in found:
            found.append(other)
    shortest = min(blocks.sizes[row] for blocks in found if row not in blocks.loops)
    size = kernel.sizes[row]
    known = [{**wide, str(size): chosen.sizes[row]}] if _is_whole(kernel, row, chosen.sizes[row]) else []
    versions = []
    for blocks, own in [*((chosen, exact) for exact in known), *((blocks, wide) for blocks in found)]:
        unless = [symbol(p) % multiple for p, multiple in own.items()]
        beside = [c for c in others if c not in blocks.loops]
        unless += (excess(kernel.sizes[c], blocks.sizes[c], _masks(kernel, c, blocks, own)) for c in beside)
        if row not in blocks.loops and blocks.sizes[row] != shortest:
            unless.append(needs_more_than_half(size, blocks.sizes[row]))
        elif row not in blocks.loops:
            unless.append(excess(size, blocks.sizes[row], _masks(kernel, row, blocks, own)))
        versions.append(_Version(blocks, unless, own))
    return versions


def _is_whole(kernel: _Kernel, c: int, block: int) -> bool:
    """Whether a class is exactly one full block in the traced call, so that the block needs no mask."""
    size = kernel.sizes[c]
    return isinstance(size, Size) and size.is_symbol and all(hint(n.size(size)) == block for n in kernel.launches)


def _masks(kernel: _Kernel, c: int, blocks: Blocks, wide: Mapping[str, int]) -> bool:
    """Whether a block along a class has a mask, so that nothing is read if the size is 0."""
    known = {**_multiples(kernel), **wide}
    return blocks.sizes[c] > 1 and divisor_of(kernel.sizes[c], known) % blocks.sizes[c] != 0


def _multiples(kernel: _Kernel) -> dict[str, int]:
    """Parameter → a number that divides it in every launch of every call."""
    names = parameters(kernel.function)
    return {p: common_divisor((launch.parameters[p] for launch in kernel.launches), _LARGEST_MULTIPLE) for p in names}


def _exact(kernel: _Kernel, chosen: Blocks, wide: Mapping[str, int]) -> list[_Version]:
    """The version for the traced call's number of blocks along each parallel class but the first, and for full blocks
    if the traced ones are: a program then finds its position by dividing by constants."""
    parallel = PARALLEL.of(kernel.function)
    about = {c: {hint(launch.size(kernel.sizes[c])) for launch in kernel.launches} for c in parallel}
    several = [c for c in parallel if any(n > chosen.sizes[c] for n in about[c])]
    inner = [c for c in several[1:] if isinstance(kernel.sizes[c], Size)]
    counts = {c: {-(-n // chosen.sizes[c]) for n in about[c]} for c in inner}
    if not inner or kernel.products or any(len(found) > 1 for found in counts.values()):
        return []
    known = {c: found.pop() for c, found in counts.items()}
    exact = dict(wide)
    for c in inner:
        size, block = kernel.sizes[c], chosen.sizes[c]
        if isinstance(size, Size) and size.is_symbol and all(n % block == 0 for n in about[c]):
            exact[str(size)] = math.lcm(block, exact.get(str(size), 1))
    unless: list[Number] = [symbol(p) % multiple for p, multiple in exact.items()]
    for c, count in known.items():
        off = (kernel.sizes[c] + chosen.sizes[c] - 1) // chosen.sizes[c] - count
        unless.append(off * off)
    return [_Version(chosen, unless, exact, [known.get(c, 0) for c in parallel])]


def _annotate_general(kernel: _Kernel) -> None:
    """Chooses the blocks that are valid for all sizes."""
    walked = kernel.unknown - kernel.parallel
    loops = kernel.space.can_loop(walked)
    fastest = kernel.space.fastest
    part = dict.fromkeys(fastest, PART) if loops else dict.fromkeys(walked, ROOM)
    chosen = kernel.choose({c: SQUARE if c in kernel.parallel else part.get(c, 1) for c in kernel.unknown})
    if walked and not (loops and kernel.space.can_loop(walked | set(chosen.loops))):
        for launch in kernel.launches:
            room = [(launch.size(kernel.sizes[c]), chosen.sizes[c]) for c in sorted(walked)]
            _require_room(kernel.function, room)
        walked = set()
    _write(kernel, chosen, walked | set(chosen.loops))
    if walked and not chosen.loops:
        FITS.mark(kernel.function)


def _write(
    kernel: _Kernel,
    chosen: Blocks,
    loops: set[int],
    wide: Mapping[str, int] = _NO_NAMES,
    offsets: Mapping[int, int] = _NONE,
) -> None:
    """Writes the choice as attributes. `wide` (by parameter) and `offsets` (by argument) hold divisors of parameters
    and of arguments' offsets that are larger than those known for every call."""
    function, launches = kernel.function, kernel.launches
    BLOCKS.put(function, list(chosen.sizes))
    WARPS.put(function, chosen.warps)
    if kernel.products or chosen.stages > 1:
        STAGES.put(function, chosen.stages)
    if loops:
        LOOPS.put(function, sorted(loops))
    if chosen.shares_positions:
        LOOKED_UP.put(function, list(kernel.space.looked_up))
    if chosen.singles:
        SINGLES.put(function, list(chosen.singles))
    if chosen.neighbours > 1:
        NEIGHBOURS.put(function, chosen.neighbours)
    shapes = argument_shapes(function)
    known = [common_divisor((launch.offsets[i] for launch in launches), ALIGNED) for i in range(len(shapes))]
    ALIGN.put(function, [offsets.get(i, n) for i, n in enumerate(known)])
    names = list(parameters(function))
    if names:
        MULTIPLES.put(function, [wide.get(p, n) for p, n in _multiples(kernel).items()])
    # No size is negative; a number that bodies compute with may be.
    computed = [symbol(p) for p, value in parameters(function).items() if is_computed_with(value)]
    counts = [*(_extent(*shape) for shape in shapes.values()), *kernel.sizes, *computed, *(-p for p in computed)]
    if is_wide(launches if names else [Launch([], {})], counts):
        WIDE.mark(function)


def _require_room(function: func.FuncOp, covered: Sequence[tuple[Number, int]]) -> None:
    """Guards that each size fits its block and is not 0 (comparisons of sizes become guards). Raises Unsupported if the
    traced sizes fail."""
    for size, block in covered:
        if not 0 < hint(size) <= block or size > block or size < 1:
            raise Unsupported(f"kernel @{function.name.value} needs {size} elements in one block of {block}")


def _read_at_positions(generic: ir.Operation, function: func.FuncOp, launches: Sequence[Launch]) -> Iterator[list[int]]:
    """For each tensor that a generic's body reads at computed positions, while a loop walks its last dim: the generic's
    classes, that of this loop last, as of a tensor that has all of them as dims. Small tensors stay in a cache."""
    for op in computed_reads(generic):
        shape = argument_shapes(function).get(op.operands[0])
        if shape is None or math.prod(largest(launches, shape[0])) < _CACHED:
            continue
        last = list(op.operands)[-1].owner
        if not isinstance(last, ir.Block) and last.name == "linalg.index":
            classes = CLASSES.of(generic)
            walked = classes[INDEX_DIM.of(last)]
            yield [*(c for c in classes if c != walked), walked]


def _in_memory(value: ir.Value) -> bool:
    """Whether a kernel's tensor is an argument, directly or filled."""
    if isinstance(value.owner, ir.Block):
        return True
    return is_fill(value.owner) and _in_memory(value.owner.operands[1])


def _extent(sizes: Sequence[Number], strides: Sequence[Number]) -> Number:
    """The number of elements from a tensor's first to its last."""
    return 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
