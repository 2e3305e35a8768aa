"""Sums of powers below a row's maximum, in the one loop of their kernel on a GPU, in tt's interpreter."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cuesta.lowering.linalg_to_tt import lower
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter
from cuesta.lowering.linalg_to_tt.one_loop.powers import Powers, write_powers

#: Rows, one for each multiprocessor, so that none is split, and numbers of a row. No block is left behind the
#: loop, one, one that is not whole, several.
ROWS, SIZES = 132, (32768, 16384 + 800, 50005, 2 * 16384 + 3 * 4096)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Powers]:
    """The kernels that are written with one loop."""
    found: list[Powers] = []

    def write(writer: KernelWriter, powers: Powers, warps: int) -> None:
        found.append(powers)
        write_powers(writer, powers, warps)

    monkeypatch.setattr(lower, "write_powers", write)
    return found


def run(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    torch._dynamo.reset()
    return torch.compile(function, backend="cuesta", options={"target": "tt", "cache": False})(x)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_loss(written: list[Powers], size: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, target = 5 * torch.randn(ROWS, size, dtype=dtype) + 100, torch.randint(size, (ROWS,))

    def loss(x: Tensor) -> Tensor:
        return F.cross_entropy(x if dtype == torch.float64 else x.float(), target, reduction="none")

    torch.testing.assert_close(run(loss, x).double(), loss(x.double()).double(), rtol=2e-6, atol=2e-6)
    assert written


@pytest.mark.parametrize("size", SIZES)
def test_softmax(written: list[Powers], size: int) -> None:
    x = torch.randn(ROWS, size, dtype=torch.bfloat16)

    def softmax(x: Tensor) -> Tensor:
        return F.softmax(x.float(), -1)

    torch.testing.assert_close(run(softmax, x), softmax(x.double()))
    assert written


def test_columns(written: list[Powers]) -> None:
    x = torch.randn(66, 3137, 64)
    torch.testing.assert_close(run(lambda x: F.softmax(x, 1), x), F.softmax(x, 1))
    assert written


#: What is no finite number, or at the ends of what is one, in rows that are otherwise random.
NUMBERS = {
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "lowest": torch.finfo().min,
    "largest": torch.finfo().max,
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("count", [1, 20, 20_000, 40_000])
def test_what_is_no_number(written: list[Powers], name: str, count: int) -> None:
    x = torch.randn(ROWS, 40_000)
    x[0, -count:] = NUMBERS[name]
    x[1, :count] = NUMBERS[name]

    def logs(x: Tensor) -> Tensor:
        return F.log_softmax(x, -1)

    torch.testing.assert_close(run(logs, x), logs(x), equal_nan=True)
    assert written
