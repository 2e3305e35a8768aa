"""Finds donated arguments, which nobody uses after the call: a forward graph saved them only for its backward graph.

    func.func @graph(%saved: tensor<8xf32> {cuesta.donated}, …)

The call may free donated arguments before it ends, and write to them.
"""

from __future__ import annotations

from cuesta._mlir import func, ir


def donated_arguments(function: func.FuncOp) -> list[ir.Value]:
    """The donated arguments of a graph or host function."""
    if "arg_attrs" not in function.attributes:
        return []
    pairs = zip(function.regions[0].blocks[0].arguments, function.attributes["arg_attrs"], strict=True)
    return [argument for argument, attributes in pairs if "cuesta.donated" in attributes]
