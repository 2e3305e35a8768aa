"""The host function: items in a valid order, every value in a buffer, every kernel launched.

Views become layouts over the buffer of what they view. A kernel's result that a concatenation takes
is written straight into its part of the concatenation's buffer; copies are made where no strides say
what is asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import func, ir, linalg
from cuesta.dialects import host, types
from cuesta.dialects.affine_maps import projection, squeeze
from cuesta.dialects.cuesta.dialect import int_array, int_attr, ints, numbers
from cuesta.dialects.donated import donated_arguments
from cuesta.dialects.kernel_attention import is_attention
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.form_kernels import placement
from cuesta.passes.form_kernels.attention import launch_attention
from cuesta.passes.form_kernels.concatenation import is_cat, is_inner, order_of, parts
from cuesta.passes.form_kernels.families import Written, write_kernels
from cuesta.passes.form_kernels.grouping import Group, Grouping
from cuesta.passes.form_kernels.in_place import last_uses, lent_arguments, reuse_inputs, root_of
from cuesta.passes.form_kernels.kernel import Operand, build_kernel, collapse, kernel_key
from cuesta.passes.form_kernels.layout import Layout, dense_strides, strides_for_call
from cuesta.passes.form_kernels.machine import CPU, Machine
from cuesta.passes.form_kernels.mutations import merge_updates
from cuesta.passes.form_kernels.nodes import collect
from cuesta.passes.form_kernels.parts import merge_parts
from cuesta.passes.form_kernels.results import finish
from cuesta.passes.form_kernels.routes import choose_route
from cuesta.passes.form_kernels.scatters import place_scatters
from cuesta.passes.form_kernels.schedule import schedule
from cuesta.passes.form_kernels.space import join, parallel_classes
from cuesta.passes.form_kernels.twins import merge_twins
from cuesta.runtime.strides import same_places
from cuesta.sizes import Number

Value: TypeAlias = ir.Value
#: Names of torch ops that kernels call libm's function of that name for: a kernel so called would hide it.
_LIBM = frozenset({"acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cosh", "erf", "erfc", "sinh", "tan"})
#: Of a call into ATen: what it was traced with, which the memory that it is given tells.
_TRACED = ("operand_strides", "result_strides", "rows_aligned")
_NODE_NAME = re.compile(r'loc\("(?:[^":]*:)?([A-Za-z_][A-Za-z_0-9]*?)(?:_\d+)?"')


@dataclass
class Host:
    """Builds the host function of one graph at the current insertion point, and its kernels elsewhere."""

    function: func.FuncOp
    kernels: ir.Block
    machine: Machine = CPU
    layouts: dict[Value, Layout] = field(default_factory=dict)
    bases: list[Value] = field(default_factory=list)
    placed: dict[Value, Layout] = field(default_factory=dict)
    preferred: dict[Value, list[int]] = field(default_factory=dict)
    names: dict[tuple[object, ...], str] = field(default_factory=dict)
    #: key → the kernel of that name, which is written once all are known
    written: dict[tuple[object, ...], Written] = field(default_factory=dict)
    views: dict[tuple[Layout, str], Value] = field(default_factory=dict)
    #: output → the buffer that it takes over from a dead input of its kernel
    reused: dict[Value, int] = field(default_factory=dict)
    #: donated arguments that results may lie in, and the roots of results
    lent: set[int] = field(default_factory=set)
    results: set[Value] = field(default_factory=set)
    #: output → the argument's place that it is the new value of
    updated: dict[Value, Layout] = field(default_factory=dict)
    #: root → position of the last unit that reads it, and the position of the unit being built
    last_use: dict[Value, int] = field(default_factory=dict)
    position: int = 0

    # -- buffers ------------------------------------------------------------------------------
    def add_base(self, value: Value) -> int:
        self.bases.append(value)
        return len(self.bases) - 1

    def allocate(self, spelling: str, elements: Number) -> int:
        """A buffer of its own for `elements` numbers."""
        # From the first element to the last of none is less than nothing, where other sizes and strides are large.
        kind = types.memref([max(elements, 1) if isinstance(elements, int) else elements], None, spelling)
        (value,) = host.ALLOC([], [kind], owner=ir.StringAttr.get("plan")).results
        return self.add_base(value)

    def view(self, layout: Layout, spelling: str) -> Value:
        """The memref of a layout."""
        key = (layout, spelling)
        if key not in self.views:
            base = self.bases[layout.base]
            kind = memref(layout.sizes, layout.strides, spelling)
            offset = layout.offset * types.byte_size(spelling)
            if offset == 0 and base.type == kind:
                return base
            (self.views[key],) = host.VIEW([base], [kind], offset=int_attr(offset)).results
        return self.views[key]

    # -- values -------------------------------------------------------------------------------
    def layout_of(self, value: Value) -> Layout:
        """Where a value lies; computes it for views, copying where strides cannot say it."""
        if value in self.layouts:
            return self.layouts[value]
        op = value.owner
        source = self.layout_of(op.operands[0])
        match op.name:
            case "cuesta.permute":
                layout = source.permute(ints(op.attributes["dims"]))
            case "cuesta.expand":
                layout = source.expand(shape_of(value))
            case "cuesta.slice":
                layout = source.slice(numbers(op.attributes["starts"]), ints(op.attributes["steps"]), shape_of(value))
            case "cuesta.unfold":
                layout = source.unfold(op.attributes["dim"].value, op.attributes["step"].value, shape_of(value))
            case "cuesta.reshape":
                attempt = source.reshape(shape_of(value))
                if attempt is None:
                    copied = self.copy(op.operands[0], source, self.row_major(op.operands[0]))
                    attempt = copied.reshape(shape_of(value))
                    assert attempt is not None
                layout = attempt
            case "cuesta.view_as_real":
                layout = source.as_real()
            case "cuesta.view_as_complex":
                whole = source.as_complex()
                if whole is None:
                    whole = self.copy(op.operands[0], source, self.row_major(op.operands[0])).as_complex()
                    assert whole is not None
                layout = whole
            case _:
                raise AssertionError(f"{op.name} has no layout yet")
        self.layouts[value] = layout
        return layout

    def row_major(self, value: Value) -> Layout:
        """A fresh row-major buffer for a value."""
        return self.buffer(value, range(len(shape_of(value))))

    def buffer(self, value: Value, order: Sequence[int]) -> Layout:
        """A fresh buffer without gaps for a value, its dims in this order in memory."""
        sizes = shape_of(value)
        base = self.allocate(spelling_of(value), math.prod(sizes))
        return Layout(base, 0, sizes, dense_strides(sizes, order))

    def with_strides(self, value: Value, strides: Sequence[Number]) -> Layout:
        """A fresh buffer in which the value has these strides, which must not overlap."""
        sizes = shape_of(value)
        extent = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        return Layout(self.allocate(spelling_of(value), extent), 0, sizes, tuple(strides))

    def copy(self, value: Value, source: Layout, target: Layout) -> Layout:
        """Launches a copy of `value`, or of a part of it, from one place to another."""
        if 0 in source.sizes:
            return target
        kept = [d for d, s in enumerate(source.sizes) if s != 1]
        shape = squeeze(source.sizes)
        squeezed = types.tensor(shape, spelling_of(value))
        with ir.InsertionPoint(self.function), ir.Location.name("copy"):
            # A generic to describe the copy; it stands in the function that is about to be erased.
            block = self.function.regions[0].blocks[0]
            with ir.InsertionPoint.at_block_terminator(block):
                empty, stand_in = (types.empty(shape, spelling_of(value)) for _ in range(2))
                identity = projection(len(kept), range(len(kept)))
                kinds = [ir.Attribute.parse("#linalg.iterator_type<parallel>")] * len(kept)
                op = linalg.GenericOp(
                    [squeezed], [stand_in], [empty], ir.ArrayAttr.get([identity] * 2), ir.ArrayAttr.get(kinds)
                )
                body = op.regions[0].blocks.append(squeezed.element_type, squeezed.element_type)
                with ir.InsertionPoint(body):
                    linalg.YieldOp([body.arguments[0]])
        node = placement.single_node(op.operation)
        space = join([], [node])
        self.layouts[stand_in] = placement.keep_dims(source, kept)
        self.placed[op.results[0]] = placement.keep_dims(target, kept)
        self.launch(Group([node], [], space, parallel_classes(space, [node], set())), [op.results[0]])
        return target

    # -- kernels ------------------------------------------------------------------------------
    def launch(self, group: Group, outputs: Sequence[Value]) -> None:
        reads = [r.value for n in group.members for r in n.reads] + [v for n in group.members for v in n.gathers]
        own = {r for n in group.members for r in n.results}
        for value in reads:
            if value not in own:
                self.layout_of(value)
        place_scatters(self, group)
        kernel = build_kernel(group, self.layouts, outputs, self.preferred, self.placed)
        collapse(kernel)
        refused = merge_updates(kernel, self.updated, self.machine)
        if refused:
            for value in refused:
                del self.placed[value], self.updated[value]
            self.launch(group, outputs)
            return
        self.reused.update(reuse_inputs(kernel, self))
        key = kernel_key(kernel)
        ops = [op_name(n.op) for n in group.members]
        if key not in self.names:
            self.names[key] = self.kernel_name(ops)
            self.written[key] = Written(kernel, self.names[key], [])
        destinations = [self._place_output(o) for o in kernel.outputs]
        buffers = [self.view(_layout(o), o.spelling) for o in (*kernel.inputs, *kernel.gathered)]
        with group.members[-1].op.location:
            launch = host.LAUNCH(
                [*buffers, *destinations],
                [],
                kernel=ir.SymbolRefAttr.get(["kernels", self.names[key]]),
                outputs=int_attr(len(destinations)),
                ops=ir.ArrayAttr.get([ir.StringAttr.get(name) for name in dict.fromkeys(ops)]),
                **({"parameters": int_array(kernel.parameters)} if kernel.parameters else {}),
            )
        self.written[key].launches.append(launch)

    def _place_output(self, operand: Operand) -> Value:
        value = operand.value
        if value in self.placed:
            self.layouts[value] = self.placed[value]
            return self.view(_layout(operand), operand.spelling)
        base = self.reused.get(value, -1)
        if base < 0:
            base = self.allocate(operand.spelling, math.prod(operand.sizes))
        sizes = shape_of(value)
        order = self.preferred.get(value) or operand.dims
        self.layouts[value] = Layout(base, 0, sizes, dense_strides(sizes, order))
        flat = Layout(base, 0, tuple(operand.sizes), tuple(operand.strides))
        return self.view(flat, operand.spelling)

    def dies(self, value: Value, layout: Layout) -> bool:
        """Whether the buffer of a value is ours, and the unit being built its last reader."""
        owner = self.bases[layout.base].owner
        return not isinstance(owner, ir.Block) and owner.name == "host.alloc" and self.is_last_use(value)

    def is_last_use(self, value: Value) -> bool:
        return self.last_use.get(root_of(value), -1) == self.position

    def kernel_name(self, ops: Sequence[str]) -> str:
        stem = "_".join(dict.fromkeys(ops))[:48].strip("_")
        stem += "_kernel" if stem in _LIBM else ""
        taken = set(self.names.values())
        name, n = stem, 1
        while name in taken:
            n += 1
            name = f"{stem}_{n}"
        return name

    # -- other items --------------------------------------------------------------------------
    def call(self, op: ir.Operation) -> None:
        """A call into ATen, its operands with the strides that it was traced with."""
        wanted = op.attributes.get("operand_strides", None)
        dtypes = [d.value for d in op.attributes["dtypes"]]
        buffers = []
        for i, value in enumerate(op.operands):
            layout = self.layout_of(value)
            if wanted is not None and isinstance(wanted[i], ir.ArrayAttr):
                strides = strides_for_call(layout, numbers(wanted[i]), "rows_aligned" in op.attributes)
                if strides is not None:
                    source, layout = layout.once(strides), self.with_strides(value, strides)
                    self.copy(value, source, layout.once(strides))
            buffers.append(self.view(layout, spelling_of(value)))
        strides_of = [tuple(numbers(s)) for s in op.attributes["result_strides"]]
        overload, args = op.attributes["overload"].value, op.attributes["args"].value
        route = choose_route(overload, args, dtypes, on_device="device" not in op.attributes)
        attributes = {k: v for k, v in op.attributes.items() if k not in _TRACED}
        attributes["route"] = ir.StringAttr.get(route)
        if route == "out":
            (result,), (strides,) = op.results, strides_of
            layout = self.with_strides(result, strides)
            self.layouts[result] = layout
            host.CALL([*buffers, self.view(layout, spelling_of(result))], [], **attributes)
            return
        # A result that nobody reads is not asked for: an overload may leave it out at run time (an LSTM's workspace).
        used = [i for i, r in enumerate(op.results) if next(iter(r.uses), None) is not None]
        if len(used) < len(op.results):
            stands = ints(attributes["positions"]) if "positions" in attributes else range(len(op.results))
            attributes["positions"] = int_array(stands[i] for i in used)
            kept = [*dtypes[: len(op.operands)], *(dtypes[len(op.operands) + i] for i in used)]
            attributes["dtypes"] = ir.ArrayAttr.get([ir.StringAttr.get(d) for d in kept])
        results = [(op.results[i], strides_of[i]) for i in used]
        call = host.CALL(buffers, [memref(shape_of(r), s, spelling_of(r)) for r, s in results], **attributes)
        for (result, strides), memory in zip(results, call.results, strict=True):
            self.layouts[result] = Layout(self.add_base(memory), 0, shape_of(result), strides)

    def check(self, op: ir.Operation) -> None:
        layout = self.layout_of(op.operands[0])
        host.CHECK([self.view(layout, "i8")], [], **dict(op.attributes.items()))

    def concatenate(self, op: ir.Operation, order: Sequence[int]) -> None:
        """Copies those parts of a concatenation that were not written in place."""
        target = self.placed.get(op.results[0]) or self.buffer(op.results[0], order)
        self.layouts[op.results[0]] = target
        for value, part in parts(op, target):
            root = placement.written_by_generic(value)
            if root is not None and self.placed.get(root[0]) == placement.keep_dims(part, root[1]):
                continue
            if is_cat(value) and self.placed.get(value) == part:
                continue
            self.copy(value, self.layout_of(value), part)


def _layout(operand: Operand) -> Layout:
    assert operand.layout is not None
    return Layout(operand.layout.base, operand.layout.offset, tuple(operand.sizes), tuple(operand.strides))


def memref(sizes: Sequence[Number], strides: Sequence[Number], spelling: str) -> ir.Type:
    """The memref type of sizes and strides."""
    row = dense_strides(sizes, range(len(sizes)))
    # A tensor without elements keeps torch's strides, which count a size of 0 as 1.
    is_row_major = 0 not in sizes and same_places(sizes, strides, row)
    return types.memref(sizes, None if is_row_major else strides, spelling)


def op_name(op: ir.Operation) -> str:
    """The name of the torch op that an op came from, by its location."""
    found = _NODE_NAME.search(str(op.location))
    return found.group(1) if found else "kernel"


def build_host(
    function: func.FuncOp, kernels: ir.Block, fuse: bool, machine: Machine, lower_peak: bool = False
) -> None:
    """Writes the host function that stands for `function`, just before it, and its kernels."""
    old = function.regions[0].blocks[0]
    terminator = list(old.operations)[-1].operation
    returned = list(terminator.operands)
    mutates = ints(function.attributes["cuesta.mutates"]) if "cuesta.mutates" in function.attributes else []
    fresh = returned[len(returned) - len(mutates) :]
    items = collect(old, machine.atomics, {*fresh, *map(root_of, fresh)})
    grouping = Grouping(items, set(returned), machine)
    wanted = [numbers(attrs["cuesta.strides"]) for attrs in function.attributes["res_attrs"]]
    strides_of = dict(zip(returned, wanted, strict=True))
    grouping.run(fuse)
    if fuse and machine.in_sequence:
        merge_parts(grouping, strides_of)
    if fuse and machine.scalars_together:
        merge_twins(grouping)
    argument_types = [
        memref(shape_of(a), numbers(attrs["cuesta.strides"]), spelling_of(a))
        for a, attrs in zip(old.arguments, function.attributes["arg_attrs"], strict=True)
    ]
    with ir.InsertionPoint(function), function.location:
        new = func.FuncOp("graph", (argument_types, []))
    entry = new.add_entry_block()
    builder = Host(function, kernels, machine)
    with ir.InsertionPoint(entry), function.location:
        for old_argument, argument, attrs in zip(
            old.arguments, entry.arguments, function.attributes["arg_attrs"], strict=True
        ):
            base = builder.add_base(argument)
            builder.layouts[old_argument] = Layout(
                base, 0, shape_of(old_argument), tuple(numbers(attrs["cuesta.strides"]))
            )
        builder.lent = lent_arguments(function, machine)
        builder.results = {root_of(value) for value in returned}
        updated = zip(fresh, (old.arguments[i] for i in mutates), strict=True)
        placement.plan(builder, items, grouping, returned, strides_of, list(updated))
        order = schedule(items, grouping, returned, donated_arguments(function), lower_peak)
        builder.last_use = last_uses(order, returned, list(builder.placed))
        for builder.position, unit in enumerate(order):
            if isinstance(unit, Group):
                builder.launch(unit, placement.outputs_of(unit, grouping, set(returned)))
                continue
            with unit.op.location:
                if unit.op.name == "aten.call":
                    builder.call(unit.op)
                elif is_attention(unit.op):
                    launch_attention(builder, unit.op)
                elif unit.op.name == "host.check":
                    builder.check(unit.op)
                elif unit.op.name == "cuesta.cat" and not is_inner(unit.op):
                    builder.concatenate(unit.op, order_of(unit.op, strides_of))
        results = finish(builder, function, returned, wanted)
        func.ReturnOp(results)
    with ir.InsertionPoint(kernels):
        write_kernels(list(builder.written.values()), machine.shares_code)
    new.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(argument_types, [r.type for r in results]))
    for name in ("arg_attrs", "res_attrs"):
        new.attributes[name] = function.attributes[name]
    if len(results) < len(returned):
        new.attributes["res_attrs"] = ir.ArrayAttr.get(list(function.attributes["res_attrs"])[: len(results)])
    earlier = list(function.attributes["cuesta.remarks"]) if "cuesta.remarks" in function.attributes else []
    new.attributes["cuesta.remarks"] = ir.ArrayAttr.get([*earlier, *_remarks(grouping)])
    function.operation.erase()


def _remarks(grouping: Grouping) -> list[ir.Attribute]:
    rows: list[ir.Attribute] = []
    for remark in grouping.remarks:
        entry = {
            "producer": ir.StringAttr.get(op_name(grouping.items[remark.producer].op)),
            "consumer": ir.StringAttr.get(op_name(grouping.items[remark.consumer].op)),
            "reason": ir.StringAttr.get(remark.reason),
            "bytes": int_attr(remark.bytes),
        }
        rows.append(ir.DictAttr.get(entry))
    return rows
