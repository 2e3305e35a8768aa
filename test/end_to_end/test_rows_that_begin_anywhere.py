"""Rows of an odd size, whose blocks begin at the 16 bytes below on a GPU, in tt's interpreter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cuesta.lowering.linalg_to_tt import lower
from cuesta.lowering.linalg_to_tt.frame import Lead
from cuesta.lowering.linalg_to_tt.memory.row_starts import find_lead

#: One for each multiprocessor, so that none is split.
ROWS = 132
#: Elements of a row: of a few blocks, of many; one is left in the last block, or as many as leave room for seven more.
SIZES = (20001, 24577, 24577 + 4088, 50257)
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@pytest.fixture
def leads(monkeypatch: pytest.MonkeyPatch) -> list[Lead]:
    """Where the kernels' blocks begin below their rows."""
    found: list[Lead] = []

    def find(*args: object) -> Lead | None:
        lead = find_lead(*args)  # type: ignore[arg-type]
        found.extend([lead] if lead is not None else [])
        return lead

    monkeypatch.setattr(lower, "find_lead", find)
    return found


def compiled(function: Callable[..., object]) -> Callable[..., object]:
    torch._dynamo.reset()
    return torch.compile(function, backend="cuesta", options={"target": "tt", "cache": False})


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_normalised(leads: list[Lead], size: int, dtype: torch.dtype) -> None:
    x = torch.randn(ROWS, size, dtype=dtype)

    def shares(x: Tensor) -> Tensor:
        return x / x.abs().sum(-1, keepdim=True)

    torch.testing.assert_close(compiled(shares)(x), shares(x.double()).to(dtype))
    assert {16 // dtype.itemsize} == {lead.unit for lead in leads}


@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_loss(leads: list[Lead], dtype: torch.dtype) -> None:
    x, target = torch.randn(ROWS, SIZES[0], dtype=dtype), torch.randint(SIZES[0], (ROWS,))
    target[3] = -100
    ours, eagers = x.clone().requires_grad_(), x.double().requires_grad_()

    def loss(x: Tensor) -> Tensor:
        return F.cross_entropy(x.to(torch.promote_types(x.dtype, torch.float32)), target)

    value, wanted = compiled(loss)(ours), loss(eagers)
    assert isinstance(value, Tensor)
    value.backward()
    wanted.backward()
    assert ours.grad is not None and eagers.grad is not None
    torch.testing.assert_close(value.double(), wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.grad, eagers.grad.to(dtype))
    assert len(leads) == 2


def test_masks(leads: list[Lead]) -> None:
    """Of numbers of two widths blocks begin at 16 of the narrower."""
    x = torch.randn(ROWS, SIZES[0])
    mask = x > 0

    def marked(x: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask, x, x.amax(-1, keepdim=True))

    torch.testing.assert_close(compiled(marked)(x, mask), marked(x, mask))
    assert [lead.unit for lead in leads] == [16]


def test_positions(leads: list[Lead]) -> None:
    x = torch.randn(ROWS, SIZES[0])
    x[:, 0] = x[:, -1] = 9  # equal at both ends
    x[4, :] = float("-inf")

    def extremes(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x.argmax(-1), x.argmin(-1), x + torch.arange(x.shape[-1])

    torch.testing.assert_close(compiled(extremes)(x), extremes(x))
    assert leads


def test_what_all_rows_share(leads: list[Lead]) -> None:
    """Factors of the columns, which lie elsewhere, are read only where there are some."""
    x, y, w = torch.randn(ROWS, SIZES[0]), torch.randn(ROWS, SIZES[0]), torch.randn(SIZES[0])

    def weighed(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        return w * x / (x * y).square().sum(-1, keepdim=True)

    torch.testing.assert_close(compiled(weighed)(x, y, w), weighed(x, y, w))
    assert leads


def test_numbers_that_are_no_positions() -> None:
    """Positions are compared in i32, with numbers in i64."""
    x, number = torch.randn(8, 300), torch.tensor([0, 299, 300, -1, 1 << 32, -(1 << 32) + 5, 1 << 62, -(1 << 62)])

    def chosen(x: Tensor, number: Tensor) -> tuple[Tensor, ...]:
        at, number = torch.arange(300), number[:, None]
        return tuple(torch.where(mask, x, 0) for mask in (at == number, number < at, at <= number, at != number))

    torch.testing.assert_close(compiled(chosen)(x, number), chosen(x, number))


@pytest.mark.parametrize("size", [SIZES[0], 32768])
def test_sums_of_one_number(size: int) -> None:
    """A sum of what is at one position of a row: it may be beyond the row, and what is there may differ by position."""
    x, weight, target = torch.randn(ROWS, size), torch.randn(ROWS, size), torch.randint(size, (ROWS, 1))
    target[:4, 0] = torch.tensor([-100, size, (1 << 32) + 5, size - 1])

    def gradient(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
        row = torch.where((torch.arange(size) == target) & (target != 3), weight.exp(), 0)
        return row - x * row.sum(-1, keepdim=True)

    torch.testing.assert_close(compiled(gradient)(x, weight, target), gradient(x, weight, target))
