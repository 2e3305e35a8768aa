"""Runs graphs op by op in ATen, until their program is ready or because they have none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from cuesta.driver.calling import Boxed, Run, as_boxed
from cuesta.frontend.convention import Convention
from cuesta.frontend.symbols import Source, reader
from cuesta.runtime.strides import same_places
from cuesta.sizes import Number, at, number, stride, symbols


def op_by_op(gm: torch.fx.GraphModule, sources: Sequence[Source] = ()) -> Boxed:
    """Runs a graph op by op and gives its results the strides that a program would, because another graph's program may
    read them.

    `sources` say where the symbols in sizes come from. A result whose sizes have other symbols keeps its strides.
    """
    names = [source.name for source in sources]
    read = reader(sources)
    (output,) = gm.graph.find_nodes(op="output")
    layouts = [_layout(item, set(names)) for item in output.args[0]]

    @as_boxed
    def call(args: list[Any]) -> list[Any]:
        values = dict(zip(names, read(args), strict=True))
        inputs = list(args)
        args.clear()
        results = gm(*inputs)
        return [_laid_out(result, layout, values) for result, layout in zip(results, layouts, strict=True)]

    return call


def op_by_op_run(gm: torch.fx.GraphModule, convention: Convention) -> Run:
    """Runs a graph without symbolic sizes op by op, with the arguments and results of its program: `convention` says
    which of the graph's are tensors."""
    boxed = op_by_op(gm)
    others = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    places = {output.index: i for i, output in enumerate(convention.outputs) if output.kind == "tensor"}

    def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        arguments = list(others)
        for position, tensor in zip(convention.tensor_arguments, tensors, strict=False):  # then the module's own
            arguments[position] = tensor
        results = boxed(arguments)
        return [results[places[i]] for i in sorted(places)]

    return run


def _layout(item: Any, known: set[str]) -> tuple[Number, ...] | None:
    """The traced strides of an output, in the call's symbols; None if it is no tensor or the data decide its sizes."""
    value = item.meta.get("val") if isinstance(item, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    if any(symbols(number(size)) - known for size in value.shape):
        return None
    return tuple(map(stride, value.stride()))


def _laid_out(value: Any, layout: tuple[Number, ...] | None, values: dict[str, int]) -> Any:
    if layout is None:
        return value
    strides = tuple(at(s, values) for s in layout)
    if same_places(value.shape, value.stride(), strides):
        return value
    return torch.empty_strided(value.shape, strides, dtype=value.dtype, device=value.device).copy_(value)
