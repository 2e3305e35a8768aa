"""Arguments that share memory, given to what was compiled for arguments that do not, and one of which is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from cuesta.errors import InputError


def _read_after(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    x.add_(1)
    return (y * 2,)


def _read_before(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    t = y.roll(1, -1)
    x.cumsum_(0)
    return (t, y)


def _both_written(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    x[1:].mul_(3)
    y.zero_()
    return (x + y,)


FUNCTIONS = [_read_after, _read_before, _both_written]


@pytest.fixture
def ran_op_by_op(capfd: pytest.CaptureFixture[str]) -> Callable[[], bool]:
    return lambda: "arguments share memory" in capfd.readouterr().err


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_is_as_in_eager(function: Callable[..., object], dynamic: bool) -> None:
    compiled = torch.compile(function, backend="cuesta", dynamic=dynamic)
    compiled(torch.ones(4), torch.ones(4))
    for x, y in ((0, 0), (0, 2), (2, 0), (0, 1), (0, 4)):
        wanted, actual = torch.arange(8.0), torch.arange(8.0)
        # views of two objects each: the same tensor twice is another program, by a guard of Dynamo's
        assert_close(compiled(actual[x : x + 4], actual[y : y + 4]), function(wanted[x : x + 4], wanted[y : y + 4]))
        assert_close(actual, wanted)


def test_gradients_flow_through_what_runs_op_by_op(ran_op_by_op: Callable[[], bool]) -> None:
    def f(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        x.add_(1)
        return (y * w).sum()

    compiled = torch.compile(f, backend="cuesta")
    w = torch.ones(4, requires_grad=True)
    compiled(torch.ones(4), torch.ones(4), w).backward()
    memory = torch.arange(8.0)
    w.grad = None
    compiled(memory[:4], memory[2:6], w).backward()
    assert ran_op_by_op()
    assert w.grad is not None
    assert_close(w.grad, torch.tensor([3.0, 4.0, 4.0, 5.0]))


@pytest.mark.parametrize(
    "views",
    [
        pytest.param(lambda m: (m[0:4], m[4:8]), id="beside each other"),
        pytest.param(lambda m: (m[::2], m[1::2]), id="between each other"),
        pytest.param(lambda m: (m[:4], m[:0]), id="no elements"),
    ],
)
def test_memory_apart_stays_compiled(
    views: Callable[[Tensor], tuple[Tensor, Tensor]], ran_op_by_op: Callable[[], bool]
) -> None:
    compiled = torch.compile(_read_after, backend="cuesta", dynamic=True)
    compiled(torch.ones(5), torch.ones(5))
    actual, wanted = torch.arange(8.0), torch.arange(8.0)
    assert_close(compiled(*views(actual)), _read_after(*views(wanted)))
    assert_close(actual, wanted)
    assert not ran_op_by_op()


def test_what_shared_when_it_was_compiled_stays_compiled(ran_op_by_op: Callable[[], bool]) -> None:
    compiled = torch.compile(_read_after, backend="cuesta")
    for _ in range(2):
        actual, wanted = torch.arange(8.0), torch.arange(8.0)
        assert_close(compiled(actual[:4], actual[2:6]), _read_after(wanted[:4], wanted[2:6]))
        assert_close(actual, wanted)
    assert not ran_op_by_op()


def test_arguments_that_are_only_read_may_share(ran_op_by_op: Callable[[], bool]) -> None:
    def f(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        z.add_(1)
        return x * y + z

    compiled = torch.compile(f, backend="cuesta")
    compiled(torch.ones(4), torch.ones(4), torch.ones(4))
    m = torch.arange(8.0)
    assert_close(compiled(m[:4], m[2:6], torch.ones(4)), f(m[:4], m[2:6], torch.ones(4)))
    assert not ran_op_by_op()


def test_what_has_no_memory_is_refused() -> None:
    """Eager, which runs such calls, would read it."""

    def f(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        z.add_(1)
        return x + y

    compiled = torch.compile(f, backend="cuesta")
    compiled(torch.ones(4), torch.ones(4), torch.ones(4))
    m, gone = torch.ones(4), torch.ones(4)
    gone.untyped_storage().resize_(0)
    with pytest.raises(InputError, match="storage holds 0 bytes"):
        compiled(m[:], gone, m[:])
