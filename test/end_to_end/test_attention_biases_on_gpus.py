"""Gradients of biases that are added to all images' scores, summed over images, in the interpreter of tt."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuesta.passes.graph import cut_rows


@pytest.mark.parametrize("shape", [(64, 4, 49, 49), (128, 8, 49, 49), (32, 4, 128, 196), (40, 2, 256, 64)])
def test_gradients(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    """Few rows for each image, whose sums are cut into parts of images."""
    found = []
    cut_of_few = cut_rows._cut_of_few

    def cut(*arguments: object) -> object:
        found.append(cut_of_few(*arguments))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(cut_rows, "_cut_of_few", cut)
    torch.manual_seed(0)
    scores = torch.randn(shape, dtype=torch.bfloat16, requires_grad=True)
    bias = torch.randn(shape[1:], requires_grad=True)
    weights = torch.randn(shape)

    def loss(scores: Tensor, bias: Tensor, weights: Tensor) -> Tensor:
        return ((scores + bias).softmax(-1) * weights).sum()

    compiled = torch.compile(loss, backend="cuesta", options={"target": "tt", "cache": False})
    actual = torch.autograd.grad(compiled(scores, bias, weights), (scores, bias))
    assert any(found)
    exact = torch.autograd.grad(loss(scores.double(), bias.double(), weights.double()), (scores, bias))
    torch.testing.assert_close(actual[1], exact[1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(actual[0], exact[0])
