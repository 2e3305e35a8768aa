"""Outputs of a graph from a program's results, the call's own arguments and values known when compiling."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from cuesta.driver.calling import bind
from cuesta.frontend.convention import Convention, Output

X, Y, Z = torch.ones(1), torch.zeros(2), torch.full((3,), 2.0)

OUTPUTS = [
    Output("tensor", 1),
    Output("argument", 2),
    Output("value", value=3),
    Output("tensor", 0),
    Output("argument", 0),
]


@pytest.mark.parametrize("outputs", [*itertools.permutations(OUTPUTS, 3), tuple(OUTPUTS), (Output("tensor", 0),), ()])
def test_outputs(outputs: tuple[Output, ...]) -> None:
    made = [X + 1, Y + 1]
    seen: list[Any] = []

    def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        seen.append(list(tensors))
        return list(made)

    gm = torch.fx.GraphModule({}, torch.fx.Graph())
    call = bind(run, Convention(list(outputs), [2, 0], [], []), gm)
    expected = {"tensor": made, "argument": [X, None, Z]}
    for _ in range(2):
        args: list[Any] = [X, 7, Z]
        results = call(args)
        assert not args and seen.pop() == [Z, X]
        if outputs:
            assert len(results) >= len(outputs)
        for output, result in zip(outputs, results, strict=False):
            wanted = output.value if output.kind == "value" else expected[output.kind][output.index]
            assert result is wanted


def test_arguments_that_the_run_itself_returns() -> None:
    outputs = [*OUTPUTS, Output("argument", 1), Output("argument", 2)]
    convention, returned = Convention(outputs, [2, 0], [], []).with_results([4, 5, 6], 2, without=[])
    assert returned == [1, 0]
    assert convention.outputs[:4] == OUTPUTS[:4], "those at other positions stay"
    assert convention.outputs[4:] == [Output("tensor", 2), Output("argument", 1), Output("tensor", 3)]
    assert Convention(outputs, [2, 0], [], []).with_results([4], 2, without=[1]) == (
        Convention(outputs, [2, 0], [], []),
        [],
    )
