"""Computes a short row, such as the norm of a single token, in each kernel that walks it whole, not in one before them.

    func @norm(%x, %y)      one program               func @norm_mm(%x, %weight, %z)
    func @mm(%y, %weight, %z)                    →      %y = …                         every program of 512
                                                        %z = the sums of %y * %weight
    host.launch(%x, %y) {@norm}
    host.launch(%y, %weight, %z) {@mm}                host.launch(%x, %weight, %z) {@norm_mm}

A kernel of one program leaves the rest of a GPU idle for as long as a launch takes. Its readers here are sums along the
row, of a weight that is far larger: each of their programs reads the whole row anyway, and has few more instructions
for each byte of the weight that it waits for. A reader that sees the row in several dims computes it so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from cuesta._mlir import func, ir, tensor
from cuesta.dialects import host
from cuesta.dialects.clones import clone_op
from cuesta.dialects.graph_function import argument_attributes, set_argument_attributes
from cuesta.dialects.kernel_fields import CLASSES, PARALLEL, SIZES, WINDOWS
from cuesta.dialects.kernel_module import kernel_modules, launch_parameters, launched_kernels, operand_classes
from cuesta.dialects.kernel_scatter import is_scatter
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.product import tile_of
from cuesta.dialects.types import memref, memref_shape, spelled
from cuesta.dialects.upstream_fields import FUNCTION_TYPE
from cuesta.passes.analysis.launches import launched_names
from cuesta.passes.form_kernels.fusion.limits import GPU
from cuesta.passes.gpu.block_sizes import MANY
from cuesta.passes.gpu.split_rows import can_split, split_row
from cuesta.passes.infra.graph_rewrite import functions, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number, hint

#: The longest row, and the most kernels that one is computed in.
_LONGEST, _READERS = GPU.tail_elements, 4
#: The longest part of a name that the names of both kernels make.
_LONGEST_NAME = 64


@register_pass("repeat-rows")
class RepeatRows(Pass):
    """Computes short rows in the kernels that walk them whole."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            kernels = {k.name.value: k for nested in kernel_modules(module) for k in functions(nested)}
            made: dict[tuple[str, ...], func.FuncOp] = {}
            for function in functions(module):
                # Backwards: a row's readers, which are erased with it, are behind it.
                for view in reversed(list(function.regions[0].blocks[0].operations)):
                    op = view.operation
                    if host.Launch.matches(op) and (row := _Row.of(op, kernels)) is not None:
                        row.repeat(kernels, made)
            for name in kernels.keys() - launched_names(module):
                kernels[name].operation.erase()


@dataclass(frozen=True)
class _Row:
    """A launch of one program that computes a row, and the launches that read it."""

    launch: ir.Operation
    kernel: func.FuncOp
    #: each with the number of the operand that is the row, or a view of it
    readers: list[tuple[ir.Operation, int]] = field(default_factory=list)

    @staticmethod
    def of(launch: ir.Operation, kernels: dict[str, func.FuncOp]) -> _Row | None:
        """None where the launch stays."""
        kernel = _plain(launch, kernels)
        if kernel is None or host.Launch.outputs.of(launch) != 1 or PARALLEL.of(kernel):
            return None
        own = _classes_of_row(kernel)
        if own is None or _elements(kernel) > _LONGEST:
            return None
        memory = launch.operands[len(launch.operands) - 1]
        views = _views(memory, kernel)
        passed = [launch, *(view.owner for view in views)]
        readers: list[tuple[ir.Operation, int]] = []
        seen = [(user, x) for x in [memory, *views] for user in users(x) if user not in passed]
        for user, x in seen:
            reader = _plain(user, kernels) if host.Launch.matches(user) else None
            places = [i for i, operand in enumerate(user.operands) if operand == x]
            outputs = host.Launch.outputs.of(user) if reader is not None else 0
            if reader is None or len(places) != 1 or places[0] >= len(user.operands) - outputs:
                return None
            read = _classes_read(reader, places[0])
            if read is None or len(read) != len(_sizes(x)) or _elements(reader) < MANY:
                return None
            readers.append((user, places[0]))
        is_own = not isinstance(memory.owner, ir.Block) and host.Alloc.matches(memory.owner)
        row = _Row(launch, kernel, readers)
        return row if is_own and 0 < len(readers) <= _READERS and row._is_kept() else None

    def _is_kept(self) -> bool:
        """Whether nothing writes what the row is computed from until its last reader has run."""
        read = {host.base_of(x)[0] for x in list(self.launch.operands)[:-1]}
        ops = [view.operation for view in self.launch.block.operations]
        last = max(ops.index(user) for user, _ in self.readers)
        for op in ops[ops.index(self.launch) + 1 : last + 1]:
            outputs = host.Launch.outputs.of(op) if host.Launch.matches(op) else len(op.operands)
            written = list(op.operands)[len(op.operands) - outputs :]
            if not host.View.matches(op) and read & {host.base_of(x)[0] for x in written}:
                return False
        return True

    def repeat(self, kernels: dict[str, func.FuncOp], made: dict[tuple[str, ...], func.FuncOp]) -> None:
        """Replaces the row's launch and those of its readers."""
        (*given, memory) = self.launch.operands
        views = []
        for user, place in self.readers:
            reader, x = kernels[host.Launch.kernel.of(user)], user.operands[place]
            key = (self.kernel.name.value, reader.name.value, str(place))
            if key not in made:
                made[key] = _joined(self._seen_as(_sizes(x), kernels), reader, place, kernels)
            operands = list(user.operands)
            with ir.InsertionPoint(user), user.location:
                own = given if x == memory else [_seen(y, _sizes(x)) for y in given]
                host.Launch.build(
                    [*own, *operands[:place], *operands[place + 1 :]],
                    kernel=made[key].name.value,
                    outputs=host.Launch.outputs.of(user),
                    ops=[*(host.Launch.ops.find(self.launch) or []), *(host.Launch.ops.find(user) or [])],
                )
            user.erase()
            views += [] if x == memory else [x.owner]
        self.launch.erase()
        for view in dict.fromkeys(views):
            view.erase()
        if not users(memory):
            memory.owner.erase()

    def _seen_as(self, sizes: Sequence[Number], kernels: dict[str, func.FuncOp]) -> func.FuncOp:
        """The row's kernel for readers that see the row as a block of `sizes`."""
        if len(sizes) == len(SIZES.of(self.kernel)):
            return self.kernel
        name = _unused(self.kernel.name.value, kernels)
        kernels[name] = split_row(self.kernel, [n for n in sizes if isinstance(n, int)], name)
        return kernels[name]


def _views(memory: ir.Value, kernel: func.FuncOp) -> list[ir.Value]:
    """The views that see the row in several dims, as its kernel can compute it."""
    found = [user.results[0] for user in users(memory) if host.View.matches(user) and host.View.offset.of(user) == 0]
    return [x for x in found if x.type == _kind(memory, _sizes(x)) and can_split(kernel, _sizes(x))]


def _seen(x: ir.Value, sizes: Sequence[Number]) -> ir.Value:
    """An operand of the row's kernel as a block of `sizes`; a single number as it is."""
    return host.View.build([x], [_kind(x, sizes)], offset=0).result if _sizes(x) else x


def _kind(memory: ir.Value, sizes: Sequence[Number]) -> ir.Type:
    """The type of memory as a block of `sizes`."""
    return memref(sizes, None, spelled(ir.MemRefType(memory.type).element_type))


def _sizes(memory: ir.Value) -> tuple[Number, ...]:
    return memref_shape(memory.type)[0]


def _plain(launch: ir.Operation, kernels: dict[str, func.FuncOp]) -> func.FuncOp | None:
    """The kernel of a launch, if there is only one version of it, for known sizes, and it only walks loops."""
    names = launched_kernels(launch)
    if len(names) > 1 or launch_parameters(launch) or host.Launch.extents.is_on(launch) or names[0] not in kernels:
        return None
    kernel = kernels[names[0]]
    plain = all(
        not is_scatter(op) and (not is_generic(op) or (tile_of(op) is None and not WINDOWS.is_on(op)))
        for op in _ops(kernel)
    )
    return kernel if plain and all(isinstance(size, int) for size in SIZES.of(kernel)) else None


def _ops(kernel: func.FuncOp) -> list[ir.Operation]:
    return [view.operation for view in kernel.regions[0].blocks[0].operations]


def _elements(kernel: func.FuncOp) -> int:
    """The most elements that one op of a kernel walks."""
    sizes = [hint(size) for size in SIZES.of(kernel)]
    return max(math.prod(sizes[c] for c in CLASSES.of(op)) for op in _ops(kernel) if is_generic(op))


def _classes_of_row(kernel: func.FuncOp) -> list[int] | None:
    """The classes of the dims of a kernel's only result; None if it has other classes too."""
    (row,) = kernel.regions[0].blocks[0].operations[-1].operands
    if isinstance(row.owner, ir.Block) or not is_generic(row.owner) or len(row.owner.results) != 1:
        return None
    classes = operand_classes(row.owner)[-1]
    return classes if set(classes) == set(range(len(SIZES.of(kernel)))) else None


def _classes_read(kernel: func.FuncOp, place: int) -> list[int] | None:
    """The classes that a kernel walks an argument along, if those are the same wherever it is read, and every program
    walks them whole."""
    argument = kernel.regions[0].blocks[0].arguments[place]
    found: list[list[int]] = []
    for use in argument.uses:
        op = use.owner.operation
        if not is_generic(op):
            return None  # in a body, at computed positions
        found.append(operand_classes(op)[use.operand_number])
    first, *others = found or [[]]
    is_whole = bool(first) and not set(first) & set(PARALLEL.of(kernel))
    return first if is_whole and all(other == first for other in others) else None


def _joined(row: func.FuncOp, reader: func.FuncOp, place: int, kernels: dict[str, func.FuncOp]) -> func.FuncOp:
    """A kernel that computes a row, and then what `reader` computes from it as argument `place`."""
    own, read = _classes_of_row(row), _classes_read(reader, place)
    assert own is not None and read is not None
    class_of = dict(zip(own, read, strict=True))
    given, taken = list(row.regions[0].blocks[0].arguments), list(reader.regions[0].blocks[0].arguments)
    attributes = [*list(argument_attributes(row))[:-1], *argument_attributes(reader)]
    del attributes[len(given) - 1 + place]
    inputs = [a.type for a in (*given[:-1], *taken[:place], *taken[place + 1 :])]
    name = _name(row, reader, kernels)
    with ir.InsertionPoint(reader), reader.location:
        function = func.FuncOp(name, (inputs, list(FUNCTION_TYPE.of(reader.operation).results)))
        entry = function.add_entry_block()
        mapping = dict(zip([*given[:-1], *taken[:place], *taken[place + 1 :]], entry.arguments, strict=True))
        with ir.InsertionPoint(entry):
            kind = ir.RankedTensorType(given[-1].type)
            mapping[given[-1]] = tensor.EmptyOp(list(kind.shape), kind.element_type).result
            for op in _ops(row)[:-1]:
                clone_op(op, mapping)
            for op in (o.operation for o in entry.operations):
                if CLASSES.is_on(op):
                    CLASSES.put(op, [class_of[c] for c in CLASSES.of(op)])
            (made,) = _ops(row)[-1].operands
            mapping[taken[place]] = mapping[made]
            for op in _ops(reader):
                clone_op(op, mapping)
    SIZES.put(function, SIZES.of(reader))
    PARALLEL.put(function, PARALLEL.of(reader))
    set_argument_attributes(function, [{entry.name: entry.attr for entry in own} for own in attributes])
    kernels[name] = function
    return function


def _name(row: func.FuncOp, reader: func.FuncOp, kernels: dict[str, func.FuncOp]) -> str:
    """A new name, of both kernels' names."""
    return _unused(f"{row.name.value}_{reader.name.value}"[:_LONGEST_NAME], kernels)


def _unused(stem: str, kernels: dict[str, func.FuncOp]) -> str:
    """The stem, or the stem with the first number that makes a name which no kernel has."""
    numbered = (f"{stem}_{i}" for i in itertools.count(2))
    return next(name for name in itertools.chain([stem], numbered) if name not in kernels)
