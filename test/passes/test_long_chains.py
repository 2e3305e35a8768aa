"""Graphs of very many ops: kernels stay of a size that forming and compiling them takes time in proportion, and no pass
recurses as deep as the graph."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.form_kernels.fusion.grouping import Grouping
from cuesta.passes.form_kernels.fusion.limits import CPU, GPU
from cuesta.passes.form_kernels.fusion.nodes import collect
from cuesta.passes.infra.pipeline import Pipeline

TYPE = "tensor<64x96xf32>"
LIMIT = 1000


@pytest.fixture
def recursion_limit() -> Iterator[None]:
    """Python's own limit, whatever a library has set in this process (mkdocstrings sets twice as much)."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(LIMIT)
    yield
    sys.setrecursionlimit(before)


def chain(length: int) -> str:
    """sin of sin of …, with a second argument added now and then, which all of those nodes read."""
    lines = []
    for i in range(length):
        before = f"%{i - 1}" if i else "%x"
        op = f'"cuesta.add"({before}, %y) : ({TYPE}, {TYPE})' if i % 3 == 0 else f'"cuesta.sin"({before}) : ({TYPE})'
        lines.append(f"%{i} = {op} -> {TYPE}")
    strides = "{cuesta.strides = [96, 1]}"
    body = "\n".join(lines)
    return f"""func.func @graph(%x: {TYPE} {strides}, %y: {TYPE} {strides}) -> ({TYPE} {strides}) {{
{body}
return %{length - 1} : {TYPE} }}"""


@pytest.mark.parametrize("length", [CPU.most_generics, 2 * CPU.most_generics + 5])
def test_a_chain_becomes_kernels_of_limited_size(length: int) -> None:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(chain(length))
        Pipeline.parse("builtin.module(decompose,cuesta-to-linalg)").run(module)
        (function,) = module.body.operations
        grouping = Grouping(collect(function.regions[0].blocks[0]), set())
        grouping.run()
    groups = {id(group): len(group.members) for group in grouping.group.values()}
    assert sum(groups.values()) == length
    assert max(groups.values()) <= CPU.most_generics
    assert len(groups) == -(-length // CPU.most_generics)


@pytest.mark.usefixtures("recursion_limit")
def test_a_long_chain_is_grouped_on_a_gpu() -> None:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(chain(LIMIT + 200))
        Pipeline.parse("builtin.module(decompose,cuesta-to-linalg)").run(module)
        (function,) = module.body.operations
        grouping = Grouping(collect(function.regions[0].blocks[0]), set(), GPU)
        grouping.run()
    assert sum({id(group): len(group.members) for group in grouping.group.values()}.values()) == LIMIT + 200


@pytest.mark.usefixtures("recursion_limit")
def test_the_order_of_the_last_value_of_a_long_chain() -> None:
    length = 2 * LIMIT
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(chain(length).replace("[96, 1]", "[1, 64]"))
        (function,) = module.body.operations
        *_, end = function.regions[0].blocks[0].operations
        assert MemoryOrder().order(end.operands[0]) == [1, 0]


@pytest.mark.usefixtures("recursion_limit")
def test_a_reshape_moves_up_a_long_chain() -> None:
    last, flat = 2 * LIMIT - 1, "tensor<6144xf32>"
    text = chain(last + 1)
    text = text.replace(f"-> ({TYPE} {{cuesta.strides = [96, 1]}})", f"-> ({flat} {{cuesta.strides = [1]}})")
    text = text.replace(
        f"return %{last} : {TYPE}", f'%z = "cuesta.reshape"(%{last}) : ({TYPE}) -> {flat}\nreturn %z : {flat}'
    )
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        Pipeline.parse("builtin.module(hoist-reshapes)").run(module)
        (function,) = module.body.operations
        *_, end = function.regions[0].blocks[0].operations
        assert end.operands[0].owner.name == "cuesta.sin"


@pytest.mark.usefixtures("recursion_limit")
def test_positions_are_looked_for_once_in_each_op() -> None:
    """An op of the chain reads the one before twice, so that the ways from the first to the last double with each."""
    length = 2 * LIMIT
    lines = [f'%{i + 1} = "cuesta.add"(%{i}, %{i}) : ({TYPE}, {TYPE}) -> {TYPE}' for i in range(length)]
    body = "\n".join(lines).replace("(%0, %0)", "(%x, %x)")
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(f"func.func @graph(%x: {TYPE}) -> {TYPE} {{\n{body}\nreturn %{length} : {TYPE} }}")
        before = str(module)
        Pipeline.parse("builtin.module(repeat-positions)").run(module)
        assert str(module) == before
