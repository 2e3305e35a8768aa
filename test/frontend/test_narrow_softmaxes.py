"""Gradients of a softmax in f32 read its result in bf16, which the product's gradient keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import cuesta

HEADS, ROWS, DIM = 4, 64, 8
SCORES = HEADS * ROWS * ROWS
#: Bytes of what else a step saves: factors, and a row's numbers.
REST = 14 * HEADS * ROWS * DIM

Attention = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def scores(q: Tensor, k: Tensor, bias: Tensor) -> Tensor:
    return (q.bfloat16() @ k.bfloat16().transpose(-1, -2)) * 0.3 + bias.bfloat16()


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    return (torch.softmax(scores(q, k, bias).float(), -1).bfloat16() @ v.bfloat16()).float()


def copied(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Views and copies lie between the softmax and what the product reads."""
    y = torch.softmax(scores(q, k, bias).float(), -1).view(2, HEADS // 2, ROWS, ROWS).clone()
    return (y.view(HEADS, ROWS, ROWS).bfloat16() @ v.bfloat16()).float()


def merged(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Biases that differ along one of two dims, which are one in the softmax."""
    made = (q.bfloat16() @ k.bfloat16().transpose(-1, -2)).view(2, HEADS // 2, ROWS, ROWS)
    made = made + torch.stack([bias, 0.5 * bias]).view(2, 1, 1, ROWS).bfloat16()
    return (torch.softmax(made.view(HEADS, ROWS, ROWS).float(), -1).bfloat16() @ v.bfloat16()).float()


def viewed(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Views in another order lie between, as `einsum` makes them."""
    y = torch.softmax(scores(q, k, bias).float(), -1).unsqueeze(-1).permute(1, 0, 3, 2)
    return (y.permute(1, 0, 2, 3).view(HEADS, ROWS, ROWS).bfloat16() @ v.bfloat16()).float()


def turned(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """The product reads the probabilities in another order than the gradient does."""
    y = torch.softmax(scores(q, k, bias).float(), -1).transpose(-1, -2).contiguous()
    return (y.bfloat16() @ v.bfloat16()).float()


def dropped(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    kept = torch.nn.functional.dropout(torch.softmax(scores(q, k, bias).float(), -1), 0.5)
    return (kept.bfloat16() @ v.bfloat16()).float()


def in_f16(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    return (torch.softmax(scores(q, k, bias).float(), -1).half() @ v.half()).float()


def read_wide(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    y = torch.softmax(scores(q, k, bias).float(), -1)
    return (y.bfloat16() @ v.bfloat16()).float() + y @ v


def checkpointed(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    result: Tensor = checkpoint(attention, q, k, v, bias, use_reentrant=False)
    return result


def inputs(shift: float = 0.0) -> list[Tensor]:
    torch.manual_seed(0)
    q, k, v = (torch.randn(HEADS, ROWS, DIM) for _ in range(3))
    return [*(x.requires_grad_() for x in (q, k, v + shift)), torch.where(torch.rand(1, 1, ROWS) < 0.2, -1e5, 0.0)]


def gradients(function: Attention, values: list[Tensor]) -> list[Tensor]:
    weights = torch.linspace(-1, 1, HEADS * ROWS * DIM, dtype=values[0].dtype).view(HEADS, ROWS, DIM)
    return list(torch.autograd.grad((function(*values) * weights).sum(), values[:3]))


def compiled(function: Attention, target: str = "tt", **options: object) -> Attention:
    chosen = options if target == "cpu" else {"target": target, **options}
    made: Attention = torch.compile(function, backend="cuesta", options=chosen, dynamic=False)
    return made


def kept_bytes() -> int:
    forward, _ = cuesta.report().graphs[-2:]
    assert forward.name == "forward"
    return forward.kept_bytes


def exact(values: list[Tensor]) -> list[Tensor]:
    """Gradients of `attention` in f64, of the numbers in bf16 that the products read."""
    q, k, v = (x.detach().bfloat16().double().requires_grad_() for x in values[:3])
    weights = torch.linspace(-1, 1, HEADS * ROWS * DIM).view(HEADS, ROWS, DIM).bfloat16().double()
    y = torch.softmax((q @ k.transpose(-1, -2)) * 0.3 + values[3].double(), -1)
    return list(torch.autograd.grad((y @ v * weights).sum(), [q, k, v]))


@pytest.mark.parametrize("shift", [0.0, 10.0])
def test_errors_are_like_eagers(shift: float) -> None:
    """Also where all values are shifted, so that each row of the probabilities' gradient is: the shift cancels."""
    values = inputs(shift)
    ours, eager, right = gradients(compiled(attention), values), gradients(attention, values), exact(values)
    for mine, other, one in zip(ours, eager, right, strict=True):
        assert (mine - one).norm() <= 1.2 * (other - one).norm()


@pytest.mark.parametrize("function", [attention, copied, viewed, merged])
def test_probabilities_are_saved_once(function: Attention) -> None:
    values = inputs()
    for ours, eager in zip(gradients(compiled(function), values), gradients(function, values), strict=True):
        assert torch.allclose(ours, eager, rtol=0.05, atol=0.05)
    assert kept_bytes() <= 2 * SCORES + REST


def test_the_bias_is_added_by_the_softmaxs_kernel() -> None:
    gradients(compiled(merged), inputs())
    forward = cuesta.report().graphs[-2]
    assert any({"add", "_softmax"} <= set(kernel["ops"]) for kernel in forward.kernels)


@pytest.mark.parametrize(
    ("function", "target"),
    [(turned, "tt"), (dropped, "tt"), (in_f16, "tt"), (read_wide, "tt"), (attention, "cpu")],
)
def test_another_value_is_saved_too(function: Attention, target: str) -> None:
    """Where the narrow copy is another tensor or has fewer exponents, where the wide one is read, and on a CPU."""
    gradients(compiled(function, target), inputs())
    assert kept_bytes() >= 4 * SCORES


def test_eagers_bits_need_the_wide_result() -> None:
    gradients(compiled(attention, bitwise_eager=True), inputs())
    assert kept_bytes() >= 6 * SCORES


def test_a_checkpoint_saves_no_probabilities() -> None:
    gradients(compiled(checkpointed), inputs())
    assert kept_bytes() <= REST
