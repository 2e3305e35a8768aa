"""Random graphs of the cuesta dialect, as text: arguments of any strides and types, a dozen ops, a few results."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TypeAlias

import torch

from cuesta._mlir import func, ir
from cuesta.dialects import make_context, types
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.dialect import int_array, int_attr
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.module_target import mark_module
from cuesta.dialects.types import spelling_of, static_shape
from cuesta.targets import CPU, Target

Value: TypeAlias = ir.Value
Shape: TypeAlias = tuple[int, ...]

#: Sizes at which loops merge, vectors have a rest, and tiles differ; 1 is left out of loops altogether.
SIZES = (1, 1, 2, 3, 4, 5, 8, 16, 33, 70)
RANKS = (0, 1, 1, 2, 2, 2, 3, 3, 4)
SPELLINGS = ("f32",) * 8 + ("f64", "bf16", "bf16", "f16", "i64", "i64", "i32", "i8", "ui8", "i1")
#: A graph takes milliseconds at most.
LARGEST = 60_000


class GraphMaker:
    """Builds one graph at the insertion point. `values` are its arguments and what was made of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.build = GraphBuilder()
        self.values: list[Value] = []

    # -- choices ------------------------------------------------------------------------------
    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def shape(self) -> Shape:
        sizes = tuple(self.random.choice(SIZES) for _ in range(self.random.choice(RANKS)))
        return sizes if math.prod(sizes) <= LARGEST else sizes[:2]

    def strides(self, sizes: Shape) -> list[int]:
        """Those of some memory order, mostly row-major; now and then with gaps, or of an expanded tensor."""
        if sizes and self.chance(0.06):
            kept = self.random.randrange(len(sizes))
            return [0] * (kept + 1) + [math.prod(sizes[d + 1 :]) for d in range(kept + 1, len(sizes))]
        order = list(range(len(sizes)))
        if self.chance(0.4):
            self.random.shuffle(order)
        gaps = self.chance(0.15)
        strides, step = [0] * len(sizes), 1
        for d in reversed(order):
            strides[d] = step
            step *= sizes[d] + (self.random.choice((0, 1, 3)) if gaps else 0)
        return strides

    def dense_strides(self, sizes: Shape) -> list[int]:
        order = self.random.sample(range(len(sizes)), len(sizes)) if self.chance(0.25) else range(len(sizes))
        strides, step = [0] * len(sizes), 1
        for d in reversed(list(order)):
            strides[d] = step
            step *= sizes[d]
        return strides

    def recent(self) -> Value:
        """A value to go on with, one of the last."""
        return self.random.choice(self.values[-6:])

    def other(self, x: Value, broadcasts: bool = True) -> Value:
        """A value of x's element type that fits x: mostly one that broadcasts with it, else x or a number."""
        fitting = [v for v in self.values if _fits(static_shape(x), static_shape(v), broadcasts)]
        if not fitting or self.chance(0.1):
            number = self.random.choice((0, 1, 2, -1, 0.5))
            return self.build.constant(number, spelling_of(x), () if broadcasts else static_shape(x))
        return self.convert(self.random.choice(fitting), spelling_of(x))

    # -- values that steps ask for ------------------------------------------------------------
    def convert(self, x: Value, spelling: str) -> Value:
        """x in another type. What torch leaves undefined, whole numbers from large floats and NaN, is cut off first."""
        if types.is_float(spelling_of(x)) and not types.is_float(spelling) and spelling != "i1":
            x = self.build.where(self.build.pointwise("isnan", x), self.build.constant(0, spelling_of(x)), x)
            x = self.clamp(x, 0 if spelling == "ui8" else -100, 100)
        return self.build.convert(x, spelling)

    def clamp(self, x: Value, low: float, high: float) -> Value:
        return self.build.with_number("minimum", self.build.with_number("maximum", x, low), high)

    def dims(self, x: Value) -> list[int]:
        rank = len(static_shape(x))
        return sorted(self.random.sample(range(rank), self.random.randint(1, rank)))

    def dim(self, x: Value) -> int:
        return self.random.randrange(len(static_shape(x)))

    def positions(self, size: int) -> Value:
        """Whole numbers that are valid positions along a dim, from whatever is there."""
        x = self.convert(self.random.choice(self.values), "i64")
        return self.clamp(x, -size, size - 1)

    def floating(self, x: Value) -> Value:
        return x if types.is_float(spelling_of(x)) else self.convert(x, "f32")


def _fits(a: Shape, b: Shape, broadcasts: bool) -> bool:
    if not broadcasts:
        return a == b
    both = pointwise.broadcast_shape(a, b)
    return both is not None and len(both) <= 5 and math.prod(both) <= LARGEST


def make_blocks_graph(seed: int) -> str:
    """As `make_graph`, to go the way to GPUs: its kernels are run block by block by Triton IR's interpreter."""
    return make_graph(seed, Target("tt"))


def make_graph(seed: int, target: Target = CPU) -> str:
    """The module of that number: the same text for the same number."""
    from cuesta.tools.fuzz.steps import STEPS, WEIGHTS  # steps are functions of the maker

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
                (step,) = r.choices(STEPS, WEIGHTS)
                y = step(maker, maker.recent())
                if y is not None and math.prod(static_shape(y)) <= LARGEST:
                    maker.values.append(y)
            given = len(arguments)
            results = [maker.values[-1], *r.choices(maker.values[given:] or maker.values, k=r.randint(0, 3))]
            results += [maker.values[0]] if maker.chance(0.1) else []
            attributes = [_strides(maker.dense_strides(static_shape(v))) for v in results]
            memory = [maker.strides(tuple(t.shape)) for t in arguments]
            inputs = [_strides(strides) for strides in memory]
            # torch refuses to write what is expanded.
            writable = [i for i, t in enumerate(arguments) if math.prod(memory[i])]
            if writable and maker.chance(0.25):
                _write_arguments(maker, function, results, attributes, inputs, writable)
            func.ReturnOp(results)
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(arguments, [v.type for v in results])
        )
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(inputs)
        function.attributes["res_attrs"] = ir.ArrayAttr.get(_with_storages(entry, results, attributes, function))
        return str(module)


def _write_arguments(
    maker: GraphMaker,
    function: func.FuncOp,
    results: list[Value],
    attributes: list[ir.DictAttr],
    inputs: list[ir.DictAttr],
    writable: list[int],
) -> None:
    """Lets the graph write one or two arguments: their new values are further results."""
    arguments = list(function.regions[0].blocks[0].arguments)
    written = sorted(maker.random.sample(writable, min(len(writable), maker.random.choice((1, 1, 2)))))
    for i in written:
        sizes, spelling = static_shape(arguments[i]), spelling_of(arguments[i])
        fitting = [v for v in maker.values if pointwise.broadcast_shape(static_shape(v), sizes) == sizes]
        new = maker.build.expand(maker.convert(maker.random.choice(fitting[-4:]), spelling), sizes)
        results.append(new)
        attributes.append(inputs[i])
    function.attributes["cuesta.mutates"] = int_array(written)


def _with_storages(
    entry: ir.Block, results: Sequence[Value], attributes: Sequence[ir.DictAttr], function: func.FuncOp
) -> list[ir.DictAttr]:
    """The attributes with the memory that each result has by torch's rules, numbered as the importer does."""
    numbers = {argument: i for i, argument in enumerate(entry.arguments)}
    mutates = (
        [a.value for a in function.attributes["cuesta.mutates"]] if "cuesta.mutates" in function.attributes else []
    )
    roots = [_memory_root(v) for v in results]
    outputs = len(results) - len(mutates)
    found = [numbers.setdefault(root, len(numbers)) for root in roots[:outputs]] + mutates
    return [
        ir.DictAttr.get({a.name: a.attr for a in entries} | {"cuesta.storage": int_attr(n)})
        for entries, n in zip(attributes, found, strict=True)
    ]


def _memory_root(value: Value) -> Value:
    while not isinstance(value.owner, ir.Block) and value.owner.name in (
        "cuesta.reshape",
        "cuesta.permute",
        "cuesta.expand",
        "cuesta.slice",
        "cuesta.unfold",
    ):
        value = value.owner.operands[0]
    return value


def _strides(strides: Sequence[int]) -> ir.DictAttr:
    return ir.DictAttr.get({"cuesta.strides": int_array(strides)})
