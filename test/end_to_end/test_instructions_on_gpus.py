"""What NVIDIA's GPUs compute by instructions of their own, in tt's interpreter (target "tt"): as close as eager."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import cuesta
from cuesta.dialects.tt.instructions import LOGISTIC, OF_FLOATS, ROUND
from cuesta.dialects.tt.interpreter import blocks
from cuesta.passes.gpu import use_instructions
from cuesta.targets import parse_target

Tensor = torch.Tensor


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lets the pass take the interpreter for one of NVIDIA's GPUs; lists what the instructions that run do."""
    found: list[str] = []
    real = dict(blocks.OF_FLOAT)

    def noted(which: str) -> object:
        def compute(*blocks: object) -> object:
            found.append(which)
            return real[which](*blocks)

        return compute

    monkeypatch.setattr(use_instructions, "target_of", lambda module: parse_target("cuda:90"))
    for which in OF_FLOATS.values():
        monkeypatch.setitem(blocks.OF_FLOAT, which, noted(which))
    return found


def block(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """A norm's result in bf16, an activation, and a sum in f32."""
    x = (x.float() * scale + bias).to(x.dtype)
    return (F.silu(x).float() * scale).sum(0)


def test_a_norm_with_silu(used: list[str]) -> None:
    generator = torch.Generator().manual_seed(0)
    x = (4 * torch.randn(512, 96, generator=generator)).bfloat16()
    scale, bias = (torch.randn(96, generator=generator) for _ in range(2))

    def results(function: object, dtype: torch.dtype, narrow: torch.dtype) -> list[Tensor]:
        leaves = [x.to(narrow).requires_grad_(), *(t.to(dtype).requires_grad_() for t in (scale, bias))]
        result = function(*leaves)  # type: ignore[operator]
        result.square().sum().backward()
        return [result.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]

    def wide(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        return (F.silu(x * scale + bias) * scale).sum(0)

    torch._dynamo.reset()
    exact = results(wide, torch.float64, torch.float64)
    eager = results(block, torch.float32, torch.bfloat16)
    made = results(
        torch.compile(block, backend="cuesta", options={"target": "tt", "cache": False}), torch.float32, torch.bfloat16
    )
    for ours, own, true in zip(made, eager, exact, strict=True):
        assert float((ours - true).norm()) <= 1.05 * float((own - true).norm()) + 1e-6 * float(true.norm())
    assert [graph.fallback for graph in cuesta.report().graphs] == [None, None]
    assert {ROUND, LOGISTIC} <= set(used)


@pytest.mark.parametrize("x", [0.0, -0.0, 1.0, -30.0, -87.0, 88.0, -100.0, 100.0, float("inf"), float("-inf")])
def test_the_ends_of_the_logistic_function(x: float) -> None:
    """The interpreter's numbers; the GPU's differ from them by 2^-20 to 2^-18."""
    with np.errstate(over="ignore"):
        (found,) = blocks.OF_FLOAT[LOGISTIC](np.array([x], np.float32))
    assert found == pytest.approx(float(torch.sigmoid(torch.tensor(x))), rel=2**-20, abs=1e-37)


@pytest.mark.parametrize("scale", [1.0, 1e-38, 1e-42, 1e38])
def test_a_quotient_by_a_norm_of_each_row(used: list[str], scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiplied by the norm's reciprocal, also where that is too large for f32."""
    taken, real = [], use_instructions._reciprocals
    monkeypatch.setattr(use_instructions, "_reciprocals", lambda divisor: taken.append(divisor) or real(divisor))
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(512, 16, generator=generator) * scale
    norm = x.abs().amax(1, keepdim=True)
    norm[0] = 0

    def quotient(x: Tensor, norm: Tensor) -> Tensor:
        return (x / norm * 0.5).bfloat16()

    torch._dynamo.reset()
    made = torch.compile(quotient, backend="cuesta", options={"target": "tt", "cache": False})(x, norm)
    torch.testing.assert_close(made, quotient(x, norm), rtol=2**-8, atol=1e-6, equal_nan=True)
    assert len(taken) == 1


@pytest.mark.parametrize("scale", [1.0, 1e-38, 1e-42, 1e38])
def test_a_quotient_that_is_rounded_once(used: list[str], scale: float) -> None:
    """A product by the reciprocal of each row's number, corrected by the remainder, is what eager divides."""
    generator = torch.Generator().manual_seed(0)
    x, of_row = torch.randn(512, 16, generator=generator), torch.randn(512, 1, generator=generator) * scale
    x[0], x[1, :4], of_row[1:4, 0] = 0, torch.tensor([-0.0, 1, float("inf"), float("nan")]), torch.tensor([1, 0, 3e38])

    def quotient(x: Tensor, of_row: Tensor) -> Tensor:
        return x / of_row

    torch._dynamo.reset()
    made = torch.compile(quotient, backend="cuesta", options={"target": "tt", "cache": False})(x, of_row)
    torch.testing.assert_close(made, quotient(x, of_row), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(made.signbit(), quotient(x, of_row).signbit())
