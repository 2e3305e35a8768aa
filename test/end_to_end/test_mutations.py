"""Arguments that a graph writes to: new values computed in their place, and those that must not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import cuesta


def running(mean: Tensor, x: Tensor) -> Tensor:
    mean.mul_(0.9).add_(x.mean(0) * 0.1)
    return x - mean


def swapped(a: Tensor, b: Tensor) -> Tensor:
    old = a.clone()
    a.copy_(b * 2)
    b.copy_(old + 1)
    return a + b


def reversed_(a: Tensor, b: Tensor) -> Tensor:
    a.copy_(a.flip(0) + b)
    return a * 1


def transposed(a: Tensor, b: Tensor) -> Tensor:
    a[:48, :48].add_(a[:48, :48].t().clone())
    return a.sum()


def shifted(a: Tensor, b: Tensor) -> Tensor:
    a[1:].add_(a[:-1].clone())
    return a * 1


def softmax(a: Tensor, b: Tensor) -> Tensor:
    a.copy_(torch.softmax(a, -1))
    return a * 1


def normalised(a: Tensor, b: Tensor) -> Tensor:
    a.sub_(a.mean(-1, keepdim=True))
    a.div_(a.std(-1, keepdim=True))
    return a.amax()


def read_by_both(a: Tensor, b: Tensor) -> Tensor:
    b.copy_(a.sum(0))
    a.add_(b)
    return a * 1


def momentum(a: Tensor, b: Tensor) -> Tensor:
    b.mul_(0.9).add_(a)
    a.sub_(b * 0.1)
    return a.amax()


def old_and_new(a: Tensor, b: Tensor) -> Tensor:
    old = a.clone()
    a.mul_(2)
    b.copy_(a + old)
    return b.amax()


@pytest.mark.parametrize("target", ["cpu", "tt"])
@pytest.mark.parametrize(
    "function",
    [running, swapped, reversed_, transposed, shifted, softmax, normalised, read_by_both, momentum, old_and_new],
)
def test_arguments_hold_what_eager_leaves_in_them(function: Callable[..., Tensor], target: str) -> None:
    generator = torch.Generator().manual_seed(7)
    a = torch.randn(48, 600, generator=generator)
    b = torch.randn(600, generator=generator)
    pairs = {running: (b, a), swapped: (b, b.flip(0)), momentum: (a, a * 2), old_and_new: (a, a * 2)}
    arguments = pairs.get(function, (a, b))
    expected, found = ([x.clone() for x in arguments] for _ in range(2))
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", options={"target": target, "cache": False})
    torch.testing.assert_close(compiled(*found), function(*expected))
    torch.testing.assert_close(found, expected)


def read_then_written(x: Tensor, buffer: Tensor) -> Tensor:
    y = x * (buffer * 2).sin()
    buffer.add_(1)
    return y


def itself_written(x: Tensor, buffer: Tensor) -> Tensor:
    y = F.leaky_relu(torch.triu(x, 1)) * buffer
    x.add_(1)
    return y


def a_part_written(x: Tensor, buffer: Tensor) -> Tensor:
    y = x[1:] * buffer[1:].exp()
    buffer[2:].mul_(3)
    return y


@pytest.mark.parametrize("function", [read_then_written, itself_written, a_part_written])
def test_gradients_are_of_the_values_before_the_write(function: Callable[..., Tensor]) -> None:
    """Torch's partitioner hands on the written argument: Inductor's gradients are wrong here, or it raises."""
    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    leaf, buffer = torch.randn(64, 8, requires_grad=True), torch.randn(64, 8)
    found = []
    for run in (function, compiled):
        x, written = leaf.clone(), buffer.clone()
        y = run(x, written)
        found.append((y, *torch.autograd.grad(y.square().sum(), leaf), x, written))
    torch.testing.assert_close(found[1], found[0])


class CountsCalls(torch.autograd.Function):
    """Its forward and its backward write to the second argument."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, state: Tensor, reads: bool) -> Tensor:
        old = state.clone()
        state.mul_(2)
        ctx.state, ctx.reads = state, reads
        ctx.save_for_backward(old)
        return x * old.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (old,) = ctx.saved_tensors
        result = gradient * old.sin() * (ctx.state if ctx.reads else 1)
        ctx.state.add_(gradient if ctx.reads else 1)
        return result, None, None


@pytest.mark.parametrize("reads", [False, True])
def test_what_both_graphs_of_a_step_write_to(reads: bool) -> None:
    """The backward graph has the argument to write to, and what was in it to compute from: of torch's partitioner it
    has one, and Inductor's gradients are wrong."""
    compiled = torch.compile(CountsCalls.apply, backend="cuesta", fullgraph=True)
    leaf, state = torch.randn(64, 8, requires_grad=True), torch.randn(64, 8)
    found = []
    for run in (CountsCalls.apply, compiled):
        written = state.clone()
        y = run(leaf, written, reads)
        between = written.clone()
        found.append((y, between, *torch.autograd.grad(y.square().sum(), leaf), written))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("target", ["cpu", "tt"])
def test_statistics_of_a_norm_are_updated_without_copies(target: str) -> None:
    torch.manual_seed(0)
    expected, found = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
    compiled = torch.compile(found, backend="cuesta", options={"target": target, "cache": False})
    for _ in range(2):
        x = torch.randn(4, 8, 16, 16)
        torch.testing.assert_close(compiled(x), expected(x))
    torch.testing.assert_close(found.state_dict(), expected.state_dict())
    graph = next(g for g in cuesta.report().graphs if g.name == "forward")
    assert not [kernel for kernel in graph.kernels if kernel["ops"] == ["copy"]]


@pytest.mark.parametrize("foreach", [False, True])
def test_an_optimizer_step_is_at_most_one_launch_a_parameter_on_a_gpu(foreach: bool) -> None:
    sizes = ((64, 32), (7, 5, 3), (31,))
    ours, theirs = (
        [nn.Parameter(torch.linspace(-1, 1, n).view(s)) for s in sizes for n in [Tensor(*s).numel()]] for _ in "ab"
    )
    for parameter in (*ours, *theirs):
        parameter.grad = torch.linspace(-2, 1, parameter.numel()).view(parameter.shape)
    own, other = (torch.optim.Adam(parameters, lr=0.01, foreach=foreach) for parameters in (ours, theirs))
    torch._dynamo.reset()
    compiled = torch.compile(lambda: own.step(), backend="cuesta", options={"target": "tt", "cache": False})
    for _ in range(3):
        compiled()
        other.step()
    torch.testing.assert_close(ours, theirs)
    graph = cuesta.report().graphs[-1]
    # One more for the counts of steps and what follows from those, and one less, as two of them run together.
    assert graph.launches == len(sizes) and not graph.aten_calls
