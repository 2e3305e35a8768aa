"""What a graph is run for that gives no tensor: assertions and LAPACK's errors, in the program, raised as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta
from cuesta.torch_versions import installed

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def graphs() -> list[dict[str, Any]]:
    return list(cuesta.report().as_dict()["graphs"])


def raised(function: Function, *args: Any) -> Exception:
    with pytest.raises(Exception) as caught:
        function(*args)
    return caught.value


def asserted(x: Tensor) -> Tensor:
    torch._assert_async((x > 0).all(), "it is positive")
    return x.sqrt()


def test_one_hot_is_one_program_that_raises() -> None:
    compiled = torch.compile(lambda i: F.one_hot(i, 8) + 1, backend="cuesta", fullgraph=True)
    i = torch.randint(0, 8, (5, 7))
    torch.testing.assert_close(compiled(i), F.one_hot(i, 8) + 1)
    assert [graph["aten_calls"] for graph in graphs()] == [[]]
    # torch 2.11 traces one_hot without a check, for every backend: such a number gives a row without a one.
    if installed() < (2, 12):
        torch.testing.assert_close(compiled(i - 9), torch.ones(5, 7, 8, dtype=torch.int64))
        return
    for bad, message in ((i - 9, "must be non-negative"), (i + 8, "must be smaller than num_classes")):
        with pytest.raises(RuntimeError, match=message):
            compiled(bad)
    torch.testing.assert_close(compiled(i), F.one_hot(i, 8) + 1)


@pytest.mark.parametrize("target", ["cpu", "tt"])
def test_assertions_raise_what_eager_raises(target: str) -> None:
    compiled = torch.compile(asserted, backend="cuesta", fullgraph=True, options={"target": target})
    torch.testing.assert_close(compiled(torch.ones(9)), torch.ones(9))
    bad = torch.tensor([1.0, -1.0])
    wanted, found = raised(asserted, bad), raised(compiled, bad)
    assert (type(found), str(found)) == (type(wanted), str(wanted))


def test_assertions_without_a_message() -> None:
    def function(x: Tensor) -> Tensor:
        torch._assert_async(x[0])
        return x + 1

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 2.0))
    wanted, found = raised(function, torch.zeros(3)), raised(compiled, torch.zeros(3))
    assert (type(found), str(found)) == (type(wanted), str(wanted))


def test_the_first_that_fails_raises() -> None:
    def function(x: Tensor) -> Tensor:
        torch._assert_async((x < 5).all(), "small")
        torch._assert_async((x < 3).all(), "smaller")
        return x * 2

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    for number, message in ((9.0, "^small$"), (4.0, "^smaller$")):
        with pytest.raises(RuntimeError, match=message):
            compiled(torch.tensor([1.0, number]))


def test_nothing_is_written_behind_an_assertion_that_fails() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        torch._assert_async((y > 0).all(), "it is positive")
        x.add_(y)
        return y * 2

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    x = torch.zeros(4096)
    compiled(x, torch.ones(4096))
    assert x.eq(1).all()
    with pytest.raises(RuntimeError, match="it is positive"):
        compiled(x, -torch.ones(4096))
    assert x.eq(1).all()


def test_assertions_between_steps_in_python() -> None:
    def function(x: Tensor) -> Tensor:
        found = x.nonzero()
        torch._assert_async((x < 5).all(), "small")
        return found

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(function, backend="cuesta", fullgraph=True)
        torch.testing.assert_close(compiled(torch.tensor([0, 3])), torch.tensor([[1]]))
        with pytest.raises(RuntimeError, match="^small$"):
            compiled(torch.tensor([0, 9]))


def test_assertions_in_training() -> None:
    compiled = torch.compile(asserted, backend="cuesta", fullgraph=True)
    x = torch.full((4,), 4.0, requires_grad=True)
    compiled(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((4,), 0.25))
    with pytest.raises(RuntimeError, match="it is positive"):
        compiled(-x)


def test_lapacks_errors_are_eagers() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.linalg.inv(x * 2) + torch.linalg.cholesky(x @ x.mT + 1)

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    x = torch.randn(4, 4) + 4 * torch.eye(4)
    torch.testing.assert_close(compiled(x), function(x))
    assert len(graphs()) == 1, "one program"
    wanted, found = raised(function, torch.zeros(4, 4)), raised(compiled, torch.zeros(4, 4))
    assert (type(found), str(found)) == (torch.linalg.LinAlgError, str(wanted))


def test_lapacks_errors_in_training() -> None:
    compiled = torch.compile(torch.linalg.inv, backend="cuesta", fullgraph=True)
    x = (torch.randn(3, 3) + 3 * torch.eye(3)).requires_grad_()
    (found,) = torch.autograd.grad(compiled(x).sum(), x)
    (wanted,) = torch.autograd.grad(torch.linalg.inv(x).sum(), x)
    torch.testing.assert_close(found, wanted)
    with pytest.raises(torch.linalg.LinAlgError):
        compiled(torch.zeros(3, 3, requires_grad=True))
