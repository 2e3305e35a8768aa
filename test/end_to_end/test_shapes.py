"""Shapes that change from call to call, and sizes in the computation."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing import assert_close

import cuesta


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


@pytest.mark.parametrize(("dynamic", "recompiles"), [(None, 1), (True, 0), (False, 3)], ids=str)
def test_changing_batch_size(dynamic: bool | None, recompiles: int, backend: str) -> None:
    module, counter = mlp(), CompileCounterWithBackend(backend)
    compiled = torch.compile(module, backend=counter, dynamic=dynamic)
    assert_close(compiled(torch.ones(4, 8)), module(torch.ones(4, 8)))
    # Dynamo may have traced the first call twice, once it learnt that the weights fix the number of columns.
    first = counter.frame_count
    for batch in (7, 9, 33, 7):
        x = torch.randn(batch, 8)
        assert_close(compiled(x), module(x))
    assert counter.frame_count - first == recompiles


@pytest.mark.parametrize("batch", [0, 1, 2, 5])
def test_special_batch_sizes_after_a_dynamic_one(batch: int, backend: str) -> None:
    module = mlp()
    compiled = torch.compile(module, backend=backend, dynamic=True)
    for size in (4, batch, 6):
        x = torch.randn(size, 8)
        assert_close(compiled(x), module(x))


def test_training_with_a_changing_batch_size(backend: str) -> None:
    ours = mlp()
    theirs = copy.deepcopy(ours)
    compiled = torch.compile(ours, backend=backend, dynamic=True)
    for batch in (4, 7, 12):
        x = torch.randn(batch, 8)
        for module, run in ((ours, compiled), (theirs, theirs)):
            module.zero_grad()
            run(x).square().mean().backward()
        assert_close([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()])


def test_arithmetic_on_sizes(backend: str) -> None:
    def halves(x: Tensor) -> tuple[Tensor, Tensor, int, Tensor]:
        n = x.shape[0]
        index = torch.arange(n, device=x.device)
        return x[: n // 2] * n, x.reshape(-1, 2 * x.shape[1] // 2).softmax(0), n * 2 + 1, torch.cat([index, index + n])

    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(halves, backend=counter, dynamic=True, fullgraph=True)
    for rows, columns in ((6, 4), (9, 5), (12, 7)):
        x = torch.randn(rows, columns)
        actual, expected = compiled(x), halves(x)
        assert_close(actual, expected)
        assert type(actual[2]) is int
    assert counter.frame_count == 1


def test_mark_dynamic(backend: str) -> None:
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(lambda x: torch.softmax(x * 2, 1).sum(0), backend=counter)
    for rows in (3, 5, 8):
        x = torch.randn(rows, 6)
        torch._dynamo.mark_dynamic(x, 0)
        assert_close(compiled(x), torch.softmax(x * 2, 1).sum(0))
    assert counter.frame_count == 1


def _positive(x: Tensor) -> Tensor:
    return torch.sin(x[x > 0]) * 2


def _places(x: Tensor) -> tuple[Tensor, Tensor]:
    found = x.abs().gt(0.5).nonzero()
    return (found * 2 + 1).sum(0), found.float().softmax(-1)


def _counted(x: Tensor) -> Tensor:
    count = x.abs().sum().int().item()
    torch._check(count >= 0)
    torch._check(count < 1000)
    return torch.arange(count) * 2 + 1


def _by_its_largest(x: Tensor) -> Tensor:
    return x * x.max().item() + 1


def _parts(x: Tensor) -> tuple[Tensor, ...]:
    return torch.tensor_split(x, torch.tensor([1, 2, 7]), 0)


def _some_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Views whose sizes and offset are all that depends on the data; the program computes nothing else."""
    count = x.gt(0).sum().item()
    torch._check(count >= 0)
    torch._check(count < x.shape[0])
    return x[:count], x[count:]


def _split(x: Tensor) -> tuple[Tensor, ...]:
    positive = int(x.gt(0).sum().item())
    return torch.split(x, [positive, x.shape[0] - positive])


def _empty(x: Tensor) -> Tensor:
    return torch.empty(x.gt(0).sum().item() // 2).repeat(3).shape[0] + x


def _row_written(x: Tensor) -> Tensor:
    row = x.argmax().item()
    torch._check(row >= 0)
    torch._check(row < x.shape[0])
    x = x.clone()
    x[row] = 5.0
    return x


def _row_written_unchecked(x: Tensor) -> Tensor:
    return torch.select_scatter(x, x[0] * 2, 0, x.argmax().item())


@pytest.mark.parametrize(
    "function",
    [
        _row_written,
        _row_written_unchecked,
        _positive,
        _places,
        _counted,
        _by_its_largest,
        _parts,
        _some_rows,
        _split,
        _empty,
    ],
)
def test_sizes_that_depend_on_data(function: Callable[[Tensor], Tensor], backend: str) -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        for n in (20, 20, 31, 20):
            x = torch.randn(n)
            assert_close(compiled(x), function(x))


def test_what_the_data_decide_is_taken_for_what_checks_allow(cuesta_only: None) -> None:
    """One program serves all; it would be none for row 64 of 6, and be compiled for each row."""
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(_row_written, backend="cuesta", fullgraph=True)
        for row in (1, 3, 5):
            x = torch.zeros(6)
            x[row] = 1
            assert_close(compiled(x), _row_written(x))
    assert not [graph.specialised for graph in cuesta.report().graphs if graph.specialised]


def test_a_loop_over_a_size(backend: str) -> None:
    def running(x: Tensor) -> Tensor:
        total = torch.zeros_like(x[0])
        for row in range(x.shape[0]):
            total = total * 0.5 + x[row]
        return total

    compiled = torch.compile(running, backend=backend)
    for rows in (2, 5, 3):
        x = torch.randn(rows, 4)
        assert_close(compiled(x), running(x))
