"""Products of 1 to 16 rows by weights of 8 and 4 bits on a CPU: kernels that read the weight as it is stored, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import cuesta
from cuesta.lowering.linalg_to_loops import multiply_quantised
from cuesta.passes.libraries.products import panels

N = 320


@pytest.fixture(autouse=True, params=["pairs", "tables", "words", "plain"])
def any_machine(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The rule of thumb holds with AVX-512; kernels are right without, and with each way to unpack values."""
    levels = ["plain", "words", "tables", "pairs"]
    if levels.index(request.param) > levels.index(multiply_quantised.best_way()):
        pytest.skip("this processor lacks the instructions")
    monkeypatch.setattr(panels, "has_vectors", lambda: True)
    monkeypatch.setattr(multiply_quantised, "best_way", lambda: request.param)


def int8(x: Tensor, values: Tensor, scale: Tensor) -> Tensor:
    """A scale for each row, as users write it."""
    return F.linear(x, values.to(x.dtype) * scale[:, None].to(x.dtype))


def torchaos_int8(x: Tensor, values: Tensor, scale: Tensor) -> Tensor:
    """What torchao's Int8WeightOnlyConfig traces to: the product of integers, then the scales."""
    return torch.mm(x, values.t().to(x.dtype)) * scale.to(x.dtype)


def int4(x: Tensor, packed: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Two values in a byte, and a scale and a zero for each group of a row."""
    values = torch.stack([packed & 15, packed >> 4], 2).view(*scale.shape, -1).to(x.dtype)
    return F.linear(x, ((values - zero[:, :, None].to(x.dtype)) * scale[:, :, None].to(x.dtype)).flatten(1))


def around(multiply: Callable[..., Tensor], x: Tensor, *weight: Tensor) -> Tensor:
    return F.silu(multiply(F.relu(x), *weight)) + 1


def check(multiply: Callable[..., Tensor], x: Tensor, *weight: Tensor) -> None:
    """Compares with eager in f64 and, for its rounding, in bf16; no op is called in ATen."""
    compiled = torch.compile(around, backend="cuesta", options={"cache": False}, dynamic=False)
    actual = compiled(multiply, x, *weight)
    exact = around(multiply, x.double(), *(t.double() if t.is_floating_point() else t for t in weight))
    eager = around(multiply, x, *weight)
    eps = torch.finfo(x.dtype).eps
    assert (actual - exact).abs().max() <= 2 * (eager - exact).abs().max() + eps * exact.abs().max()
    (graph,) = cuesta.report().graphs
    assert not graph.aten_calls, cuesta.report()


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("group", [32, 128])
def test_a_few_elements_are_far_larger(rows: int, group: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, 512, generator=generator)
    x[:, 70], x[:, 300:302], x[:, 384:] = 1000.0, 1e6, 0.0
    packed = torch.randint(0, 256, (N, 256), generator=generator, dtype=torch.uint8)
    scale = (torch.rand(N, 512 // group, generator=generator) + 0.5).bfloat16() / 1e6
    check(int4, x.bfloat16(), packed, scale, torch.full_like(scale, 8))


def test_what_is_not_finite_stays_in_its_row() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 256, generator=generator).bfloat16()
    x[0, 9], x[2, 200] = torch.nan, torch.inf
    packed = torch.randint(0, 256, (N, 128), generator=generator, dtype=torch.uint8)
    scale = torch.ones(N, 8).bfloat16() / 64
    zero = torch.full_like(scale, 8)
    actual = torch.compile(int4, backend="cuesta", options={"cache": False}, dynamic=False)(x, packed, scale, zero)
    assert not actual[[0, 2]].isfinite().any()
    exact = int4(x.double(), packed, scale.double(), zero.double())
    torch.testing.assert_close(actual[[1, 3]].double(), exact[[1, 3]], rtol=0.02, atol=0.02)


@pytest.mark.parametrize("multiply", [int8, torchaos_int8])
@pytest.mark.parametrize(("rows", "k"), [(1, 256), (2, 256), (3, 272), (4, 300), (8, 1024), (16, 264)])
def test_bytes(multiply: Callable[..., Tensor], rows: int, k: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, k, generator=generator).bfloat16()
    values = torch.randint(-128, 128, (N, k), generator=generator, dtype=torch.int8)
    check(multiply, x, values, (torch.rand(N, generator=generator) + 0.5) / 64 / k**0.5)


@pytest.mark.parametrize("group", [32, 64, 128, 256])
@pytest.mark.parametrize("rows", [1, 2, 5, 16])
def test_halves_of_bytes_in_groups(rows: int, group: int) -> None:
    k = max(768, 3 * group) + group  # some rows end within what is unpacked at once
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, k, generator=generator).bfloat16()
    packed = torch.randint(0, 256, (N, k // 2), generator=generator, dtype=torch.uint8)
    scale = (torch.rand(N, k // group, generator=generator) + 0.5).bfloat16() / 8 / k**0.5
    zero = torch.randint(0, 16, (N, k // group), generator=generator).bfloat16()
    check(int4, x, packed, scale, zero)


def test_rows_that_another_kernel_makes_are_read_once() -> None:
    """The activation between two layers is neither computed again for each row of the weight, nor is it multiplied by
    the weight in memory."""
    x = torch.randn(4, 256).bfloat16()
    first, second = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((512, 256), (256, 512)))
    scale = torch.rand(512) / 1024

    def layers(x: Tensor) -> Tensor:
        return torchaos_int8(F.silu(torchaos_int8(x, first, scale)), second, scale[:256])

    actual = torch.compile(layers, backend="cuesta", options={"cache": False})(x)
    torch.testing.assert_close(actual, layers(x), rtol=2e-2, atol=2e-2)
    (graph,) = cuesta.report().graphs
    assert graph.arena_bytes < 1 << 16, cuesta.report()


def test_no_number_stays_none() -> None:
    x = torch.randn(2, 256).bfloat16()
    values = torch.randint(-128, 128, (N, 256), dtype=torch.int8)
    x[1, 7] = torch.nan
    actual = torch.compile(int8, backend="cuesta", options={"cache": False})(x, values, torch.ones(N))
    assert actual[1].isnan().all() and not actual[0].isnan().any()
