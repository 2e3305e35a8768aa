"""Makes random graphs of the cuesta dialect as text: arguments of any strides and types, a dozen ops, a few results."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from cuesta._mlir import func, ir
from cuesta.dialects import make_context, types
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.dialects.graph_function import MUTATES, STORAGE, STRIDES, set_argument_attributes, set_result_attributes
from cuesta.dialects.top_module import mark_module
from cuesta.dialects.types import spelling_of, static_shape
from cuesta.dialects.upstream_fields import FUNCTION_TYPE
from cuesta.targets import CPU, Target
from cuesta.tools.fuzz.graphs.graph_maker import LARGEST, SPELLINGS, GraphMaker, Value
from cuesta.tools.fuzz.graphs.steps import random_step


def make_blocks_graph(seed: int) -> str:
    """Like `make_graph`, but lowered as for a GPU: the interpreter of Triton IR runs the kernels block by block."""
    return make_graph(seed, Target("tt"))


def make_graph(seed: int, target: Target = CPU) -> str:
    """The text of the module of a seed; the same seed gives the same text."""
    maker = GraphMaker(seed)
    r = maker.random
    with make_context(), ir.Location.unknown():
        module = ir.Module.create()
        mark_module(module, target, torch.device("cpu"))
        arguments = [types.tensor(maker.shape(), r.choice(SPELLINGS)) for _ in range(r.randint(1, 4))]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("graph", (arguments, []))
        entry = function.add_entry_block()
        maker.values = list(entry.arguments)
        with ir.InsertionPoint(entry):
            for _ in range(r.randint(2, 14)):
                y = random_step(maker)
                if y is not None and math.prod(static_shape(y)) <= LARGEST:
                    maker.values.append(y)
            given = len(arguments)
            results = [maker.values[-1], *r.choices(maker.values[given:] or maker.values, k=r.randint(0, 3))]
            results += [maker.values[0]] if maker.chance(0.1) else []
            attributes = [_strides(maker.dense_strides(static_shape(v))) for v in results]
            memory = [maker.strides(tuple(t.shape)) for t in arguments]
            inputs = [_strides(strides) for strides in memory]
            # torch refuses to write to expanded tensors.
            writable = [i for i, t in enumerate(arguments) if math.prod(memory[i])]
            if writable and maker.chance(0.25):
                _write_arguments(maker, function, results, attributes, inputs, writable)
            func.ReturnOp(results)
        FUNCTION_TYPE.put(function, ir.FunctionType.get(arguments, [v.type for v in results]))
        set_argument_attributes(function, inputs)
        set_result_attributes(function, _with_storages(entry, results, attributes, function))
        return str(module)


def _write_arguments(
    maker: GraphMaker,
    function: func.FuncOp,
    results: list[Value],
    attributes: list[ir.DictAttr],
    inputs: list[ir.DictAttr],
    writable: list[int],
) -> None:
    """Lets the graph write one or two arguments; appends the arguments' new values to the results."""
    arguments = list(function.regions[0].blocks[0].arguments)
    written = sorted(maker.random.sample(writable, min(len(writable), maker.random.choice((1, 1, 2)))))
    for i in written:
        sizes, spelling = static_shape(arguments[i]), spelling_of(arguments[i])
        fitting = [v for v in maker.values if pointwise.broadcast_shape(static_shape(v), sizes) == sizes]
        new = maker.build.expand(maker.convert(maker.random.choice(fitting[-4:]), spelling), sizes)
        results.append(new)
        attributes.append(inputs[i])
    MUTATES.put(function, written)


def _with_storages(
    entry: ir.Block, results: Sequence[Value], attributes: Sequence[ir.DictAttr], function: func.FuncOp
) -> list[ir.DictAttr]:
    """Adds to each result's attributes the number of its storage by torch's alias rules, as the importer does."""
    numbers = {argument: i for i, argument in enumerate(entry.arguments)}
    mutates = MUTATES.find(function) or []
    roots = [_memory_root(v) for v in results]
    outputs = len(results) - len(mutates)
    found = [numbers.setdefault(root, len(numbers)) for root in roots[:outputs]] + mutates
    return [
        ir.DictAttr.get({a.name: a.attr for a in entries} | STORAGE.entry(n))
        for entries, n in zip(attributes, found, strict=True)
    ]


def _memory_root(value: Value) -> Value:
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value


def _strides(strides: Sequence[int]) -> ir.DictAttr:
    return ir.DictAttr.get(STRIDES.entry(list(strides)))
