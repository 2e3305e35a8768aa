"""Says what the caller of a graph promises and expects: attributes of the graph's function, arguments and results.

    func.func @graph(%saved: tensor<8xf32> {cuesta.strides = [1], cuesta.donated}, …)
        -> (tensor<8xf32> {cuesta.strides = [1], cuesta.storage = 0}) attributes {cuesta.mutates = [1]}

The host function that the graph becomes carries the same attributes, and what is known of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuesta._mlir import func, ir
from cuesta.dialects.fields import Int, IntDict, Ints, Marker, NumberRows, Numbers, Raw, Text
from cuesta.sizes import Number

#: Of an argument or a result: its strides, in elements.
STRIDES = Numbers("cuesta.strides")
#: Of an argument: nobody uses it after the call, as a forward graph saved it only for its backward graph. The call may
#: free it before it ends, and write to it.
DONATED = Marker("cuesta.donated")
#: Of an argument or a result: its element type as the dialect spells it, where its MLIR type does not tell.
DTYPE = Text("cuesta.dtype")
#: Of a result: results of one number share memory.
STORAGE = Int("cuesta.storage")
#: Of a result that shares memory: its first element's position in that memory, in elements; one number.
OFFSET = Numbers("cuesta.offset")

#: The arguments to which the graph writes, by number: the last results are what is written.
MUTATES = Ints("cuesta.mutates")
#: What passes did not do, and why: a dictionary each.
REMARKS = Raw("cuesta.remarks")
#: The bytes that a call allocates, by what for.
MEMORY = IntDict("cuesta.memory")
#: Of a program whose arena depends on the call, for each buffer in the arena: its bytes, and the first and last step at
#: which it is live.
BUFFERS = NumberRows("cuesta.buffers")

_ARGUMENTS, _RESULTS = "arg_attrs", "res_attrs"


def argument_attributes(function: func.FuncOp) -> Sequence[Any]:
    """The attributes of each argument, as dictionaries."""
    return _each(function, _ARGUMENTS, len(function.regions[0].blocks[0].arguments))


def result_attributes(function: func.FuncOp) -> Sequence[Any]:
    """The attributes of each result, as dictionaries."""
    return _each(function, _RESULTS, len(function.type.results))


def strides_of_arguments(function: func.FuncOp) -> list[list[Number]]:
    """The strides of each argument. Raises KeyError if an argument has none."""
    return [STRIDES.in_(attributes) for attributes in argument_attributes(function)]


def strides_of_results(function: func.FuncOp) -> list[list[Number]]:
    """The strides of each result. Raises KeyError if a result has none."""
    return [STRIDES.in_(attributes) for attributes in result_attributes(function)]


def set_argument_attributes(function: func.FuncOp, attributes: Sequence[Any]) -> None:
    """Replaces the attributes of all arguments: a dictionary, of Python or of MLIR, for each."""
    function.attributes[_ARGUMENTS] = _rows(attributes)


def set_result_attributes(function: func.FuncOp, attributes: Sequence[Any]) -> None:
    """Replaces the attributes of all results: a dictionary, of Python or of MLIR, for each."""
    function.attributes[_RESULTS] = _rows(attributes)


def _each(function: func.FuncOp, name: str, count: int) -> Sequence[Any]:
    return function.attributes[name] if name in function.attributes else [ir.DictAttr.get({})] * count


def _rows(attributes: Sequence[Any]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([row if isinstance(row, ir.DictAttr) else ir.DictAttr.get(row) for row in attributes])


def argument_strides(argument: ir.Value) -> list[Number] | None:
    """The strides of an argument, or None if its function does not say them."""
    attributes = argument.owner.owner.attributes
    if _ARGUMENTS not in attributes:
        return None
    return STRIDES.find_in(attributes[_ARGUMENTS][ir.BlockArgument(argument).arg_number])


def donated_arguments(function: func.FuncOp) -> list[ir.Value]:
    """The donated arguments of a graph or host function."""
    pairs = zip(function.regions[0].blocks[0].arguments, argument_attributes(function), strict=True)
    return [argument for argument, attributes in pairs if DONATED.find_in(attributes)]
