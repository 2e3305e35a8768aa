"""Numbers that `.item()` reads, as arguments of ops: they arrive as Python's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

Same = Callable[..., Any]

SIGNATURE = "(Tensor x, SymInt n, *, SymInt size=1, Scalar factor=1, SymInt[] counts=[], str text='', bool flag=True)"


def _take(
    x: Tensor, n: int, *, size: int = 1, factor: Any = 1, counts: Any = (), text: str = "", flag: bool = True
) -> Tensor:
    assert all(type(number) is int for number in (n, size, *counts))
    assert type(factor) in (int, float)
    assert type(flag) is bool
    return (x + n + size + sum(counts) + len(text) + flag) * factor


@pytest.fixture(autouse=True)
def take() -> Iterator[Callable[..., Tensor]]:
    """An op of ours that is particular about its arguments; it goes through Python."""
    library = torch.library.Library("numbers_from_data", "FRAGMENT")
    library.define(f"take{SIGNATURE} -> Tensor")
    library.impl("take", _take, "CompositeExplicitAutograd")
    library.impl("take", lambda x, *_, **__: torch.empty_like(x), "Meta")
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        yield torch.ops.numbers_from_data.take
    library._destroy()


OF_OURS: dict[str, Callable[..., Any]] = {
    "a number": lambda take, x, n: take(x, n.item()),
    "a number, twice and by name": lambda take, x, n: take(x, n.item() * 2 + 1, size=n.item()),
    "a list": lambda take, x, n: take(x, 1, counts=[n.item(), 3, n.item() - 1]),
    "a scalar": lambda take, x, n: take(x, 1, factor=n.item()),
    "a float": lambda take, x, n: take(x, 1, factor=n.double().item()),
    "beside a size": lambda take, x, n: take(x[: n.item()], n.item(), counts=[n.item()], text="size", size=2),
    "an argument called size": lambda take, x, n: take(x[: n.item()], 1, size=5),
}


@pytest.mark.parametrize("name", OF_OURS)
def test_an_op_through_python(same_as_eager: Same, take: Callable[..., Tensor], name: str) -> None:
    same_as_eager(lambda x, n: OF_OURS[name](take, x, n), torch.randn(8), torch.tensor(4))


@pytest.mark.parametrize("name", OF_OURS)
def test_each_call_has_its_own(backend: str, take: Callable[..., Tensor], name: str) -> None:
    compiled = torch.compile(lambda x, n: OF_OURS[name](take, x, n), backend=backend)
    x = torch.randn(8)
    for n in (4, 2, 7):
        torch.testing.assert_close(compiled(x, torch.tensor(n)), OF_OURS[name](take, x, torch.tensor(n)))


OF_ATEN: dict[str, Callable[..., Any]] = {
    "alpha, which ATen's entry takes as a double": lambda x, n: torch.addmm(x, x, x, alpha=n.item(), beta=2),
    "alpha of a batch": lambda x, n: torch.baddbmm(x[None], x[None], x[None], alpha=2, beta=n.item()),
    "through the dispatcher": lambda x, n: x.topk(n.item(), 1).values,
    "in a kernel": lambda x, n: torch.roll(x, n.item()) + torch.full((8, 8), n.item()),
    "a float in a kernel": lambda x, n: x.clamp(max=n.double().item()).pow(n.double().item()),
    "a bool": lambda x, n: x * (n > 3).item(),
}


@pytest.mark.parametrize("name", OF_ATEN)
def test_an_op_of_aten(same_as_eager: Same, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    same_as_eager(OF_ATEN[name], torch.rand(8, 8), torch.tensor(4))
    assert "compiled for each set of sizes" not in capfd.readouterr().err


def test_a_size_as_alpha(same_as_eager: Same) -> None:
    same_as_eager(lambda x: torch.addmm(x, x, x, alpha=x.shape[0]), torch.rand(8, 8), dynamic=True)
