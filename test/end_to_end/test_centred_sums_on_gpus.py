"""Sums of squares less the mean, in the one loop of their kernel on a GPU, in tt's interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuesta.lowering.linalg_to_tt import lower
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter
from cuesta.lowering.linalg_to_tt.one_loop.centred_sums import CentredSums, write_centred_sums


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[CentredSums]:
    """The kernels that are written with one loop."""
    found: list[CentredSums] = []

    def write(writer: KernelWriter, sums: CentredSums) -> None:
        found.append(sums)
        write_centred_sums(writer, sums)

    monkeypatch.setattr(lower, "write_centred_sums", write)
    return found


def statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    variance, mean = torch.var_mean(x.float(), 1, correction=0)
    return variance, mean


#: Numbers whose mean is large beside their differences have no variance in f32 if their squares are summed.
CASES = {"around 0": (1.0, 0.0), "around 1000": (1.0, 1000.0), "equal": (0.0, 3.25)}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", [(6, 3000, 64), (3, 2501, 72), (12, 2600, 128)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_statistics(written: list[CentredSums], name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    scale, offset = CASES[name]
    x = (torch.randn(shape) * scale + offset).to(dtype)
    actual = torch.compile(statistics, backend="cuesta", options={"target": "tt"})(x)
    assert written
    for ours, exact in zip(actual, statistics(x.double()), strict=True):
        torch.testing.assert_close(ours.double(), exact.double(), rtol=1e-5, atol=1e-8)


def test_what_is_no_number(written: list[CentredSums]) -> None:
    x = torch.randn(2, 3000, 64)
    x[0, 5, 3] = torch.nan
    x[1, 700, 4] = torch.inf
    variance, mean = torch.compile(statistics, backend="cuesta", options={"target": "tt"})(x)
    assert written
    for result in (variance, mean):
        assert torch.equal(result.isfinite(), statistics(x)[0].isfinite())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norm(written: list[CentredSums], dtype: torch.dtype) -> None:
    """A norm of each channel over a long time, and what reads it, in the statistics' kernel."""

    def norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return torch.nn.functional.gelu(torch.nn.functional.group_norm(x, x.shape[1], w, b))

    torch.manual_seed(0)
    x = (torch.randn(2, 16001, 64) * 2 + 5).to(dtype).transpose(1, 2)
    w, b = torch.randn(64).to(dtype), torch.randn(64).to(dtype)
    torch._dynamo.reset()
    actual = torch.compile(norm, backend="cuesta", options={"target": "tt", "cache": False})(x, w, b)
    assert written
    tolerance = 1e-4 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(actual, norm(x, w, b), rtol=tolerance, atol=tolerance)


def test_what_is_summed_is_kept(written: list[CentredSums]) -> None:
    """A sum of two tensors and its statistics, of a number of rows that no block divides."""

    def residual(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return (x + y, *statistics(x + y))

    torch.manual_seed(0)
    x, y = torch.randn(2, 3, 2501, 72).bfloat16()
    torch._dynamo.reset()
    actual = torch.compile(residual, backend="cuesta", options={"target": "tt", "cache": False})(x, y)
    assert written
    assert torch.equal(actual[0], x + y)
    for ours, exact in zip(actual[1:], statistics((x + y).double()), strict=True):
        torch.testing.assert_close(ours.double(), exact.double(), rtol=1e-5, atol=1e-8)
