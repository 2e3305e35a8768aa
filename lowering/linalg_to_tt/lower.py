"""Lowers a kernel whose blocks are chosen to a tt.func: places each program's block, and writes its computation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta._mlir import arith, func, ir, linalg, scf
from cuesta.dialects import tt
from cuesta.dialects.kernel_fields import (
    ALIGN,
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
    WINDOW_PARTS,
    WINDOWS,
    windowed_dims,
)
from cuesta.dialects.kernel_module import argument_shapes, is_computed_with, operand_classes, parameters
from cuesta.dialects.kernel_scatter import is_scatter
from cuesta.dialects.product import FACTOR, tile_of
from cuesta.dialects.types import spelling_of
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, REDUCTION
from cuesta.errors import Unsupported
from cuesta.lowering.linalg_to_tt.attention import write_computed_factor
from cuesta.lowering.linalg_to_tt.columns import load_columns
from cuesta.lowering.linalg_to_tt.frame import Frame, Value, blocks_along
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node
from cuesta.lowering.linalg_to_tt.last_block import row_with_last_block
from cuesta.lowering.linalg_to_tt.memory.accesses import axes_to_store
from cuesta.lowering.linalg_to_tt.memory.lookups import in_order
from cuesta.lowering.linalg_to_tt.memory.row_starts import find_lead
from cuesta.lowering.linalg_to_tt.one_loop.centred_sums import find_centred_sums, write_centred_sums
from cuesta.lowering.linalg_to_tt.one_loop.one_hot import write_one_hot
from cuesta.lowering.linalg_to_tt.one_loop.powers import find_powers, write_powers
from cuesta.lowering.linalg_to_tt.product import write_products
from cuesta.lowering.linalg_to_tt.scalars import Scalars
from cuesta.lowering.linalg_to_tt.scatter import load_operands, write_scatter
from cuesta.lowering.linalg_to_tt.singles import take_singly
from cuesta.lowering.linalg_to_tt.windows import write_window_weights, write_windows
from cuesta.sizes import Number, Size

_LARGEST_I32 = (1 << 31) - 1
#: The largest multiple that Triton's analysis makes use of.
_MULTIPLE = 16
#: What quantised weights are stored in.
_BYTES = ("i8", "ui8")


def lower_kernel(function: func.FuncOp, library: str) -> None:
    """Replaces a kernel by its tt.func. Raises Unsupported, with the location, for an op that has no form in Triton."""
    sizes, blocks, parallel = SIZES.of(function), BLOCKS.of(function), PARALLEL.of(function)
    entry = function.regions[0].blocks[0]
    scatters = [view.operation for view in entry.operations if is_scatter(view.operation)]
    shapes = argument_shapes(function)
    names = parameters(function)
    multiples = MULTIPLES.of(function) if names else []
    with ir.InsertionPoint(function), function.location:
        index_type = ir.IntegerType.get_signless(64 if WIDE.is_on(function) else 32)
        programs = [blocks_along(sizes[c], blocks[c]) for c in parallel]
        total = math.prod(programs)
        if isinstance(total, int) and total > _LARGEST_I32:
            raise Unsupported(
                f"kernel @{function.name.value} would take {total} programs; at most {_LARGEST_I32} are valid"
            )
        aligned = [*ALIGN.of(function), *(math.gcd(n, _MULTIPLE) for n in multiples)]
        _, block = tt.func(
            function.name.value,
            [*(tt.pointer_type(spelling_of(a)) for a in shapes), *([index_type] * len(names))],
            [tt.DIVISIBILITY.entry(n) if n > 1 else {} for n in aligned],
            grid=(_resident(entry, total), 1, 1),
            warps=WARPS.of(function),
            stages=STAGES.find(function) or 3,
        )
        passed = list(block.arguments)
        given = dict(zip(names, passed[len(shapes) :], strict=True))
        scalars = Scalars(index_type, given, dict(zip(names, multiples, strict=True)))
        nodes, singles = _with_singles(_nodes(entry), function)
        blocks_in = _axes_of_windows(function)
        ones = [1] * len(singles)
        frame = Frame([*sizes, *ones], [*blocks_in, *ones], scalars)
        with ir.InsertionPoint(block):
            for c, position in singles.items():
                frame.place(c, frame.scalar(position))
            computed = {name: value for name, value in names.items() if is_computed_with(value)}
            writer = KernelWriter(
                frame,
                nodes,
                {argument: strides for argument, (_, strides) in shapes.items()},
                dict(zip(shapes, passed, strict=False)),
                library,
                {value: given[name] for name, value in computed.items()},
            )
            _write(writer, function, programs, scatters)
            for op in scatters:
                with op.location:
                    write_scatter(writer, op, shapes[op.operands[-1]][0])
            tt.return_()
    function.operation.erase()


def _resident(entry: ir.Block, blocks: Number) -> Number:
    """The programs of a kernel with so many blocks: as many, or fewer that take them in turns."""
    tiles = [tile for view in entry.operations if (tile := tile_of(view.operation)) is not None]
    programs = tiles[0].programs if tiles else None
    return blocks if programs is None or not isinstance(blocks, int) else min(programs, blocks)


def _write(
    writer: KernelWriter, function: func.FuncOp, programs: Sequence[Number], scatters: Sequence[ir.Operation]
) -> None:
    """Writes what a kernel computes and stores, but for `scatters`, as the kind of the kernel wants it."""
    frame, blocks, parallel = writer.frame, BLOCKS.of(function), PARALLEL.of(function)
    products = [node for node in writer.nodes if tile_of(node.op) is not None]
    if any(FACTOR.is_on(node.op) for node in products):
        write_computed_factor(writer, products, parallel, WARPS.of(function))
        return
    if products:
        write_products(writer, products, parallel, WARPS.of(function))
        return
    known = COUNTS.find(function) or [0] * len(programs)
    starts = _starts(frame, blocks, parallel, [n or own for n, own in zip(known, programs, strict=True)])
    for node in writer.nodes:
        neighbours = NEIGHBOURS.find(function) or 1
        if WINDOW_PARTS.is_on(node.op):
            write_window_weights(writer, node, starts, blocks, neighbours)
            return
        if dims := windowed_dims(node.op):
            rows = blocks[dims[0].loop] if dims[0].loop >= 0 else 1
            write_windows(writer, node, starts, rows, neighbours)
            return
    looked_up = LOOKED_UP.find(function)
    if looked_up is None:
        frame.axes = _in_order(writer, parallel)
    else:
        frame.axes = in_order(frame.axes, looked_up)
        frame.rows = {c: start for c, start in starts.items() if c not in looked_up and start is not None}
    for c, start in starts.items():
        frame.place(c, start)
    loops = LOOPS.find(function) or []
    frame.stages = STAGES.find(function) or 1
    for c in range(len(blocks)):
        if c not in parallel and c not in loops:
            frame.place(c, None)
    sums = find_centred_sums(writer, loops)
    runs = any(node.runs for node in writer.nodes)
    accesses = [*writer.accesses()]
    if not (FITS.is_on(function) or sums is not None or runs or scatters):
        frame.lead = find_lead(frame, loops, accesses, writer.pointers, writer.strides)
    if FITS.is_on(function):
        _write_either(writer, loops)
    elif sums is not None:
        write_centred_sums(writer, sums)
    elif (powers := find_powers(writer, loops)) is not None:
        write_powers(writer, powers, WARPS.of(function))
    elif loops:
        write_one_hot(writer, loops)
        writer.write_looped(loops)
    elif not scatters and (row := row_with_last_block(frame, parallel, accesses, writer.strides)) is not None:
        _write_last_apart(writer, row, starts[row])
    else:
        if frame.rows is None:
            load_columns(writer, 32 * WARPS.of(function))
        for op in scatters:
            load_operands(writer, op)
        writer.write()


def _in_order(writer: KernelWriter, parallel: Sequence[int]) -> list[int]:
    """The axes of a kernel's blocks: in the order of the classes, but where bytes in groups are summed, groups come
    before rows. Triton lays threads along the last axis, then along the first. So the threads of a warp have a row's
    groups, and each has several rows, which share what it makes of the vector. Two values in a byte stay last."""
    axes = writer.frame.axes
    whole, rows = ([c for c in axes if (c in parallel) == cut] for cut in (False, True))
    reads = [access for node in writer.nodes for access in node.inputs if isinstance(access[0].owner, ir.Block)]
    walked = [{*classes} & {*axes} for x, classes in reads if spelling_of(x) in _BYTES]
    pairs = [c for c in whole[-1:] if writer.frame.blocks[c] == 2 and {*axes} - {c} in walked]
    groups = whole[: -1 - len(pairs)]
    in_groups = bool(pairs) or {*axes} in walked
    return [*groups, *rows, *whole[len(groups) :]] if in_groups and groups else _as_written(writer, axes)


def _as_written(writer: KernelWriter, axes: list[int]) -> list[int]:
    """The axes of the block of a kernel that reduces nothing: neighbouring threads write neighbouring elements."""
    frame = writer.frame
    if any(node.reduced for node in writer.nodes):
        return axes
    stored = (axes_to_store(frame, x, own, writer.strides[x]) for _, _, x, own in writer.outputs(writer.nodes))
    return next((order for order in stored if order is not None), axes)


def _write_either(writer: KernelWriter, loops: Sequence[int]) -> None:
    """Writes the kernel without loops for sizes that fit the block, and with loops for all others. A size of 0 takes
    the loops, because a block may have no mask that would exclude all its elements."""
    frame = writer.frame
    fits = None
    for c in loops:
        last = arith.subi(frame.scalar(frame.sizes[c]), frame.scalar(1))
        covered = arith.cmpi(arith.CmpIPredicate.ult, last, frame.scalar(frame.blocks[c]))
        fits = covered if fits is None else arith.andi(fits, covered)
    choice = scf.IfOp(fits, has_else=True)
    with ir.InsertionPoint(choice.then_block):
        whole = writer.copy()
        for c in loops:
            whole.frame.place(c, None)
        whole.write()
        scf.YieldOp([])
    with ir.InsertionPoint(choice.else_block):
        writer.write_looped(loops)
        scf.YieldOp([])


def _write_last_apart(writer: KernelWriter, row: int, start: Value | None) -> None:
    """Writes the kernel without a mask for blocks within a row, and with one for the last block of a row."""
    frame = writer.frame
    assert start is not None  # a row of several blocks
    end = arith.addi(start, frame.scalar(frame.blocks[row]))
    choice = scf.IfOp(arith.cmpi(arith.CmpIPredicate.sle, end, frame.scalar(frame.sizes[row])), has_else=True)
    for block, inside in ((choice.then_block, True), (choice.else_block, False)):
        with ir.InsertionPoint(block):
            own = writer.copy()
            own.frame.place(row, start, inside=inside)
            own.write()
            scf.YieldOp([])


def _nodes(entry: ir.Block) -> list[Node]:
    nodes = []
    for view in entry.operations:
        if not isinstance(view, linalg.GenericOp):
            continue
        op = view.operation
        classes = CLASSES.of(op)
        reduced = [c for c, kind in zip(classes, ITERATOR_TYPES.of(op), strict=True) if kind == REDUCTION]
        nodes.append(Node(op, classes, reduced, operand_classes(op)))
    return nodes


def _with_singles(nodes: list[Node], function: func.FuncOp) -> tuple[list[Node], dict[int, int]]:
    """The nodes of a kernel once each element along the classes of `SINGLES` is a class of its own, and the positions
    of these classes, whose numbers follow those of all others."""
    sizes, positions = SIZES.of(function), dict[int, int]()
    for c in SINGLES.find(function) or []:
        count = sizes[c]
        assert isinstance(count, int)
        own = range(first := len(sizes) + len(positions), first + count)
        nodes = take_singly(nodes, c, own)
        positions |= dict(zip(own, range(count), strict=True))
    return nodes, positions


def _axes_of_windows(function: func.FuncOp) -> list[int]:
    """The sizes of a kernel's blocks as axes. In a sum of products of windows rows are no axis, nor a thread's
    neighbours, nor the places that are summed apart."""
    blocks = list(BLOCKS.of(function))
    for view in function.regions[0].blocks[0].operations:
        if WINDOWS.is_on(view.operation):
            down, across = windowed_dims(view.operation)
            for c in (down.loop, down.place, across.place):
                if c >= 0:
                    blocks[c] = 1
            if across.loop >= 0:
                blocks[across.loop] //= NEIGHBOURS.find(function) or 1
    return blocks


def _starts(
    frame: Frame, blocks: Sequence[int], parallel: Sequence[int], programs: Sequence[Number]
) -> dict[int, Value | None]:
    """Where the program's block starts along each parallel class, by the program's number; None for 0. The last class
    varies fastest."""
    left = tt.get_program_id(0) if any(n != 1 for n in programs) else None
    starts: dict[int, Value | None] = {}
    for c, count in reversed(list(zip(parallel, programs, strict=True))):
        if count == 1:
            starts[c] = None
            continue
        assert left is not None
        number = left
        if c != next(p for p, n in zip(parallel, programs, strict=True) if n != 1):
            size = _count(frame, count)
            number, left = arith.remsi(left, size), arith.divsi(left, size)
        if str(frame.index_type) != "i32":
            number = arith.extsi(frame.index_type, number)
        starts[c] = arith.muli(number, frame.scalar(blocks[c])) if blocks[c] != 1 else number
    return starts


def _count(frame: Frame, programs: Number) -> Value:
    """A number of programs as an i32, which is wide enough."""
    if not isinstance(programs, Size):
        return tt.constant(programs, "i32")
    count = frame.scalar(programs)
    return count if str(count.type) == "i32" else arith.trunci(ir.IntegerType.get_signless(32), count)
