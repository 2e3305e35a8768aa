"""Writes the body of one kernel's tt.func from the generics of the kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cuesta._mlir import arith, ir, scf
from cuesta.dialects import tt
from cuesta.dialects.kernel_module import body_ops, destination_of
from cuesta.dialects.tt.types import shape_of
from cuesta.errors import Unsupported
from cuesta.lowering.linalg_to_tt import reduction
from cuesta.lowering.linalg_to_tt.elementwise import Elementwise
from cuesta.lowering.linalg_to_tt.frame import Frame, Turns, Value, stretched
from cuesta.lowering.linalg_to_tt.last_block import Access, turns_of
from cuesta.lowering.linalg_to_tt.memory import accesses, lookups
from cuesta.lowering.linalg_to_tt.narrow_math import are_narrow
from cuesta.sizes import Number

#: A node, one of its results, the argument that the result is written to, and the classes of the result's dims.
Output: TypeAlias = "tuple[Node, Value, Value, list[int]]"


@dataclass
class Node:
    """A generic of the kernel: the classes of its loops, the reduced ones, and the classes of each operand's dims."""

    op: ir.Operation
    classes: list[int]
    reduced: list[int]
    accesses: list[list[int]]

    @property
    def inputs(self) -> list[tuple[Value, list[int]]]:
        outputs = len(self.op.results)
        return list(zip(list(self.op.operands)[:-outputs], self.accesses, strict=False))

    @property
    def runs(self) -> bool:
        """Whether the node is a running sum: a result keeps a reduced dim."""
        return any(set(a) & set(self.reduced) for a in self.accesses[-len(self.op.results) :])


@dataclass(frozen=True)
class LoopBody:
    """What a loop over the blocks along `classes` does with each."""

    classes: Sequence[int]
    #: The reductions that the loop accumulates.
    reductions: Sequence[tuple[Node, reduction.Reduction]]
    #: The running sums that it continues.
    running: Sequence[Node]
    stores: Sequence[Output]
    #: The ops of all nodes that these depend on.
    needed: set[ir.Operation]
    loads: Sequence[Access]


@dataclass
class KernelWriter:
    """Writes the body of one tt.func."""

    frame: Frame
    nodes: list[Node]
    strides: dict[Value, list[Number]]
    pointers: dict[Value, Value]
    library: str
    #: The size parameters that bodies compute with → the kernel's scalar arguments.
    given: dict[Value, Value] = field(default_factory=dict)
    #: The value of each tensor inside the kernel, as a block.
    blocks: dict[Value, Value] = field(default_factory=dict)
    loaded: dict[tuple[Value, tuple[int, ...]], Value] = field(default_factory=dict)
    #: Comparisons in bodies whose result is known → that result.
    known: Mapping[ir.Operation, bool] = field(default_factory=dict)
    #: Whether the kernel multiplies narrow floats: what it computes of their products is no more exact.
    narrow: bool = False

    def copy(self) -> KernelWriter:
        """A copy whose state is independent of this writer's from here on."""
        frame = replace(self.frame, positions=dict(self.frame.positions), masks=dict(self.frame.masks))
        frame.axes = self.frame.axes  # a new frame has the order of the classes
        frame.placed = dict(self.frame.placed)
        return replace(self, frame=frame, blocks=dict(self.blocks), loaded=dict(self.loaded))

    # -- memory -------------------------------------------------------------------------------
    def pointer(self, argument: Value, classes: Sequence[int]) -> Value:
        return accesses.pointer_to(self.frame, self.pointers[argument], classes, self.strides[argument])

    def load(self, argument: Value, classes: Sequence[int]) -> Value:
        key = (argument, tuple(classes))
        if key not in self.loaded:
            base, strides = self.pointers[argument], self.strides[argument]
            self.loaded[key] = accesses.load(self.frame, argument, base, classes, strides)
        return self.loaded[key]

    def store(self, argument: Value, classes: Sequence[int], value: Value) -> None:
        accesses.store(self.frame, argument, self.pointers[argument], classes, self.strides[argument], value)

    def gather(self, argument: Value, positions: list[Value], apart: bool) -> Value:
        return lookups.gather(self.frame, self.pointers[argument], self.strides[argument], positions, apart)

    # -- nodes --------------------------------------------------------------------------------
    def emit(self, node: Node) -> None:
        """Computes a node without a loop; reductions run along axes of the block."""
        with node.op.location:
            if not node.reduced:
                values = self.body(node)
                terminator = list(body_ops(node.op))[-1]
                for result, source in zip(node.op.results, terminator.operands, strict=True):
                    self.blocks[result] = values[source]
            elif node.runs:
                self.running(node)
            else:
                taken = reduction.analyse(node.op)
                self.finish([(node, taken, self.contributions(node, taken))])

    def body(self, node: Node) -> dict[Value, Value]:
        values = self.inputs(node)
        self.evaluate(node).run(body_ops(node.op), values, node.classes)
        return values

    def inputs(self, node: Node) -> dict[Value, Value]:
        read = {x for op in body_ops(node.op) for x in op.operands} if self.given else ()
        numbers = {value: tt.splat(x, self.frame.unit) for value, x in self.given.items() if value in read}
        return numbers | {
            argument: self.load(value, classes) if isinstance(value.owner, ir.Block) else self.value(value)
            for argument, (value, classes) in zip(node.op.regions[0].blocks[0].arguments, node.inputs, strict=False)
        }

    def value(self, value: Value) -> Value:
        """The block of a tensor inside the kernel; a fill that no reduction accumulates into is a constant."""
        if value not in self.blocks and (attribute := reduction.filled_with(value)) is not None:
            kind = tt.block_type(self.frame.unit, attribute.type)
            self.blocks[value] = arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, attribute)).result
        return self.blocks[value]

    def evaluate(self, node: Node) -> Elementwise:
        """What evaluates the node's body."""
        scalars = [argument.type for argument in node.op.regions[0].blocks[0].arguments]
        narrow = self.narrow or are_narrow([tensor.type.element_type for tensor in self.strides]) or are_narrow(scalars)
        return Elementwise(self.frame, self.library, self.gather, narrow, self.known)

    def contributions(self, node: Node, taken: reduction.Reduction) -> list[Value]:
        values = self.inputs(node)
        found = taken.contributions(self.evaluate(node), values, node.classes)
        return reduction.masked(self.frame, taken, found, node.reduced)

    def finish(self, found: Sequence[tuple[Node, reduction.Reduction, Sequence[Value]]]) -> None:
        """Reduces the partial results of nodes."""
        partial = [(taken, values, node.reduced) for node, taken, values in found]
        for (node, _, _), totals in zip(found, reduction.all_along(self.frame, partial), strict=True):
            self.blocks.update(zip(node.op.results, totals, strict=True))

    def running(self, node: Node, before: Value | None = None) -> Value | None:
        """Computes a running sum along its one reduced class. In a loop, `before` is the sum of the earlier parts, and
        the returned value is the sum that includes this part."""
        taken = reduction.running(node.op)
        (contribution,) = self.contributions(node, taken)
        shape = self.frame.shape(node.classes)
        (c,) = node.reduced
        current = stretched(contribution, shape)
        if c in self.frame.axes:
            # Scans without dims of size 1: on some of these, after a reduction, Triton 3.6 fails an assertion.
            axis = sum(size > 1 for size in shape[: self.frame.axes.index(c)])
            current = tt.reshape(current, [size for size in shape if size > 1])
            (current,) = tt.scan([current], axis, lambda a, b: taken.combine([a], [b])[0])
            current = tt.reshape(current, shape)
        after = None
        if before is not None:
            (part,) = reduction.along(self.frame, taken, [contribution], node.reduced)
            (after,) = taken.combine([before], [stretched(part, shape_of(before))])
            (current,) = taken.combine([stretched(before, shape)], [current])
        terminator = list(body_ops(node.op))[-1]
        stored = terminator.operands[1]
        # The stored value is the sum, converted: evaluates the conversion with the scanned sum as its operand.
        values = {terminator.operands[0]: current}
        if stored not in values:
            self.evaluate(node).run([stored.owner], values, node.classes)
        self.blocks[node.op.results[1]] = values[stored]
        return after

    def from_memory(self) -> list[Access]:
        """What the nodes read from memory."""
        return [access for node in self.nodes for access in node.inputs if isinstance(access[0].owner, ir.Block)]

    def outputs(self, nodes: Iterable[Node]) -> list[Output]:
        """The results that `nodes` write to memory."""
        found: list[Output] = []
        for node in nodes:
            count = len(node.op.results)
            inits = list(node.op.operands)[-count:]
            for result, init, classes in zip(node.op.results, inits, node.accesses[-count:], strict=True):
                argument = destination_of(init)
                if argument is not None:
                    found.append((node, result, argument, classes))
        return found

    # -- the whole ----------------------------------------------------------------------------
    def write(self) -> None:
        """Computes every node in order; stores last, because an argument that is read may be written too.

        In a kernel with a reduction, an output whose memory is not read is stored as soon as it is computed, after all
        loads: Triton 3.6 cannot compile some kernels that store several results of reductions at their end (its pass
        TritonGPURemoveLayoutConversions places a conversion below one of its uses).
        """
        early: list[Output] = []
        if any(node.reduced for node in self.nodes):
            for value, classes in self.from_memory():
                self.load(value, classes)
            read = {value for value, _ in self.from_memory()}
            early = [output for output in self.outputs(self.nodes) if output[2] not in read]
        for node in self.nodes:
            self.emit(node)
            self.store_outputs([output for output in early if output[0] is node])
        self.store_outputs([output for output in self.outputs(self.nodes) if output not in early])

    def store_all(self) -> None:
        self.store_outputs(self.outputs(self.nodes))

    def write_rest(self, c: int, stored: Sequence[Output] = ()) -> None:
        """Writes what is left of a kernel whose reductions along class c are done: nodes without that class, a loop for
        the outputs that have it and are not `stored` yet, and the other outputs."""
        for node in self.nodes:
            if c not in node.classes and node.op.results[0] not in self.blocks:
                self.emit(node)
        if along := [output for output in self.outputs(self.nodes) if c in output[3] and output not in stored]:
            self.loop([c], [], along)
        self.store_outputs(output for output in self.outputs(self.nodes) if c not in output[3])

    def store_outputs(self, outputs: Iterable[Output]) -> None:
        for node, result, argument, classes in outputs:
            with node.op.location:
                self.store(argument, classes, self.value(result))

    def write_looped(self, loops: Sequence[int]) -> None:
        """Writes a kernel that walks the classes of `loops` in loops, one block at a time.

        Reductions along the same classes that do not depend on one another share a loop, unless their results are known
        already. Ops that depend on their results are in the next loop, which recomputes the values along these classes
        that it needs. Each output is stored in the first loop that computes it, but in the last loop if its memory is
        read as well.
        """
        levels = self._levels(loops)
        walked = {n.op: tuple(c for c in loops if c in n.classes) for n in self.nodes}
        last = max([levels[op] for op, classes in walked.items() if classes], default=0)
        read = {value for value, _ in self.from_memory()}
        outputs = [(tuple(c for c in loops if c in o[3]), o) for o in self.outputs(self.nodes)]
        for level in range(last + 1):
            self._emit_outside(walked, levels, level)
            here: dict[tuple[int, ...], tuple[list[Node], list[Output]]] = {}
            for node in self.nodes:
                if self._is_looped(node, loops) and levels[node.op] == level:
                    here.setdefault(walked[node.op], ([], []))[0].append(node)
            for classes, output in outputs:
                if classes and level == (last if output[2] in read else levels[output[0].op]):
                    here.setdefault(classes, ([], []))[1].append(output)
            for classes, (reductions, stores) in here.items():
                self.loop(classes, reductions, stores)
        self._emit_outside(walked, levels, last + 1)
        for classes, (node, result, argument, own) in outputs:
            if not classes:
                with node.op.location:
                    self.store(argument, own, self.value(result))

    def _emit_outside(
        self, walked: dict[ir.Operation, tuple[int, ...]], levels: dict[ir.Operation, int], most: int
    ) -> None:
        """Computes the nodes that walk no looped class and whose level, as by `_levels`, is at most `most`."""
        for node in self.nodes:
            if not walked[node.op] and levels[node.op] <= most and node.op.results[0] not in self.blocks:
                self.emit(node)

    def _levels(self, loops: Sequence[int]) -> dict[ir.Operation, int]:
        """Node → how many reductions along `loops` it depends on in succession."""
        levels: dict[ir.Operation, int] = {}
        reducing = {n.op for n in self.nodes if self._is_looped(n, loops)}
        for node in self.nodes:
            if set(node.reduced) & set(loops):
                self._check_looped(node, loops)
            producers = [v.owner for v, _ in node.inputs if not isinstance(v.owner, ir.Block)]
            behind = [levels[p] + (p in reducing) for p in producers if p in levels]
            levels[node.op] = max(behind, default=0)
        return levels

    def _is_looped(self, node: Node, loops: Sequence[int]) -> bool:
        """Whether a node is a reduction along `loops` whose result is not known yet."""
        return not node.runs and bool(set(node.reduced) & set(loops)) and node.op.results[0] not in self.blocks

    def _check_looped(self, node: Node, loops: Sequence[int]) -> None:
        """Raises Unsupported for a reduction that keeps a looped class, as a loop would compute it only in part."""
        walked = [c for c in loops if c in node.classes]
        count = math.prod(self.frame.sizes[c] for c in walked)
        if not set(walked) <= set(node.reduced):
            raise Unsupported(f"a reduction keeps a looped dim of {count} elements, at {node.op.location}")

    def loop(self, classes: Sequence[int], reductions: Sequence[Node], stores: Sequence[Output]) -> None:
        """Writes one loop over all blocks along `classes`, which accumulates `reductions`, then writes `stores`. A
        running sum continues from the earlier parts."""
        taken = [reduction.analyse(n.op) for n in reductions]
        needed = self.needed([*reductions, *(o[0] for o in stores)])
        walked = set(classes)
        running = [node for node in self.nodes if node.op in needed and node.runs and walked & set(node.reduced)]
        if running and len(classes) > 1:
            raise Unsupported(f"a running sum in a loop over {len(classes)} dims, not one, at {running[0].op.location}")
        frame, pairs = self.frame, zip(reductions, taken, strict=True)
        starts = [v for node, r in pairs for v in reduction.starts(frame, r, node.classes)]
        for node in running:
            starts += reduction.starts(frame, reduction.running(node.op), set(node.classes) - walked)
        loads = self._load_outside(needed, walked)
        body = LoopBody(classes, list(zip(reductions, taken, strict=True)), running, stores, needed, loads)
        carried = starts
        for turns in turns_of(self.frame, classes, self.accesses(), self.strides):
            carried = self._turns(body, turns, carried)
        totals = iter(carried)
        self.finish([(node, r, [next(totals) for _ in r.identities]) for node, r in body.reductions])

    def _turns(self, body: LoopBody, turns: Turns, carried: Sequence[Value]) -> list[Value]:
        """Writes what a loop does in some turns, and returns the accumulators and running sums after them."""
        if turns.is_last:
            return self.copy()._one_block(body, self.frame.scalar(turns.begin), carried, inside=turns.inside)
        loop = self.frame.loop(turns, carried)
        with ir.InsertionPoint(loop.body):
            own, accumulators = self.copy(), list(loop.inner_iter_args)
            scf.YieldOp(own._one_block(body, loop.induction_variable, accumulators, inside=turns.inside))
        return list(loop.results)

    def _one_block(
        self, body: LoopBody, start: Value, carried: Sequence[Value], *, inside: bool = False
    ) -> list[Value]:
        """Writes what a loop does with the block at `start`, and returns the accumulators and running sums after it. A
        block that is `inside` of bounds needs no mask. Leaves this writer with the values of that block."""
        walked = set(body.classes)
        self.frame.place_in_loop(body.classes, start, inside=inside)
        for value, own in body.loads:
            self.load(value, own)
        accumulated = len(carried) - len(body.running)
        accumulators = iter(carried[:accumulated])
        sums = dict(zip((node.op for node in body.running), carried[accumulated:], strict=True))
        # A value along the classes must not be reused at another position along them, so all are recomputed here.
        for node in self.nodes:
            if node.op in sums:
                with node.op.location:
                    after = self.running(node, sums[node.op])
                    assert after is not None
                    sums[node.op] = after
            elif node.op in body.needed and walked & set(node.classes) and not walked & set(node.reduced):
                self.emit(node)
        joined: list[Value] = []
        for node, r in body.reductions:
            with node.op.location:
                shape = self.frame.shape(node.classes)
                parts = [stretched(v, shape) for v in self.contributions(node, r)]
                joined += r.combine([next(accumulators) for _ in parts], parts)
        self.store_outputs(body.stores)
        return [*joined, *sums.values()]

    def _load_outside(self, needed: set[ir.Operation], walked: set[int]) -> list[tuple[Value, list[int]]]:
        """Loads the invariants of a loop over the classes `walked`. Returns what an iteration loads before it computes
        anything, so that these loads are in flight together."""
        written = {output[2] for output in self.outputs(self.nodes)}
        inside = []
        for node in self.nodes:
            for value, classes in node.inputs if node.op in needed else ():
                if not isinstance(value.owner, ir.Block) or value in written:
                    continue
                if walked & set(classes):
                    inside.append((value, classes))
                elif self.frame.has(classes):
                    self.load(value, classes)
        return inside

    def accesses(self) -> Iterator[Access]:
        """All accesses of the kernel's nodes to memory."""
        for node in self.nodes:
            for value, classes in zip(node.op.operands, node.accesses, strict=True):
                argument = value if isinstance(value.owner, ir.Block) else destination_of(value)
                if argument is not None:
                    yield argument, classes

    def needed(self, targets: Sequence[Node]) -> set[ir.Operation]:
        """The ops of `targets` and of the nodes that they depend on, as far as these are not computed yet."""
        by_op = {n.op: n for n in self.nodes}
        needed: set[ir.Operation] = set()
        pending = [n.op for n in targets]
        while pending:
            op = pending.pop()
            if op in needed:
                continue
            needed.add(op)
            for value, _ in by_op[op].inputs:
                if value not in self.blocks and not isinstance(value.owner, ir.Block) and value.owner in by_op:
                    pending.append(value.owner)
        return needed
