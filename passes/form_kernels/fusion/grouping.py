"""Decides which generics become one kernel: merges greedily, the pairs that save most memory traffic first.

A producer joins its consumer if they share a parallel class, no path leads from one to the other
through a third kernel, and the tile fits the cache. A small reduction over the tiles' results (the mean of
a loss) becomes the kernel's tail, which runs once after the tiles. Every producer and consumer that stay apart
are recorded with the reason and the bytes that this costs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cuesta._mlir import ir
from cuesta.dialects.types import byte_count, byte_size, spelling_of
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.form_kernels.fusion.beside_factors import beside_factors
from cuesta.passes.form_kernels.fusion.contractions import holds_stages, is_one_sum, multiplies_for, walk_refusal
from cuesta.passes.form_kernels.fusion.limits import CPU, FusionLimits
from cuesta.passes.form_kernels.fusion.narrow_sums import reduced_from_narrow
from cuesta.passes.form_kernels.fusion.nodes import Item, Node, counted
from cuesta.passes.form_kernels.fusion.paths import Paths
from cuesta.passes.form_kernels.fusion.products import product_classes, product_refusal
from cuesta.passes.form_kernels.fusion.scatters import scatter_loops_refusal, scatter_refusal
from cuesta.passes.form_kernels.fusion.space import (
    Conflict,
    Loop,
    Space,
    join,
    parallel_classes,
    tile_bytes,
)
from cuesta.passes.form_kernels.fusion.spreading import spreading
from cuesta.passes.form_kernels.fusion.tile_rows import count_tiles, rows_refusal
from cuesta.passes.form_kernels.fusion.windows import window_refusal

#: A group that moves less than this share of the bytes that two groups move together counts as little work.
_LITTLE = 0.1
#: Bytes of one tensor that a program of few may make, where _FEWER times as many programs could make it, of a tensor
#: smaller by as much: it writes them in 17 µs, as long as several launches take. Of 512 rows, with 8x160 slots each,
#: four programs made 21 MB in 535 µs on an H200.
_MOST_MADE, _FEWER = 1 << 19, 4
_NONE: Mapping[ir.Value, Sequence[int]] = {}


@dataclass
class Group:
    """Generics that are to be one kernel. `tail` holds the generics that run once after the tiles."""

    nodes: list[Node]
    tail: list[Node] = field(default_factory=list)
    space: Space = field(default_factory=Space)
    parallel: set[tuple[int, int]] = field(default_factory=set)
    #: The number of parallel tiles; None until it is first computed.
    tiles: int | None = None

    @functools.cached_property
    def bytes_read(self) -> int:
        """Bytes of all operands; an operand with several readers counts once for each. One that is read at computed
        positions counts at most as many elements as its reader has."""
        gathered = ((n, v) for n in self.nodes for v in n.gathers)
        return sum(r.bytes for n in self.nodes for r in n.reads) + sum(
            min(byte_count(v), n.elements * byte_size(spelling_of(v))) for n, v in gathered
        )

    @functools.cached_property
    def bytes_moved(self) -> int:
        """Bytes of all operands and all results."""
        return self.bytes_read + sum(count for n in self.nodes for count in n.result_bytes)

    @functools.cached_property
    def largest_result(self) -> int:
        """Bytes of the largest result: a node may make much of the little that it reads."""
        return max((count for n in self.nodes for count in n.result_bytes), default=0)

    @functools.cached_property
    def largest_tensor(self) -> int:
        """Bytes of the largest operand or result."""
        return max(self.largest_result, *(r.bytes for n in self.nodes for r in n.reads), 0)

    @functools.cached_property
    def members(self) -> list[Node]:
        return [*sorted(self.nodes, key=lambda n: n.index), *sorted(self.tail, key=lambda n: n.index)]


@dataclass(frozen=True)
class Remark:
    """A producer and a consumer that stayed apart."""

    producer: int
    consumer: int
    reason: str
    bytes: int


class Grouping:
    """Merges the items of one function; `group` maps the index of every node to its group."""

    def __init__(
        self,
        items: list[Item],
        returned: set[ir.Value],
        machine: FusionLimits = CPU,
        asked: Mapping[ir.Value, Sequence[int]] = _NONE,
    ) -> None:
        self.items = items
        self.machine = machine
        self.memory = MemoryOrder()
        #: result → the order of its dims in memory that is asked for
        self.asked = asked
        self.returned = returned
        self.group: dict[int, Group] = {}
        self.paths = Paths(items, self.group)
        self.remarks: list[Remark] = []
        nodes = [item for item in items if isinstance(item, Node)]
        self.writer = {r: node for node in nodes for r in node.results}
        self.readers: dict[ir.Value, set[int]] = {}
        for item in items:
            for value in (*item.op.operands, *(item.gathers if isinstance(item, Node) else ())):
                self.readers.setdefault(value, set()).add(item.index)
        #: Node index → the items that read the node's results; None if the graph returns one of the results.
        self.inner_readers = {node.index: self._inner_readers(node) for node in nodes}
        self.late = reduced_from_narrow(nodes, self.writer, self._only_reader)
        self.late |= spreading(nodes, self.writer, self._only_reader)
        self.late |= beside_factors(nodes, self.writer, self._only_reader)

    def _inner_readers(self, node: Node) -> set[int] | None:
        if any(r in self.returned for r in node.results):
            return None
        return {index for r in node.results for index in self.readers.get(r, ())}

    def run(self, fuse: bool = True) -> None:
        """Forms the groups; without `fuse` every generic is a group of its own."""
        for item in self.items:
            if isinstance(item, Node):
                space = join([], [item])
                self.group[item.index] = Group([item], [], space, parallel_classes(space, [item], set()))
                if fuse and not self._is_late(item):
                    self._merge_producers(item)
        if fuse:
            for item in self.items:
                if isinstance(item, Node) and self._is_late(item) and len(self.group[item.index].members) == 1:
                    self._merge_producers(item)  # no reader's kernel has taken the conversion in
            self._merge_makers()
            self._merge_siblings()
            if self.machine.scalars_together:
                self._merge_scalars()

    # -- candidates ---------------------------------------------------------------------------
    def _merge_producers(self, node: Node) -> None:
        gains: dict[int, int] = {}
        for read in node.reads:
            producer = self.writer.get(read.value)
            if producer is not None:
                gains[producer.index] = gains.get(producer.index, 0) + read.bytes
        for value in node.gathers:
            gathered = self.writer.get(value)
            if gathered is not None:
                self._note(gathered, node, "the result is read at computed positions", byte_count(value))
        for index, gain in sorted(gains.items(), key=lambda kv: -kv[1]):
            producer_group, own = self.group[index], self.group[node.index]
            if producer_group is own:
                continue
            reason = self._try_merge(producer_group, own)
            producer_node = self.items[index]
            assert isinstance(producer_node, Node)
            if reason is not None:
                self._note(producer_node, node, reason, gain)
            elif self._is_late(producer_node):
                self._merge_producers(producer_node)

    def _merge_makers(self) -> None:
        """Merges what else computes the left factor of a product: the second of two products that meet in the factor
        could not join the first before the product was there."""
        for item in self.items:
            if isinstance(item, Node) and item.factor is not None:
                count = 0
                while count < len(members := self.group[item.index].members):
                    count = len(members)
                    for node in members:
                        self._merge_producers(node)
        self.remarks = [r for r in self.remarks if self.group.get(r.producer) is not self.group.get(r.consumer)]

    def _is_late(self, node: Node) -> bool:
        """Whether a node joins its reader's kernel before its producers'. On a CPU it multiplies what a sum adds up.
        On a GPU it only widens, or computes a few elements, such as squares, that a kernel of one program adds up, or
        is one of `late`: elements are computed from a tensor that takes less memory than they do, or is dear."""
        if not self.machine.in_sequence:
            late = node.widens or self._is_added_up(node) or node.index in self.late
            return self.machine.converts_late and late
        reader = self._only_reader(node)
        if reader is not None and node.widens:
            node, reader = reader, self._only_reader(reader)
        return multiplies_for(reader, node)

    def _is_added_up(self, node: Node) -> bool:
        """Whether all of a node's elements, of which there are few, are only reduced to one number."""
        reader = self._only_reader(node)
        few = all(node.parallel) and node.elements <= self.machine.tail_elements
        return few and reader is not None and not all(reader.parallel) and not any(reader.parallel)

    def _only_reader(self, node: Node) -> Node | None:
        items = [self.items[i] for i in self.inner_readers[node.index] or ()]
        return items[0] if len(items) == 1 and isinstance(items[0], Node) else None

    def _is_little(self, node: Node) -> bool:
        """Whether recomputing a node in every tile costs less than a launch of its own."""
        return node.elements <= self.machine.repeated_elements and all(node.parallel) and not node.gathers

    def _merge_siblings(self) -> None:
        """Merges groups that read one tensor along the same classes, so that the tensor is read once."""
        for value, readers in self.readers.items():
            if byte_count(value) < 4096:
                continue
            indices = sorted(i for i in readers if i in self.group)
            for first, second in itertools.pairwise(indices):
                a, b = self.group[first], self.group[second]
                if a is not b and not (a.tail and b.tail):
                    self._try_merge(a, b, siblings=True)

    def _merge_scalars(self) -> None:
        """Merges groups that compute single numbers from arguments alone, such as a network's batch counters."""
        found: list[Group] = []
        for group in {id(g): g for g in self.group.values()}.values():
            inside = {n.index for n in group.members}
            ready = all(n.elements == 1 and n.sources <= inside for n in group.members)
            if ready and not group.tail:
                found.append(group)
        for start in range(0, len(found), self.machine.scalars_together):
            first, *others = found[start : start + self.machine.scalars_together]
            index = first.members[0].index
            for group in others:
                if self._try_merge(self.group[index], group) is not None:  # the kernel so far is full
                    index = group.members[0].index

    def merge_node_by_node(self, first: Sequence[Node], group: Group) -> str | None:
        """Merges `group` into the group of the nodes `first`. Node by node, the loops of both have the same sizes.
        Returns the reason if the groups stay apart."""
        pairs = ((m.index, n.index, len(m.sizes)) for m, n in zip(first, group.members, strict=True))
        loops = [((m, d), (n, d)) for m, n, rank in pairs for d in range(rank)]
        return self.merge_along(self.group[first[0].index], group, loops)

    def merge_along(self, a: Group, b: Group, loops: Sequence[tuple[Loop, Loop]]) -> str | None:
        """Merges two groups and unifies each pair of `loops`. Returns the reason if the groups stay apart."""
        return self._try_merge(a, b, loops=loops)

    # -- one merge ----------------------------------------------------------------------------
    def _try_merge(
        self, a: Group, b: Group, siblings: bool = False, loops: Sequence[tuple[Loop, Loop]] = ()
    ) -> str | None:
        """Merges b into a and unifies each pair of `loops`. Returns the reason if the groups stay apart."""
        if len(a.members) + len(b.members) > self.machine.most_generics:
            return f"one kernel would have more than {self.machine.most_generics} linalg ops"
        if not siblings and self.paths.between(a, b):
            return _PATH
        if _gathers(a, b) or _gathers(b, a):
            return "the result is read at computed positions"
        members = [*a.members, *b.members]
        scatters = any(node.base is not None for node in members)
        apart = scatter_refusal(members, self._internal(members), self.machine.atomics) if scatters else None
        if apart is not None:
            return apart
        if (a.tail or b.tail) and not siblings:
            return self._extend_tail(a, b)
        nodes = sorted(a.nodes + b.nodes, key=lambda n: n.index)
        tail = a.tail or b.tail
        behind = {r for n in tail for r in n.results}
        if any(read.value in behind for n in nodes for read in n.reads):
            return _NO_COMMON
        try:
            space = join([a.space, b.space], sorted(nodes + tail, key=lambda n: n.index))
            for one, other in loops:
                space.unify(one, other)
            space.check(nodes if loops else ())
        except Conflict:
            return "the result is written and read along different loops"
        if any(node.product is not None for node in nodes):
            reason = product_refusal(space, nodes, self._internal(nodes), self.machine.epilogues)
            parallel = product_classes(space, nodes)
        else:
            # A tile that repeats a widening reads the narrow tensor instead of the wide one, which takes no longer.
            free = [n.index for n in nodes if n.widens or self._is_little(n) or n.is_free(scatters)]
            free += counted(nodes) if self.machine.repeated_elements else []
            inside = self._internal(nodes)
            parallel = parallel_classes(space, nodes, inside, free, self.machine.repeated_rows)
            reason = window_refusal(space, nodes, parallel)
            if scatters and reason is None:
                reason = scatter_loops_refusal((nodes, space, parallel), inside)
            if reason is None:
                reason = self._tiling_refusal(a, b, nodes, space, parallel, siblings)
        if reason is not None:
            return self._extend_tail(a, b) if not siblings and reason == _NO_COMMON else reason
        if siblings and self.paths.between(a, b):  # last, because the search is long for siblings far apart
            return _PATH
        self._replace(a, b, Group(nodes, tail, space, parallel))
        return None

    def _tiling_refusal(
        self, a: Group, b: Group, nodes: list[Node], space: Space, parallel: set[tuple[int, int]], siblings: bool
    ) -> str | None:
        """The reason why the `nodes` of two groups, none a matrix product, are no good kernel whose tiles run over the
        classes `parallel`; None if they are."""
        if not parallel:
            joins = self.machine.serial_kernels and any(is_one_sum(group.nodes, group.parallel) for group in (a, b))
            serial = joins or (not a.parallel and not b.parallel)
            small = all(n.elements <= self.machine.tail_elements for n in nodes)
            return None if serial and small else _NO_COMMON
        before = [(g.nodes, g.space, g.parallel) for g in (a, b)]
        reason = walk_refusal(self.machine, (nodes, space, parallel), before)
        if reason is not None:
            return reason
        tiles = self._tiles(nodes, space, parallel)
        few = tiles < self.machine.min_tiles
        if few and (tiles < self._tiles_wanted(a, b, siblings) or self._idles(a, b, tiles) or self._idles(b, a, tiles)):
            return f"one kernel would have only {tiles} tiles to run in parallel"
        if not holds_stages(self.machine, (nodes, space, parallel)):
            return "the values between two reductions do not fit into one program"
        inside = self._internal(nodes) if self.machine.in_sequence else ()
        if tile_bytes(nodes, space, parallel, inside) > self.machine.tile_bytes:
            return "the values between the ops do not fit into the cache"
        return rows_refusal(self.memory, (nodes, space, parallel), before, gpu=not self.machine.in_sequence)

    def _tiles_wanted(self, a: Group, b: Group, siblings: bool) -> int:
        """The tiles that the merged kernel must keep: the smaller tile count of the groups that are not little work. Of
        siblings the larger: reading a tensor once is not worth having fewer programs."""
        if a.bytes_read + b.bytes_read <= self.machine.serial_bytes:
            return 0
        moved = a.bytes_moved + b.bytes_moved
        wanted = [self._tiles_of(group) for group in (a, b) if group.bytes_moved > _LITTLE * moved]
        return (max if siblings else min)(wanted, default=0)

    def _idles(self, group: Group, other: Group, tiles: int) -> bool:
        """Whether most of a GPU would idle while `tiles` programs make what a group alone has more programs for, of the
        little that the other group has: such as slots for each row of a running sum, of which a matrix is one
        program."""
        large = not self.machine.in_sequence and group.largest_result > _MOST_MADE * tiles
        spread = large and group.largest_result >= _FEWER * other.largest_tensor
        return spread and self._tiles_of(group) >= _FEWER * tiles

    def _tiles_of(self, group: Group) -> int:
        if group.tiles is None:
            group.tiles = self._tiles(group.nodes, group.space, group.parallel)
        return group.tiles

    def _tiles(self, nodes: list[Node], space: Space, parallel: set[tuple[int, int]]) -> int:
        return count_tiles(self.memory, (nodes, space, parallel), self.machine.strip, self.asked)

    def _extend_tail(self, a: Group, b: Group) -> str | None:
        """Puts all of b into the tail of a, if b is little work and nothing in a reads its results. Returns the reason
        if not."""
        if not self.machine.tails or b.tail or (a.tail and not b.nodes):
            return _NO_COMMON
        if any(n.base is not None for n in (*a.nodes, *b.nodes)):
            return _NO_COMMON
        if any(n.elements > self.machine.tail_elements for n in b.nodes):
            return _NO_COMMON
        behind = {r for n in b.nodes for r in n.results}
        if any(r.value in behind for n in a.members for r in n.reads):
            return _NO_COMMON
        written = {r for n in a.members for r in n.results}
        if a.parallel and any(
            r.bytes > self.machine.tile_bytes // 4 for n in b.nodes for r in n.reads if r.value in written
        ):
            return _NO_COMMON
        tail = sorted(a.tail + b.nodes, key=lambda n: n.index)
        try:
            # The tail's loops join the classes of the tensors that they walk: one memory order serves tiles and tail.
            space = join([a.space, b.space], sorted(a.nodes + tail, key=lambda n: n.index))
        except Conflict:
            return _NO_COMMON
        self._replace(a, b, Group(a.nodes, tail, space, {space.find(root) for root in a.parallel}))
        return None

    def _replace(self, a: Group, b: Group, merged: Group) -> None:
        self.paths.merge(a, b)
        for node in (*a.members, *b.members):
            self.group[node.index] = merged

    def is_left(self, value: ir.Value, inside: set[int]) -> bool:
        """Whether the caller gets a value, or a node that is not `inside` reads it."""
        return value in self.returned or not self.readers.get(value, set()) <= inside

    def _internal(self, nodes: Sequence[Node]) -> set[int]:
        """Indices of the nodes whose results nothing outside `nodes` reads."""
        inside = {n.index for n in nodes}
        return {i for i in inside if (readers := self.inner_readers[i]) is not None and readers <= inside}

    def _note(self, producer: Node, consumer: Node, reason: str, count: int) -> None:
        self.remarks.append(Remark(producer.index, consumer.index, reason, count))


_NO_COMMON = "no loop is parallel in both ops"
_PATH = "the consumer also depends on the producer through another kernel or call"


def _gathers(reader: Group, writer: Group) -> bool:
    """Whether `reader` reads a result of `writer` at computed positions, which may be in any tile."""
    return any(v in n.results for m in reader.members for v in m.gathers for n in writer.members)
