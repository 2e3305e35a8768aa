"""Splits graphs at steps that no program can hold: those run in Python, and the pieces between them are compiled.

Such steps are higher-order ops (cond, while_loop), ops that write to their arguments, and ops on dtypes that no level
knows. The graphs that a higher-order op calls with plain tensors are compiled as well. A piece also ends where the code
changes to another stream.

    %a = sin(%x); %b = cond(%p, f, g, [%a]); %c = exp(%b)      →      program 1, cond of compiled f and g, program 2
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cuesta.driver.calling import Boxed, as_boxed
from cuesta.errors import ExecutionError, InputError
from cuesta.frontend.capture.effects import is_effect
from cuesta.frontend.capture.streams import launches, run_on, stream_of, uses_streams, without_stream
from cuesta.frontend.fx_passes.users_kernels import target_of
from cuesta.frontend.graph_key import attribute
from cuesta.frontend.python_steps import is_random, is_view, python_steps, takes_nested_size, writes_argument
from cuesta.runtime.arguments import missing_memory
from cuesta.runtime.strides import same_places
from cuesta.torch_private.dispatch import without_bases
from cuesta.torch_private.ops import OpOverload, schema_of

#: Higher-order ops that call their graphs with tensors and numbers, so that a graph may be replaced by a compiled
#: program. Other higher-order ops inspect their graphs, or map them over values that are no plain tensors.
_CALLS_GRAPHS = frozenset({"cond", "while_loop", "while_loop_stack_output", "scan", "map_impl", "invoke_subgraph"})

#: Compiles a graph; the text names the piece of the whole graph.
Compile = Callable[[GraphModule, str], Boxed]


def steps_to_cut_at(gm: GraphModule) -> dict[Node, str] | None:
    """The steps of a graph that must run in Python, with the reasons; None if the graph can be one program. There may
    be no step: a graph is also cut where the stream changes, and where a nested tensor's size is an argument."""
    steps = python_steps(gm)
    return steps if steps or takes_nested_size(gm) or uses_streams(gm) else None


def in_pieces(gm: GraphModule, steps: Iterable[Node], compile_piece: Compile) -> Boxed:
    """A boxed callable that runs `steps`, given in the graph's order, in Python, and the rest as compiled programs."""
    return _Splitter(gm, list(steps), compile_piece).run()


@dataclass
class _Step:
    """One program, or one node that runs in Python.

    `run` takes the values of the nodes `needs` in a list, which it may empty, and returns the values of the nodes
    `gives`. No later step needs the values of `drops`. `stream` is the stream to run on, None for the current one.
    """

    run: Callable[[list[Any]], list[Any]]
    needs: list[Node]
    gives: list[Node]
    stream: int | None = None
    drops: list[Node] = field(default_factory=list)


@dataclass
class _Piece:
    """The nodes that one program computes, among them copies of views of other pieces' values, and the values that it
    takes."""

    body: dict[Node, None] = field(default_factory=dict)
    needs: dict[Node, None] = field(default_factory=dict)


@dataclass
class _Splitter:
    gm: GraphModule
    steps: list[Node]
    compile_piece: Compile
    compiled: dict[str, Callable[..., Any]] = field(default_factory=dict)
    #: the cut after each piece: a Python step, or None where the stream changes
    cuts: list[Node | None] = field(default_factory=list)

    def run(self) -> Boxed:
        level = self._levels()
        own: list[list[Node]] = [[] for _ in range(len(self.cuts) + 1)]
        for node, at in level.items():
            own[at].append(node)
        pieces = [_gather(nodes, level, at) for at, nodes in enumerate(own)]
        (output,) = self.gm.graph.find_nodes(op="output")
        results = [self._result(item) for item in output.args[0]]
        wanted = {n for n in results if isinstance(n, Node)}
        wanted.update(*(p.needs for p in pieces), *(_operands(s) for s in self.steps))

        schedule: list[_Step] = []
        for i, (piece, nodes) in enumerate(zip(pieces, own, strict=True)):
            gives = [n for n in nodes if n in wanted]
            if gives or any(writes_argument(n) or is_effect(n) for n in nodes):
                stream = next((stream_of(n) for n in nodes if launches(n)), None)
                schedule.append(_Step(self._program(piece, gives, f"piece {i + 1}"), list(piece.needs), gives, stream))
            step = self.cuts[i] if i < len(self.cuts) else None
            if step is not None:
                schedule.append(self._python_step(step))
        _set_streams(schedule)
        _set_drops(schedule, results)
        return _boxed(list(self.gm.graph.find_nodes(op="placeholder")), schedule, results)

    def _result(self, item: Any) -> Any:
        """A result of the graph: a node, the written argument if the node writes one, or a constant or held tensor."""
        if not isinstance(item, Node):
            return item
        if item.op == "get_attr":
            return attribute(self.gm, str(item.target))
        return item.args[0] if writes_argument(item) else item

    def _levels(self) -> dict[Node, int]:
        """Maps each node that programs compute to its piece: the number of cuts before it, as few as its operands
        allow.

        A node that draws random numbers keeps its place among the cuts. So do all nodes of a graph with streams, or
        with a step that writes to its arguments.
        """
        in_order = any(isinstance(s.target, OpOverload) and schema_of(s.target).is_mutable for s in self.steps)
        in_order = in_order or uses_streams(self.gm)
        steps = set(self.steps)
        number: dict[Node, int] = {}
        level: dict[Node, int] = {}
        stream: int | None = None
        for node in self.gm.graph.nodes:
            if launches(node) and stream_of(node) != stream:
                stream = stream_of(node)
                self.cuts.append(None)
            if node in steps:
                number[node] = len(self.cuts)
                self.cuts.append(node)
            elif node.target is operator.getitem and node.args[0] in number:
                number[node] = number[node.args[0]]
            elif node.target is operator.getitem and node.args[0] in level:
                level[node] = level[node.args[0]]  # a list of tensors cannot pass from piece to piece
            elif node.op == "call_function":
                least = len(self.cuts) if in_order or is_random(node) else 0
                least = len(self.steps) if writes_argument(node) and not in_order else least
                after = (number[n] + 1 if n in number else level.get(n, 0) for n in node.all_input_nodes)
                level[node] = max(least, *after, 0)
        return level

    def _program(self, piece: _Piece, gives: list[Node], name: str) -> Boxed:
        graph = torch.fx.Graph()
        copies: dict[Node, Node] = {}
        for node in piece.needs:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = without_stream(node.meta)

        def copy_of(node: Node) -> Node:
            if node not in copies:  # a tensor that the graph module holds
                copies[node] = graph.node_copy(node)
            return copies[node]

        for node in piece.body:
            copies[node] = graph.node_copy(node, copy_of)
            copies[node].meta = without_stream(node.meta)
        graph.output(tuple(copies[n] for n in gives))
        gm = GraphModule(self.gm, graph)
        if all(isinstance(n.meta.get("val"), torch.SymInt) for n in piece.body):
            return lambda args: list(gm(*args))  # only sizes are read here; a program would check tensors
        return self.compile_piece(gm, name)

    def _python_step(self, node: Node) -> _Step:
        needs, parts, target = _operands(node), _parts(node), target_of(node)
        if is_view(node):
            target = _without_base(target)
        held = {n: self._held(node, n) for n in node.all_input_nodes if n.op == "get_attr"}
        read = {n for n in (node, *parts) if any(user.op != "output" and user not in parts for user in n.users)}

        reads = _reads_memory(node)

        def run(values: list[Any]) -> list[Any]:
            if reads:
                _check_memory(values, node)
            at = held | dict(zip(needs, values, strict=True))
            values.clear()
            args = torch.fx.map_arg(node.args, at.__getitem__)
            kwargs = torch.fx.map_arg(node.kwargs, at.__getitem__)
            made = {node: target(*args, **kwargs)}
            for part in parts:
                made[part] = made[part.args[0]][part.args[1]]  # type: ignore[index]
            return [laid_out(x, n.meta.get("val"), str(node.target), n in read) for n, x in made.items()]

        return _Step(run, needs, [node, *parts], stream_of(node))

    def _held(self, user: Node, node: Node) -> Any:
        """The attribute of the graph module that a step uses: a tensor, or a graph, compiled if the step only calls
        it."""
        name = str(node.target)
        held = attribute(self.gm, name)
        if not isinstance(held, GraphModule) or getattr(user.target, "__name__", "") not in _CALLS_GRAPHS:
            return held
        if name not in self.compiled:
            self.compiled[name] = self._compiled_graph(held, name)
        return self.compiled[name]

    def _compiled_graph(self, gm: GraphModule, name: str) -> Callable[..., Any]:
        metas = [n.meta.get("val") for n in gm.graph.find_nodes(op="placeholder")]
        if any(meta is None for meta in metas) or any(map(writes_argument, gm.graph.nodes)):
            return gm  # a write to a copy in another layout would be lost
        graph = torch.fx.Graph()
        returned: Any = graph.graph_copy(gm.graph, {})
        is_single = not isinstance(returned, (list, tuple))
        graph.output((returned,) if is_single else tuple(returned))
        boxed = self.compile_piece(GraphModule(gm, graph), name)

        def call(*args: Any) -> Any:
            results = boxed([laid_out(a, m, f"the caller of {name}") for a, m in zip(args, metas, strict=True)])
            return results[0] if is_single else tuple(results)

        return call


def laid_out(value: Any, meta: Any, what: str, is_read: bool = True) -> Any:
    """`value`, or a copy with the strides of `meta` where a tensor's strides differ from those. `what`, for the error
    message, names where the value comes from.

    Raises ExecutionError where the shape or dtype differs from `meta` and `is_read`. A value that no other node reads
    is returned as it is: it is eager's result, even where torch traced it wrongly.
    """
    if not isinstance(value, torch.Tensor) or not isinstance(meta, torch.Tensor) or not _has_numbers_only(meta):
        return value
    if value.is_quantized:  # fake tensors do not have its quantised dtype
        return value
    if value.shape != meta.shape or value.dtype != meta.dtype:
        if not is_read:
            return value
        raise ExecutionError(
            f"{what} gave {value.dtype}{list(value.shape)}; the graph was traced with {meta.dtype}{list(meta.shape)}"
        )
    if same_places(value.shape, value.stride(), meta.stride()):
        return value
    return torch.empty_strided(meta.shape, meta.stride(), dtype=value.dtype, device=value.device).copy_(value)


def _has_numbers_only(meta: torch.Tensor) -> bool:
    return meta.layout == torch.strided and all(type(n) is int for n in (*meta.shape, *meta.stride()))


def _without_base(view: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a view op without recording the base of the result, because results of programs have none either.

    Where arguments share memory and the next graph writes one of them, AOTAutograd needs all or none of them to have a
    base.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        with without_bases():
            return view(*args, **kwargs)

    return call


def _reads_memory(step: Node) -> bool:
    """Whether a step is an ATen op that reads its operands' memory. A view does not. An op that writes its operands may
    allocate their memory first."""
    target = step.target
    is_aten = isinstance(target, OpOverload) and target.namespace == "aten"
    return is_aten and not schema_of(target).is_mutable and not is_view(step)


def _check_memory(values: Iterable[Any], step: Node) -> None:
    """Raises InputError where a step's operand has lost its memory, because ATen would read it all the same."""
    for value in values:
        if type(value) is torch.Tensor and value.layout == torch.strided and (missing := missing_memory(value)):
            raise InputError(f"an operand of {step.target}: {missing}")


def _operands(step: Node) -> list[Node]:
    return [n for n in step.all_input_nodes if n.op != "get_attr"]


def _parts(step: Node) -> list[Node]:
    """The getitem nodes that unpack a step's results, also from nested tuples."""
    found = []
    for user in step.users:
        if user.target is operator.getitem:
            found += [user, *_parts(user)]
    return found


def _gather(nodes: list[Node], level: dict[Node, int], at: int) -> _Piece:
    """The piece that computes `nodes`.

    A view of another piece's value is computed again in this piece, so that only tensors that own their memory pass
    between pieces: a program recognises that two values share memory only if both derive from one argument.
    """
    piece = _Piece()

    def place(node: Node) -> None:
        if node.op == "get_attr" or node in piece.body or node in piece.needs:
            return
        if level.get(node) != at and not (node in level and is_view(node)):
            piece.needs[node] = None
            return
        for operand in node.all_input_nodes:
            place(operand)
        piece.body[node] = None

    for node in nodes:
        place(node)
    return piece


def _set_streams(schedule: list[_Step]) -> None:
    """Makes each step run on its stream, if the graph has several."""
    made_on = {node: step.stream for step in schedule for node in step.gives}
    if any(stream is not None for stream in made_on.values()):
        for step in schedule:
            foreign = [i for i, n in enumerate(step.needs) if n in made_on and made_on[n] != step.stream]
            step.run = run_on(step.stream, step.run, foreign)


def _set_drops(schedule: list[_Step], results: list[Any]) -> None:
    """Sets which values each step drops: those whose last use it is."""
    seen = {r for r in results if isinstance(r, Node)}
    for step in reversed(schedule):
        step.drops = [n for n in dict.fromkeys(step.needs) if n not in seen]
        seen.update(step.drops)


def _boxed(placeholders: list[Node], schedule: list[_Step], results: list[Any]) -> Boxed:
    @as_boxed
    def call(args: list[Any]) -> list[Any]:
        values = dict(zip(placeholders, args, strict=True))
        args.clear()
        for step in schedule:
            given = [values[n] for n in step.needs]
            for node in step.drops:
                del values[node]
            values.update(zip(step.gives, step.run(given), strict=True))
        return [values[r] if isinstance(r, Node) else r for r in results]

    return call
