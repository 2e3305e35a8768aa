"""Results that share memory with an argument or with one another, as eager's do, and results that must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

Check = Callable[..., Any]


def test_an_output_that_is_an_input(backend: str) -> None:
    x = torch.randn(4)
    y, z, same = torch.compile(lambda x: (x + 1, x, x), backend=backend, fullgraph=True)(x)
    assert z is x
    assert same is x
    assert_close(y, x + 1)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.view(-1),
        lambda x: (x.t(), x[1:], x.unsqueeze(0).expand(3, -1, -1)),
        lambda x: (x * 2, x[:, 1]),
        lambda x: x.detach(),
        lambda x: x.as_strided((2, 2), (1, 2), 1),
    ],
    ids=["view", "several", "beside_a_result", "detach", "as_strided"],
)
def test_an_output_that_is_a_view_of_an_input(f: Callable[[Tensor], Any], same_as_eager: Check) -> None:
    same_as_eager(f, torch.randn(4, 6))


def test_outputs_that_are_views_of_one_result(same_as_eager: Check) -> None:
    def views(x: Tensor) -> tuple[Tensor, ...]:
        y = x + 1
        return y, y.t(), y[0], y

    same_as_eager(views, torch.randn(4, 6))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.diagonal(1),
        lambda x: x.unfold(0, 2, 1)[1:],
        lambda x: x.split(2)[1].diagonal(),
        lambda x: x.t().as_strided((2, 2), (1, 6)),
        lambda x: x.view(torch.int32).t(),
        lambda x: x.view(4, 1, 6)[:, 0],
    ],
    ids=["diagonal", "unfold", "split", "as_strided", "dtype", "reshaped"],
)
def test_a_view_beside_its_whole_shares_the_memory(view: Callable[[Tensor], Tensor], backend: str) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x + 1
        return y, view(y), view(x * 2)

    x = torch.randn(4, 6)
    y, part, alone = torch.compile(f, backend=backend)(x)
    assert_close((part, alone), (view(x + 1), view(x * 2)))
    part.zero_()
    assert_close(view(y), part)


def test_views_of_a_result_that_the_next_graph_writes(same_as_eager: Check) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        total = x.sum()
        table, line = total.reshape(-1, 1), total.as_strided((1,), (1,))
        line[line < 99] *= 2  # a graph break
        return table, line

    same_as_eager(f, torch.randn(3, 3))


def test_a_result_of_atens_that_the_next_graph_writes(backend: str) -> None:
    """Attention's output is a view of what the op made."""

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = x.movedim(-3, 0).transpose(-3, -2)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(-3, -2).flatten(-2)
        z = y[None]
        torch._dynamo.graph_break()
        z.masked_fill_(z > 0, 1)
        y.detach().mul_(2)
        return y, z

    x = torch.randn(1, 4, 3, 1, 1, dtype=torch.float64)
    y, z = torch.compile(f, backend=backend)(x)
    assert_close((y, z), f(x))
    assert y.data_ptr() == z.data_ptr()


def test_a_part_of_a_reshape_that_copied_shares_its_memory(backend: str) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        whole = x.mT.reshape(-1)
        part = whole[1:].zero_()
        return whole, part

    x = torch.randn(4, 6)
    whole, part = torch.compile(f, backend=backend)(x)
    assert_close((whole, part), f(x))
    part.fill_(2)
    assert whole[0] == x[0, 0]
    assert whole[1:].eq(2).all()


def test_an_output_twice_may_be_written_to(backend: str) -> None:
    def twice(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        return y, y

    first, second = torch.compile(twice, backend=backend)(torch.ones(3))
    first.add_(1)
    assert_close(second, torch.full((3,), 3.0))


def _parts_of_complex(x: Tensor) -> tuple[Tensor, ...]:
    z = torch.view_as_complex(x.reshape(-1, 2)) * 2
    return z, torch.view_as_real(z), z.real


def _copy_of_a_copy(x: Tensor) -> tuple[Tensor, ...]:
    y, z = x.clone(), x.clone()
    return y, z, y.t(), z.t()


def _half_of_a_half(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.full_like(x, 0.5)
    z = y[..., 1:]
    z[:, torch.tensor([0, 0])] *= 2
    return z, z[..., -1]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: (y := x.clone(), y.t()),
        lambda x: (x.clone().expand(2, 6, 6), x.sin()),
        lambda x: ((y := x.repeat(2, 2)).flatten()[:3], y),
        lambda x: x.repeat(2, 2).chunk(2, 1),
        lambda x: ((y := x.clone())[0], y[1:], y[:, 1]),
        lambda x: ((y := x.sin())[0], y[1:], y[:, 1]),
        lambda x: ((y := x.clone()).expand(2, 6, 6), y[1]),
        lambda x: (y := x.clone(), y),
        lambda x: ((y := x.repeat(2, 2).bool())[:2], y[2:].t()),
        _parts_of_complex,
        _copy_of_a_copy,
        _half_of_a_half,
    ],
)
def test_results_share_memory_where_eagers_do(f: Callable[[Tensor], Any], dynamic: bool, backend: str) -> None:
    """Whatever their values are made of: a copy is its operand's value, and has memory of its own."""

    def shared(results: Any) -> list[list[bool]]:
        places = [y.untyped_storage().data_ptr() for y in results]
        return [[a == b for a in places] for b in places]

    x = torch.randn(6, 6)
    actual, expected = torch.compile(f, backend=backend, fullgraph=True, dynamic=dynamic)(x.clone()), f(x.clone())
    for y, z in zip(actual, expected, strict=True):
        assert_close(y, z)
        assert y.stride() == z.stride() and y.storage_offset() == z.storage_offset()
    assert shared(actual) == shared(expected)
    for results in (actual, expected):
        results[0].fill_(1)
    for y, z in zip(actual, expected, strict=True):
        assert_close(y, z)


def test_two_views_of_one_value_are_two_tensors(backend: str) -> None:
    """What is done to one of them, as a tensor of Python's, is not done to the other."""

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.stack([x, x])
        return both.chunk(2, -1)[0], both

    first, second = torch.compile(f, backend=backend)(torch.ones(12, 1))
    first.unsqueeze_(0)
    assert first.shape == (1, 2, 12, 1)
    assert second.shape == (2, 12, 1)
    first.zero_()
    assert not second.any()


def test_a_place_in_an_argument_that_is_written_in_part(backend: str) -> None:
    """Offsets count from where the argument's memory begins, and the graph writes a copy of the argument."""

    def f(x: Tensor) -> Tensor:
        head = x.as_strided((2,), (1,), 1)
        x[1:].mul_(3)
        return torch.outer(head, x)

    actual, wanted = torch.arange(15.0)[1:-2], torch.arange(15.0)[1:-2]
    assert_close(torch.compile(f, backend=backend)(actual), f(wanted))
    assert_close(actual, wanted)


@pytest.mark.parametrize("offset", [0, 2, 5])
@pytest.mark.parametrize("limited", [False, True], ids=["any_size", "each_size"])
def test_views_of_a_written_argument_of_open_sizes(limited: bool, offset: int, backend: str) -> None:
    """AOTAutograd takes the results' offsets, where sizes are open, and views the argument so."""

    def f(x: Tensor) -> tuple[Tensor, ...]:
        before = x + 1
        x.view(-1)[:2].add_(1)
        return x.expand(3, *x.shape), x[1:], x.t(), x.view(torch.int32), x, before, before.t()

    options = {"memory_limit": 1 << 20} if limited else {}
    compiled = torch.compile(f, backend=backend, options=options)
    for rows in (9, 6):  # torch 2.15 fixes the size of a square argument whose transpose is returned
        given = torch.arange(80.0)[offset : offset + 8 * rows].view(rows, 8)
        wanted = given.clone()
        torch._dynamo.mark_dynamic(given, 0)
        expected, actual = f(wanted), compiled(given)
        assert_close(actual, expected)
        assert_close(given, wanted)
        for result, right in zip(actual, expected, strict=True):
            assert result.stride() == right.stride()
        for result, right in zip(actual[:5], expected[:5], strict=True):
            assert result.data_ptr() - given.data_ptr() == right.data_ptr() - wanted.data_ptr()
