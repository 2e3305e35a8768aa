"""Imports an FX graph as a module of the cuesta dialect with one function, `@graph`.

Tensor arguments keep the placeholders' order and carry `cuesta.strides`; results are the graph's
tensor outputs, then the new values of arguments that the graph mutates. A node without a rule becomes
`aten.call`. Every op's location names the Python line and the module path that made it.

In a graph on a GPU, ATen computes whatever is on the CPU; CPU scalars that kernels read are copied to the GPU first.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch.fx import GraphModule, Node

import cuesta.frontend.aten  # noqa: F401  registers the import rules
from cuesta._mlir import func, ir
from cuesta.dialects import types
from cuesta.dialects.aten import AtenCall
from cuesta.dialects.cuesta import attention, contraction, pointwise
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.traced_strides import OPERAND_STRIDES, RESULT_STRIDES
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.graph_function import (
    DONATED,
    MUTATES,
    OFFSET,
    STORAGE,
    STRIDES,
    set_argument_attributes,
    set_result_attributes,
)
from cuesta.dialects.host.aten_abi import PACKED
from cuesta.dialects.top_module import DEVICE, HINTS, mark_module, mark_zeros
from cuesta.dialects.upstream_fields import FUNCTION_TYPE
from cuesta.errors import Undecided, Unsupported, WrongElementType
from cuesta.frontend.aten.pointwise import import_row
from cuesta.frontend.call import Call
from cuesta.frontend.capture.aliased_outputs import results_in_arguments
from cuesta.frontend.capture.effects import is_effect, is_unread_check
from cuesta.frontend.convention import Convention, Output
from cuesta.frontend.fx_nodes import (
    is_complex,
    makes,
    memory_root,
    not_callable,
    not_compilable,
    result_metas,
    shared_offsets,
    tensor_attribute,
    tensor_nodes,
)
from cuesta.frontend.graph_key import held_nodes
from cuesta.frontend.python_steps import writes_argument
from cuesta.frontend.rules import CALL_IN_ATEN, Decline, find_complex_rule, find_rule, strides_of
from cuesta.frontend.source_lines import frame_of, name_of
from cuesta.frontend.symbols import Source, bind_symbols, zeros
from cuesta.frontend.undefined_results import refuse_reads, without_undefined
from cuesta.sizes import Number, Size, hints, number, stride, symbols
from cuesta.sizes.facts import rules
from cuesta.sizes.rules import follow
from cuesta.targets import CPU, Target
from cuesta.torch_private.ops import OpOverload, schema_of

#: Ops that a library may compute. Each keeps the strides of its operands and results at trace time.
_WHOLE = names_of(
    *(contraction.MatMul, contraction.AddMatMul, contraction.Convolution),
    *(attention.Attention, attention.AttentionBackward),
    *(attention.DropoutAttention, attention.DropoutAttentionBackward),
)
#: Arithmetic on sizes with a float result → the pointwise op that computes it.
_ARITHMETIC: dict[Any, str] = {operator.truediv: "div", operator.mul: "mul", operator.add: "add", operator.sub: "sub"}


@dataclass
class ImportedGraph:
    """A graph in the cuesta dialect, and its calling convention."""

    module: ir.Module
    convention: Convention


@dataclass
class _Importer:
    gm: GraphModule
    target: Target
    device: torch.device
    sources: list[Source]
    #: sizes that are 0 in every call
    zeros: tuple[str, ...]
    b: GraphBuilder = field(default_factory=GraphBuilder)
    values: dict[Node, Any] = field(default_factory=dict)
    #: placeholder → the value that the graph writes into it at its end
    mutated: dict[Node, ir.Value] = field(default_factory=dict)
    #: node on the CPU → its value on the graph's device
    moved: dict[Node, ir.Value] = field(default_factory=dict)

    def location(self, node: Node) -> ir.Location:
        file, line = frame_of(node) or ("<graph>", 0)
        return ir.Location.name(name_of(node), ir.Location.file(file, line, 0))

    def value(self, arg: Any, move: bool = False) -> Any:
        """An FX argument with its nodes replaced by their values; with `move`, scalars are on the graph's device."""
        if isinstance(arg, Node):
            return self.on_device(arg) if move and self._is_foreign_scalar(arg) else self.values[arg]
        if isinstance(arg, (list, tuple)):
            return [self.value(a, move) for a in arg]
        if isinstance(arg, slice):
            raise Unsupported("an op of the graph has a slice object among its arguments")
        return arg

    def call(self, node: Node) -> Any:
        target = node.target
        if isinstance(node.meta.get("val"), (int, torch.SymInt)):  # arithmetic on the call's sizes
            return number(node.meta["val"])
        if isinstance(node.meta.get("val"), torch.SymFloat):
            return self.fraction(node)
        if target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]  # type: ignore[index]
        if not isinstance(target, OpOverload):
            raise Unsupported(f"{target} is not an ATen op: higher-order ops run in Python")
        if writes_argument(node):
            destination = node.args[0]
            assert isinstance(destination, Node)
            if destination.meta["val"].device != self.device:
                raise Unsupported(f"the graph writes to an argument on the {destination.meta['val'].device.type}")
            (fresh,) = tensor_nodes(node.args[1:2])
            on_device = fresh.meta["val"].device == self.device
            old, source = self.values[destination], self.values[fresh] if on_device else self.on_device(fresh)
            new = self.b.expand(self.b.convert(source, types.spelling_of(old)), types.shape_of(old))
            self.mutated[destination] = new
            return new
        move = self._moves_scalars(node)
        args = [self.value(a, move) for a in node.args]
        kwargs = {k: self.value(v, move) for k, v in node.kwargs.items()}
        reason = node.meta.get(CALL_IN_ATEN) or not_compilable(node, self.device, move, self.target.gpu)
        if reason is None:
            reason, result = self._apply_rule(node, args, kwargs)
            if reason is None:
                return result
        return self.call_aten(node, args, kwargs, reason)

    def _apply_rule(self, node: Node, args: list[Any], kwargs: dict[str, Any]) -> tuple[str | None, Any]:
        target = node.target
        assert isinstance(target, OpOverload)
        if is_effect(node) and self.target.gpu:
            return "a host program does not wait for the results of GPU kernels", None
        rule = find_rule(target)
        row = pointwise.BY_NAME.get(schema_of(target).name.removeprefix("aten::"))
        if is_complex(node):
            real = rule or row
            rule, row = find_complex_rule(target), None
            if real and not rule:
                return "complex numbers: kernels compute this op for real numbers only", None
        try:
            if rule is not None:
                result = rule(Call(node), *args, **kwargs)
            elif row is not None and target.namespace == "aten":
                if row.repeats and self.target.gpu:
                    return "GPU kernels have no loops whose number of steps depends on the data", None
                result = import_row(Call(node), row, tuple(args))
            elif str(target) in PACKED:
                return f"{PACKED[str(target)]} multiplies by a weight that it has packed", None
            else:
                return "the cuesta dialect has no op for it", None
        except (Decline, Undecided, WrongElementType) as declined:
            return str(declined), None
        if not is_effect(node):
            _check_result(node, result)
            _remember_strides(node, result)
        return None, result

    def fraction(self, node: Node) -> ir.Value:
        """A float computed from sizes, as a 0-d tensor, such as the factor of batch norm's running variance."""
        name = _ARITHMETIC.get(node.target)
        operands = [self.value(a) for a in node.args]
        if name is None or any(not isinstance(x, (int, float, Size, ir.Value)) for x in operands):
            raise Unsupported(f"kernels do not compute {getattr(node.target, '__name__', node.target)} of sizes")
        x, y = (v if isinstance(v, ir.Value) else self.b.constant(v, "f64") for v in operands)
        return self.b.pointwise(name, x, y)

    def call_aten(self, node: Node, args: list[Any], kwargs: dict[str, Any], reason: str) -> Any:
        target = node.target
        assert isinstance(target, OpOverload)
        refused = not_callable(node)
        if refused is not None:
            raise Unsupported(f"{target} {refused}")
        metas = node.meta.get("val")
        single = isinstance(metas, torch.Tensor)
        wanted = [metas] if single else list(without_undefined(node) or ())  # an effect has no results
        results = [
            (tuple(m.shape), types.SPELLING[m.dtype], strides_of(m)) for m in wanted if isinstance(m, torch.Tensor)
        ]
        strides = [list(strides_of(n.meta["val"])) for n in tensor_nodes((node.args, node.kwargs))]
        try:
            values = self.b.aten(str(target), args, kwargs, results, reason, strides)
        except TypeError as problem:
            raise Unsupported(f"{target}: {problem}") from None
        if values:
            AtenCall.rows_aligned.mark(values[0].owner)
        devices = {m.device for m in wanted if isinstance(m, torch.Tensor)}
        if devices - {self.device}:
            AtenCall.device.put(values[0].owner, str(devices.pop()))
        if single:
            return values[0]
        present = [i for i, m in enumerate(wanted) if isinstance(m, torch.Tensor)]
        if len(present) < len(wanted):
            AtenCall.positions.put(values[0].owner, present)
        by_position = dict(zip(present, values, strict=True))
        others = {i: number(m) for i, m in enumerate(wanted) if isinstance(m, (int, torch.SymInt))}
        return [by_position.get(i, others.get(i)) for i in range(len(wanted))]

    # -- devices ------------------------------------------------------------------------------
    def on_device(self, node: Node) -> ir.Value:
        """A CPU node's value on the graph's device: a constant is computed there, any other value is copied."""
        if node not in self.moved:
            meta = node.meta["val"]
            made = self._apply_rule(node, list(node.args), dict(node.kwargs)) if makes(node) else (None, None)
            value = made[1]
            if value is None:
                result = (tuple(meta.shape), types.SPELLING[meta.dtype], strides_of(meta))
                overload, reason = "aten._to_copy.default", f"copy from the CPU to {self.device}"
                (value,) = self.b.aten(
                    overload, [self.values[node]], {"device": self.device}, [result], reason, [strides_of(meta)]
                )
            self.moved[node] = value
        return self.moved[node]

    def _is_foreign_scalar(self, node: Node) -> bool:
        meta = node.meta.get("val")
        return isinstance(meta, torch.Tensor) and meta.dim() == 0 and meta.device != self.device

    def _moves_scalars(self, node: Node) -> bool:
        """Whether a node computes on the graph's device, so that its scalar operands must be copied there."""
        metas = [n.meta["val"] for n in tensor_nodes((node.args, node.kwargs))]
        return {m.device for m in result_metas(node)} == {self.device} and any(m.device == self.device for m in metas)

    def _needs_no_value(self, node: Node) -> bool:
        """Whether a node is a constant on the CPU that is only ever read on the graph's device, or a check that nothing
        waits for."""
        if is_unread_check(node):
            return True
        if not (self._is_foreign_scalar(node) and makes(node)):
            return False
        target = node.target
        has_rule = isinstance(target, OpOverload) and find_rule(target) is not None
        return has_rule and all(self._moves_scalars(user) for user in node.users)

    def run(self, donated: Sequence[int]) -> ImportedGraph:
        nodes = list(self.gm.graph.nodes)
        placeholders = [n for n in nodes if n.op == "placeholder"]
        tensors = [i for i, n in enumerate(placeholders) if isinstance(n.meta.get("val"), torch.Tensor)]
        held = held_nodes(self.gm)
        constants = [tensor_attribute(self.gm, str(n.target)) for n in held]
        for placeholder in placeholders:
            if not isinstance(placeholder.meta.get("val"), torch.Tensor):
                value = placeholder.meta.get("val")
                self.values[placeholder] = number(value) if isinstance(value, torch.SymInt) else value
        metas = [placeholders[i].meta["val"] for i in tensors] + constants
        arguments = [types.tensor(tuple(m.shape), types.SPELLING[m.dtype]) for m in metas]

        module = ir.Module.create()
        mark_module(module, self.target, self.device)
        if self.sources:
            HINTS.put(module.operation, {s.name: s.hint for s in self.sources})
        mark_zeros(module, self.zeros)
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("graph", (arguments, []))
        entry = function.add_entry_block()
        self.values.update(zip([placeholders[i] for i in tensors] + held, entry.arguments, strict=True))
        results: list[ir.Value] = []
        strides: list[Sequence[Number]] = []
        memory_of = {placeholders[i]: n for n, i in enumerate(tensors)}
        with ir.InsertionPoint(entry):
            for node in nodes:
                if node.op == "call_function" and not self._needs_no_value(node):
                    with self.location(node):
                        self.values[node] = self.call(node)
                elif node.op == "output":
                    each = {item: self._output(item, placeholders, results, strides) for item in _once(node.args[0])}
                    outputs = [each.get(item) or Output("value", value=item) for item in node.args[0]]
                    returned = [item for item, output in each.items() if output.kind == "tensor"]
            places = results_in_arguments(self.gm.graph.output_node(), returned, self.mutated)
            roots = [places[n][0] if n in places else memory_root(n) for n in returned]
            storages = [memory_of.setdefault(root, len(memory_of) + len(nodes)) for root in roots]
            mutates = []
            for placeholder, value in self.mutated.items():
                mutates.append(placeholders.index(placeholder))
                results.append(value)
                strides.append(strides_of(placeholder.meta["val"]))
                storages.append(memory_of[placeholder])
            func.ReturnOp(results)
        FUNCTION_TYPE.put(function, ir.FunctionType.get(arguments, [r.type for r in results]))
        of_arguments = _stride_attributes(
            [list(strides_of(m)) for m in metas],
            donated={tensors.index(i) for i in donated if i in tensors},
            foreign={i: m.device for i, m in enumerate(metas) if m.device != self.device},
        )
        set_argument_attributes(function, of_arguments)
        set_result_attributes(function, _stride_attributes(strides, storages, shared_offsets(returned, places)))
        if mutates:
            MUTATES.put(function, [tensors.index(i) for i in mutates])
        names = [str(n.target) for n in held]
        return ImportedGraph(module, Convention(outputs, tensors, names, self.sources))

    def _output(
        self, item: Node, placeholders: list[Node], results: list[ir.Value], strides: list[Sequence[Number]]
    ) -> Output:
        if item.op == "call_function" and item.target is torch.ops.aten.copy_.default:
            (item, *_) = item.all_input_nodes
        if item.op == "placeholder":
            return Output("argument", placeholders.index(item))
        value = self.values[item]
        if isinstance(value, Size):
            if unknown := symbols(value) - {source.name for source in self.sources}:
                raise Unsupported(f"the graph returns {value}: no argument has the size {', '.join(sorted(unknown))}")
            return Output("size", value=str(value))
        if not isinstance(value, ir.Value):
            return Output("value", value=value)
        results.append(value)
        strides.append(strides_of(item.meta["val"]))
        return Output("tensor", len(results) - 1)


def _once(outputs: Iterable[Any]) -> list[Node]:
    """The nodes that a graph returns, each once. A node that the graph returns twice is one tensor object for the
    caller. Two nodes are two tensor objects, even where their values are the same."""
    return list(dict.fromkeys(item for item in outputs if isinstance(item, Node)))


def import_graph(
    gm: GraphModule,
    donated: Sequence[int] = (),
    target: Target = CPU,
    device: torch.device = torch.device("cpu"),  # noqa: B008  immutable
) -> ImportedGraph:
    """Imports a functional ATen graph in the current context. Sizes may be symbols bound by the call's arguments.

    `target` and `device` are the results of `place_graph`.
    `donated` are the positions of the call's arguments whose memory nobody needs after the call.
    Raises Unsupported, naming the node, for a node that not even a call into ATen can express.
    """
    refuse_reads(gm)
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    sources = bind_symbols(placeholders)
    known = zeros(placeholders, sources)
    with ir.Location.unknown(), hints({s.name: s.hint for s in sources}), follow(rules(known)):
        return _Importer(gm, target, device, sources, known).run(donated)


def _check_result(node: Node, result: Any) -> None:
    """Raises Unsupported where an import rule is wrong: its result's shape or type differs from torch's inference."""
    metas = node.meta["val"]
    pairs = zip(result, metas, strict=True) if isinstance(metas, (list, tuple)) else [(result, metas)]
    for value, meta in pairs:
        if value is None:
            continue
        expected = types.tensor(tuple(meta.shape), types.SPELLING[meta.dtype])
        if value.type != expected:
            raise Unsupported(f"the import rule of {node.target} gave {value.type}, torch says {expected}")


def _remember_strides(node: Node, result: Any) -> None:
    # Results that an output mask leaves out are None: a norm's gradient where its input needs none.
    owner = (next(r for r in result if r is not None) if isinstance(result, list) else result).owner
    # A rule may return an earlier op's result (alias, detach). That op has its strides already.
    if isinstance(owner, ir.Block) or owner.name not in _WHOLE or RESULT_STRIDES.is_on(owner):
        return
    operands = [list(strides_of(n.meta["val"])) for n in tensor_nodes((node.args, node.kwargs))]
    metas = node.meta["val"] if isinstance(node.meta["val"], (list, tuple)) else [node.meta["val"]]
    OPERAND_STRIDES.put(owner, operands)
    RESULT_STRIDES.put(owner, [list(strides_of(m)) for m in metas])


def _stride_attributes(
    strides: Sequence[Sequence[Number]],
    storages: Sequence[int] = (),
    offsets: Mapping[int, int | torch.SymInt] = MappingProxyType({}),
    donated: Collection[int] = (),
    foreign: Mapping[int, torch.device] = MappingProxyType({}),
) -> list[dict[str, ir.Attribute]]:
    entries: list[dict[str, ir.Attribute]] = [STRIDES.entry([number(n) for n in s]) for s in strides]
    for entry, storage in zip(entries, storages, strict=False):
        entry.update(STORAGE.entry(storage))
    for i, offset in offsets.items():
        entries[i].update(OFFSET.entry([stride(offset)]))
    for i in donated:
        entries[i].update(DONATED.entry(True))
    for i, device in foreign.items():
        entries[i].update(DEVICE.entry(str(device)))
    return entries
