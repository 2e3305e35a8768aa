"""target "tt": the whole way to a GPU, its kernels run by numpy in the place of the driver, on CPU tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import cuesta
from cuesta.driver import interpreted

Tensor = torch.Tensor


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend="cuesta", options={"target": "tt", "cache": False, **options})


def check(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """`function` compiled gives what it gives in eager, and every graph of it is compiled."""
    call = compiled(function)
    torch.testing.assert_close(call(*arguments), function(*arguments))
    assert all(graph.fallback is None for graph in cuesta.report().graphs)
    return call


def floats(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


X = floats(6, 40)


def test_kernels_and_calls() -> None:
    weight, bias = floats(16, 40), floats(16)
    check(lambda x: torch.softmax(F.gelu(F.linear(x, weight, bias)), -1), X)
    (graph,) = cuesta.report().graphs
    assert graph.launches == 1
    assert graph.kernels[0]["grid"][1:] == [1, 1]


def test_views_and_several_results() -> None:
    check(lambda x: (x.t() + 1, x[1:, ::2] * 2, x.sum(0), x.amax()), X)


def test_padding_that_takes_the_one_element_away() -> None:
    check(lambda x: F.pad(x.sin(), (-1, 1)).erf(), floats(5, 1))
    check(lambda x: torch.cat([x[:0], x, x[:0]]).sin(), X)


@pytest.mark.parametrize("columns", [3, 9, 27, 57, 145])
def test_parts_of_rows_that_end_within_a_vector_leave_what_lies_beside_them(columns: int) -> None:
    def parts(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x[:, :columns].sin() @ x[0, :columns].diag(), y.sin(), x[:, columns:]], 1)

    check(parts, floats(70, 160).bfloat16(), floats(70, 160 - columns).bfloat16())
    check(lambda x: torch.cat([x[:, :columns] * 2, x.exp(), x[:, columns:] + 1], 1), floats(70, 160).bfloat16())


@pytest.mark.parametrize("channels", [3, 8])
def test_images_whose_last_dims_are_short(channels: int) -> None:
    image = floats(2, channels, 24, 40)
    check(lambda x: F.pixel_shuffle(x, 2) + 0, floats(2, 4 * channels, 24, 40).bfloat16())
    check(lambda x: F.pixel_unshuffle(x, 2) + 0, image)
    patches = (2, channels, 6, 4, 10, 4)
    check(lambda x: x.view(patches).permute(0, 2, 4, 1, 3, 5).contiguous(), image)
    check(lambda x: x.view(patches).permute(0, 2, 4, 3, 5, 1).contiguous() * 2, image.bfloat16())
    check(lambda x, y: x.view(patches).permute(5, 0, 2, 4, 3, 1).contiguous() + y, image, floats(6, 10, 4, channels))


def test_variances_in_parts_and_loops_over_two_classes() -> None:
    check(lambda x: F.batch_norm(x, None, None, training=True), floats(8, 16, 28, 28))
    check(lambda x: torch.var_mean(x, (0, 2, 3)), floats(8, 16, 28, 28).to(memory_format=torch.channels_last))
    check(lambda x: (x - x.mean((0, 2), keepdim=True)).square().sum((0, 2)), floats(197, 150, 161))


def test_integers_bools_and_narrow_floats() -> None:
    check(lambda x: (x.bfloat16() * 3, (x > 0).long() + 1, x.half().sum(-1)), X)


def test_embedding_and_indexing() -> None:
    table, rows = floats(10, 8), torch.tensor([[1, 9], [0, 3]])
    check(lambda t, r: F.embedding(r, t) * 2, table, rows)


def test_a_call_through_python_and_one_through_the_dispatcher() -> None:
    check(lambda x: (torch.sort(x, -1).values + 1, torch.linalg.qr(x @ x.t()).R.abs()), X)


def test_training() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(40, 24), torch.nn.GELU(), torch.nn.LayerNorm(24), torch.nn.Linear(24, 3)
    )
    labels = torch.tensor([0, 2, 1, 1, 0, 2])

    def step() -> list[Tensor]:
        model.zero_grad()
        F.cross_entropy(call(X), labels).backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    call: Callable[..., Any] = model
    expected = step()
    call = compiled(model)
    torch.testing.assert_close(step(), expected)
    assert [g.name for g in cuesta.report().graphs] == ["forward", "backward"]


def test_an_input_that_is_not_aligned_is_read_at_another_place() -> None:
    call = check(lambda x: x * 2 + 1, X)
    memory = floats(6 * 40 + 1)
    off = memory[1:].view(6, 40)
    assert off.data_ptr() % 16
    for x in (off, off, X, memory[2:-1].expand(6, 238)[:, :40], off, X):
        torch.testing.assert_close(call(x), x * 2 + 1)


def test_an_input_that_is_not_aligned_of_a_graph_without_kernels() -> None:
    x, w = torch.randn(65)[1:].view(8, 8), torch.randn(8, 8)
    actual = torch.compile(torch.matmul, backend="cuesta", options={"target": "tt"})(x, w)
    (graph,) = cuesta.report().graphs
    assert graph.launches == 0
    torch.testing.assert_close(actual, x @ w)


def test_arguments_that_are_not_aligned_are_found_whichever_they_are() -> None:
    call = compiled(lambda x, y: x * 2 + y)
    memory = floats(6 * 40 + 1)
    off, other = memory[1:].view(6, 40), memory.clone()[1:].view(6, 40)
    for x, y in ((off, X), (X, off), (off, other), (X, other.clone()), (X, off)):
        torch.testing.assert_close(call(x, y), x * 2 + y)
    assert len(cuesta.report().graphs) == 1


def test_a_written_input_that_is_not_aligned_is_written_where_it_is() -> None:
    def write(x: Tensor) -> Tensor:
        x.mul_(2)
        return x.sum(1)

    call = compiled(write)
    memory, expected = floats(6 * 40 + 1), floats(6 * 40 + 1)
    off = memory[1:].view(6, 40)
    result = call(off)
    torch.testing.assert_close(result, write(expected[1:].view(6, 40)))
    torch.testing.assert_close(memory, expected)


def test_threads() -> None:
    call = check(lambda x: torch.tanh(x) + 1, X)
    inputs = [X + i for i in range(8)]
    results: dict[int, Tensor] = {}

    def run(i: int) -> None:
        results[i] = call(inputs[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, x in enumerate(inputs):
        torch.testing.assert_close(results[i], torch.tanh(x) + 1)


def test_a_failed_launch_raises_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(*arguments: Any) -> int:
        raise ZeroDivisionError("in the kernel")

    monkeypatch.setattr(interpreted.Kernel, "run", launch)
    with pytest.raises(ZeroDivisionError, match="in the kernel"):
        compiled(lambda x: x + 1)(X)


def test_positions_outside_are_clamped_as_nothing_waits_for_the_gpu() -> None:
    call = compiled(lambda x, i: x[i])
    torch.testing.assert_close(call(X, torch.tensor([1, 3])), X[[1, 3]])


_FROM_THE_CACHE = """
import sys, torch, cuesta
x = torch.arange(12.0).view(3, 4)
options = {"target": "tt", "cache_dir": sys.argv[1]}
call = torch.compile(lambda x: torch.softmax(x, -1) + 1, backend="cuesta", options=options)
torch.testing.assert_close(call(x), torch.softmax(x, -1) + 1)
print(cuesta.report().graphs[0].cache["hit"])
"""


def test_a_cached_program_brings_its_kernels(tmp_path: Path, forked: Callable[..., CompletedProcess[str]]) -> None:
    for expected in ("False", "True"):
        done = forked(_FROM_THE_CACHE, tmp_path)
        assert done.stdout.strip() == expected, done.stderr


def test_updates_of_many_parameters_are_few_kernels() -> None:
    sizes = [(8, 40), (16,), (8, 40), (16,), (4, 8)]

    def trained(wrap: Callable[..., Any]) -> list[Tensor]:
        parameters = [floats(*size).requires_grad_() for size in sizes]
        optimizer = torch.optim.Adam(parameters, lr=0.01, eps=1e-3)
        step = wrap(lambda: optimizer.step())
        for scale in (1, 2, 3):
            for parameter in parameters:
                parameter.grad = scale * parameter.detach().flip(0)
            step()
        return [parameter.detach() for parameter in parameters]

    torch.testing.assert_close(trained(compiled), trained(lambda step: step), rtol=1e-5, atol=2e-5)
    (graph,) = cuesta.report().graphs
    # One for the counts of steps, and one for the others, each of which has the programs of one size.
    assert (graph.fallback, graph.launches) == (None, 2)
