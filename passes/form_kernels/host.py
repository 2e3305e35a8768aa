"""Writes the host function: items in a valid order, every value in a buffer, every kernel launched.

Views become layouts over the buffer of the viewed value. A kernel's result that is an operand of a concatenation
is written straight into its part of the concatenation's buffer. A value is copied only where no strides can express
the layout that is required.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from cuesta._mlir import func, ir, linalg
from cuesta.dialects import aten, host, types
from cuesta.dialects.affine_maps import projection, squeeze
from cuesta.dialects.cuesta.shape import Cat
from cuesta.dialects.fields import int_attr
from cuesta.dialects.graph_function import (
    MUTATES,
    REMARKS,
    argument_attributes,
    donated_arguments,
    result_attributes,
    set_argument_attributes,
    set_result_attributes,
    strides_of_arguments,
    strides_of_results,
)
from cuesta.dialects.kernel_attention import is_attention
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.analysis.aliases import alias_root
from cuesta.passes.analysis.layout import Layout, dense_strides, memory_order, strides_for_call
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.form_kernels.fusion.concat_operands import fuse_concat_operands
from cuesta.passes.form_kernels.fusion.grouping import Group, Grouping
from cuesta.passes.form_kernels.fusion.horizontal_fusion import fuse_horizontally
from cuesta.passes.form_kernels.fusion.limits import FusionLimits
from cuesta.passes.form_kernels.fusion.nodes import collect
from cuesta.passes.form_kernels.fusion.space import join, parallel_classes
from cuesta.passes.form_kernels.kernels.attention import launch_attention
from cuesta.passes.form_kernels.kernels.equality import join_factors, kernel_key
from cuesta.passes.form_kernels.kernels.kernel import Operand, build_kernel, collapse
from cuesta.passes.form_kernels.kernels.kernel_names import KernelNames
from cuesta.passes.form_kernels.kernels.shared_kernels import Written, write_kernels
from cuesta.passes.form_kernels.placement import plan as placement
from cuesta.passes.form_kernels.placement.assignment import Assignment, memref
from cuesta.passes.form_kernels.placement.concatenation import is_inner, order_of, parts
from cuesta.passes.form_kernels.placement.in_place import donated_reuse, last_uses, reuse_inputs
from cuesta.passes.form_kernels.placement.mutations import merge_updates
from cuesta.passes.form_kernels.placement.orders_asked import orders_asked, written_by_generic
from cuesta.passes.form_kernels.placement.results import finish
from cuesta.passes.form_kernels.placement.scatters import place_scatters
from cuesta.passes.form_kernels.routes import choose_route
from cuesta.passes.form_kernels.schedule import schedule
from cuesta.runtime.strides import same_places
from cuesta.sizes import Number

Value: TypeAlias = ir.Value
#: Attributes of trace time of a call into ATen; redundant once the operands are memrefs, which carry strides.
_TRACED = ("operand_strides", "result_strides", "rows_aligned")
_NODE_NAME = re.compile(r'loc\("(?:[^":]*:)?([A-Za-z_][A-Za-z_0-9]*?)(?:_\d+)?"')


class HostWriter:
    """Writes the host function of one graph at the current insertion point, and its kernels elsewhere."""

    def __init__(self, function: func.FuncOp, kernels: ir.Block, machine: FusionLimits) -> None:
        self.function, self.machine = function, machine
        self.kernels = KernelNames(kernels)
        self.where = Assignment(self._write_copy)

    def _write_copy(self, value: Value, source: Layout, target: Layout) -> None:
        """Launches a copy of `value`, or of a part of it, from one place to another."""
        kept = [d for d, s in enumerate(source.sizes) if s != 1]
        shape = squeeze(source.sizes)
        squeezed = types.tensor(shape, spelling_of(value))
        with ir.InsertionPoint(self.function), ir.Location.name("copy"):
            # This generic only describes the copy. It is built in the old function, which is erased in the end.
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
        self.where.layouts[stand_in] = placement.keep_dims(source, kept)
        self.where.placed[op.results[0]] = placement.keep_dims(target, kept)
        self.launch(Group([node], [], space, parallel_classes(space, [node], set())), [op.results[0]])

    # -- kernels ------------------------------------------------------------------------------
    def launch(self, group: Group, outputs: Sequence[Value]) -> None:
        reads = [r.value for n in group.members for r in n.reads] + [v for n in group.members for v in n.gathers]
        own = {r for n in group.members for r in n.results}
        for value in reads:
            if value not in own:
                self.where.layout_of(value)
        place_scatters(self.where, group)
        copied = self._copied_images(group)
        layouts = self.where.layouts | copied if copied else self.where.layouts
        kernel = build_kernel(group, layouts, outputs, self.where.preferred, self.where.placed)
        collapse(kernel)
        join_factors(kernel)
        refused = merge_updates(kernel, self.where.updated, self.machine)
        if refused:
            for value in refused:
                del self.where.placed[value], self.where.updated[value]
            self.launch(group, outputs)
            return
        self.where.reused.update(reuse_inputs(kernel, self.where, self.machine))
        key = kernel_key(kernel)
        ops = [op_name(n.op) for n in group.members]
        name = self.kernels.names.get(key)
        if name is None:
            name = self.kernels.add(key, ops)
            self.kernels.written[key] = Written(kernel, name, [])
        destinations = [self._place_output(o) for o in kernel.outputs]
        buffers = [self.where.view(_layout(o), o.spelling) for o in (*kernel.given, *kernel.gathered)]
        with group.members[-1].op.location:
            launch = host.Launch.build(
                [*buffers, *destinations],
                kernel=name,
                outputs=len(destinations),
                ops=dict.fromkeys(ops),
                parameters=kernel.parameters or None,
            )
        self.kernels.written[key].launches.append(launch)

    def _copied_images(self, group: Group) -> dict[Value, Layout]:
        """Images of sums over windows that do not lie as a program reads them → the places of copies that do."""
        images = {v: self.where.layout_of(v) for n in group.members if n.windows for v in n.gathers}
        others = {v: layout for v, layout in images.items() if not _in_lines(layout)}
        return {v: self.where.copy(v, layout, self.where.row_major(v)) for v, layout in others.items()}

    def _place_output(self, operand: Operand) -> Value:
        value = operand.value
        if value in self.where.placed:
            self.where.layouts[value] = self.where.placed[value]
            return self.where.view(_layout(operand), operand.spelling)
        base = self.where.reused.get(value, -1)
        if base < 0:
            base = self.where.allocate(operand.spelling, math.prod(operand.sizes))
        sizes = shape_of(value)
        order = self.where.preferred.get(value) or operand.dims
        self.where.layouts[value] = Layout(base, 0, sizes, dense_strides(sizes, order))
        flat = Layout(base, 0, tuple(operand.sizes), tuple(operand.strides))
        return self.where.view(flat, operand.spelling)

    # -- other items --------------------------------------------------------------------------
    def call(self, op: ir.Operation) -> None:
        """Writes a call into ATen, with its operands in the strides that it was traced with."""
        dtypes = host.Call.dtypes.of(op)
        buffers = []
        for value, traced in zip(op.operands, aten.traced_strides(op), strict=True):
            layout, view = self.where.layout_of(value), self.where.view
            if traced is not None:
                strides = strides_for_call(layout, traced, host.Call.rows_aligned.is_on(op))
                if strides is not None:
                    source, layout = layout.once(strides), self.where.with_strides(value, strides)
                    self.where.copy(value, source, layout.once(strides))
                elif same_places(layout.sizes, layout.strides, traced):
                    # By the strides of all dims, also of a batch of one, ATen decides whether images are channels-last.
                    layout, view = replace(layout, strides=tuple(traced)), self.where.strided_view
            buffers.append(view(layout, spelling_of(value)))
        strides_of = [tuple(strides) for strides in host.Call.result_strides.of(op)]
        overload, args = host.Call.overload.of(op), host.Call.args.of(op)
        route = choose_route(overload, args, dtypes, on_device=not host.Call.device.is_on(op))
        copied = {k: v for k, v in op.attributes.items() if k not in _TRACED}
        if route == "out":
            (result,), (strides,) = op.results, strides_of
            layout = self.where.with_strides(result, strides)
            self.where.layouts[result] = layout
            host.Call.build([*buffers, self.where.view(layout, spelling_of(result))], [], copied, route=route)
            return
        # Unused results are not requested: an overload may leave them out at run time (an LSTM's workspace).
        used = [i for i, r in enumerate(op.results) if next(iter(r.uses), None) is not None]
        positions = host.Call.positions.find(op)
        if len(used) < len(op.results):
            stands = positions or range(len(op.results))
            positions = [stands[i] for i in used]
            dtypes = [*dtypes[: len(op.operands)], *(dtypes[len(op.operands) + i] for i in used)]
        results = [(op.results[i], strides_of[i]) for i in used]
        kinds = [memref(shape_of(r), s, spelling_of(r)) for r, s in results]
        call = host.Call.build(buffers, kinds, copied, route=route, dtypes=dtypes, positions=positions)
        for (result, strides), memory in zip(results, call.results, strict=True):
            self.where.layouts[result] = Layout(self.where.add_base(memory), 0, shape_of(result), strides)

    def check(self, op: ir.Operation) -> None:
        layout = self.where.layout_of(op.operands[0])
        host.Check.build([self.where.view(layout, "i8")], copied=dict(op.attributes.items()))

    def concatenate(self, op: ir.Operation, order: Sequence[int]) -> None:
        """Copies the parts of a concatenation that were not written in place."""
        target = self.where.placed.get(op.results[0]) or self.where.buffer(op.results[0], order)
        self.where.layouts[op.results[0]] = target
        for value, part in parts(op, target):
            root = written_by_generic(value)
            if root is not None and self.where.placed.get(root[0]) == placement.keep_dims(part, root[1]):
                continue
            layout = self.where.layout_of(value)
            if layout != part:  # else a concatenation that was written there
                self.where.copy(value, layout, part)


def _layout(operand: Operand) -> Layout:
    assert operand.layout is not None
    return Layout(operand.layout.base, operand.layout.offset, tuple(operand.sizes), tuple(operand.strides))


def _in_lines(layout: Layout) -> bool:
    """Whether the images of a sum over windows lie as its program reads them: samples, rows, columns, channels side by
    side, none repeated."""
    in_order = memory_order(layout.sizes, layout.strides) == list(range(len(layout.sizes)))
    return in_order and layout.strides[-1] == 1 and 0 not in layout.strides


def op_name(op: ir.Operation) -> str:
    """The name of the torch op that an op came from, taken from the op's location."""
    found = _NODE_NAME.search(str(op.location))
    return found.group(1) if found else "kernel"


def build_host(
    function: func.FuncOp, kernels: ir.Block, fuse: bool, machine: FusionLimits, lower_peak: bool = False
) -> None:
    """Replaces `function` by a host function, and writes the kernels that this launches into `kernels`."""
    old = function.regions[0].blocks[0]
    terminator = list(old.operations)[-1].operation
    returned = list(terminator.operands)
    mutates = MUTATES.find(function) or []
    fresh = returned[len(returned) - len(mutates) :]
    items = collect(old, machine.atomics, {*fresh, *map(alias_root, fresh)})
    given, wanted = strides_of_arguments(function), strides_of_results(function)
    strides_of = dict(zip(returned, wanted, strict=True))
    # On a CPU it was not measured how tiles write what is asked for in another order than they read.
    asked = {} if machine.in_sequence else orders_asked(items, strides_of)
    grouping = Grouping(items, set(returned), machine, asked)
    grouping.run(fuse)
    if fuse and machine.in_sequence:
        fuse_concat_operands(grouping, strides_of)
    if fuse and machine.scalars_together:
        fuse_horizontally(grouping)
    argument_types = [
        memref(shape_of(a), strides, spelling_of(a)) for a, strides in zip(old.arguments, given, strict=True)
    ]
    with ir.InsertionPoint(function), function.location:
        new = func.FuncOp("graph", (argument_types, []))
    entry = new.add_entry_block()
    writer = HostWriter(function, kernels, machine)
    where = writer.where
    with ir.InsertionPoint(entry), function.location:
        for old_argument, argument, strides in zip(old.arguments, entry.arguments, given, strict=True):
            base = where.add_base(argument)
            where.layouts[old_argument] = Layout(base, 0, shape_of(old_argument), tuple(strides))
        where.donated_reuse = donated_reuse(function, machine)
        where.donated_to_results = machine.donated_to_results
        where.results = {alias_root(value) for value in returned}
        updated = zip(fresh, (old.arguments[i] for i in mutates), strict=True)
        placement.plan(where, items, grouping, returned, strides_of, list(updated))
        order = schedule(items, grouping, returned, donated_arguments(function), where.room, lower_peak)
        where.last_use = last_uses(order, returned, list(where.placed))
        for where.position, unit in enumerate(order):
            if isinstance(unit, Group):
                writer.launch(unit, placement.outputs_of(unit, grouping))
            else:
                _write_op(writer, unit.op, strides_of, grouping.memory)
        results = finish(where, function, returned, wanted)
        func.ReturnOp(results)
    with ir.InsertionPoint(kernels):
        write_kernels(list(writer.kernels.written.values()), machine.shares_code)
    new.function_type = ir.TypeAttr.get(ir.FunctionType.get(argument_types, [r.type for r in results]))
    set_argument_attributes(new, argument_attributes(function))
    set_result_attributes(new, list(result_attributes(function))[: len(results)])
    REMARKS.put(new, ir.ArrayAttr.get([*(REMARKS.find(function) or []), *_remarks(grouping)]))
    function.operation.erase()


def _write_op(
    writer: HostWriter, op: ir.Operation, strides_of: Mapping[ir.Value, Sequence[Number]], memory: MemoryOrder
) -> None:
    """Writes the step of an op that is in no kernel of ours, if it needs one: views need none."""
    with op.location:
        if aten.Call.matches(op):
            writer.call(op)
        elif is_attention(op):
            launch_attention(writer.where, writer.kernels, op)
        elif host.Check.matches(op):
            writer.check(op)
        elif Cat.matches(op) and not is_inner(op):
            writer.concatenate(op, order_of(op, strides_of, memory))


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
