"""Attention, layer norm and gelu spelled out, as models write them: the same numbers, and one op each."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import cuesta
from cuesta.tools.accuracy import check_close

pytestmark = pytest.mark.usefixtures("cuesta_only")

FLASH = "aten._scaled_dot_product_flash_attention_for_cpu.default"
#: Scores of 24 MiB in f32, where attention as one op pays, also where it needs a mask of 4 MiB.
HEADS, LENGTH, DEPTH = 6, 1024, 16
SIZES = (1, HEADS, LENGTH, DEPTH)


def calls() -> dict[str, int]:
    """How often the last graph calls each overload."""
    return {call["op"]: call["count"] for call in cuesta.report().graphs[-1].aten_calls}


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(DEPTH), -1) @ v


def additive(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = torch.matmul(q * DEPTH**-0.5, k.transpose(-1, -2)) + mask
    return torch.matmul(F.softmax(scores, dim=-1), v)


def filled(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(DEPTH))
    return F.softmax(scores.masked_fill(mask == 0, float("-inf")), dim=-1) @ v


def lowest_where(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(DEPTH)
    lowest = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype)
    return torch.matmul(torch.softmax(torch.where(mask > 0, scores, lowest), -1), v)


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    def repeated(x: Tensor) -> Tensor:
        batch, heads, length, depth = x.shape
        return x[:, :, None].expand(batch, heads, 2, length, depth).reshape(batch, 2 * heads, length, depth)

    weights = torch.matmul(q, repeated(k).transpose(2, 3)) * 0.25
    weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(weights, repeated(v)).transpose(1, 2).contiguous()


def interleaved(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention(q, k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1))


def causal_mask() -> Tensor:
    return torch.tril(torch.ones(LENGTH, LENGTH))[None, None]


def padding() -> Tensor:
    mask = torch.zeros(1, 1, 1, LENGTH)
    mask[..., -100:] = -math.inf
    return mask


def with_empty_rows() -> Tensor:
    mask = causal_mask()
    mask[..., 3, :] = 0
    return mask


def check_values(f: Callable[..., Tensor], *arguments: Tensor) -> None:
    """No further from f64 than eager is, NaN where eager has it, and the same strides."""
    with torch.no_grad():
        expected = f(*arguments)
        exact = f(*(x.double() for x in arguments))
        actual = torch.compile(f, backend="cuesta", fullgraph=True)(*arguments)
    assert torch.equal(actual.isnan(), expected.isnan())
    assert actual.stride() == expected.stride()
    filler = [torch.nan_to_num(x) for x in (actual, expected, exact)]
    check_close({"result": filler[0]}, {"result": filler[1]}, {"result": filler[2]}, what="result")


@pytest.mark.parametrize(
    ("f", "mask", "kernels"),
    [
        (attention, None, 0),
        (additive, padding, 2),
        (filled, causal_mask, 2),
        (filled, with_empty_rows, 2),
        (lowest_where, causal_mask, 1),
        (lowest_where, with_empty_rows, 1),
    ],
    ids=["plain", "additive", "filled", "filled-empty-rows", "lowest", "lowest-empty-rows"],
)
def test_attention_is_one_call(f: Callable[..., Tensor], mask: Callable[[], Tensor] | None, kernels: int) -> None:
    """The kernels are what makes the mask, and what makes NaN of rows that it leaves empty."""
    check_values(f, *(torch.randn(SIZES) for _ in range(3)), *([mask()] if mask else []))
    assert calls() == {FLASH: 1}
    assert cuesta.report().graphs[-1].launches == kernels


def is_one_op(dtype: torch.dtype) -> bool:
    """Whether the last graph's attention is one call; in bf16 it may be a kernel, as the machine has it."""
    return calls() == {FLASH: 1} or (dtype == torch.bfloat16 and not calls())


@pytest.mark.parametrize("f", [grouped, interleaved], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_groups_of_heads_are_not_repeated(f: Callable[..., Tensor], dtype: torch.dtype) -> None:
    q = torch.randn(SIZES, dtype=dtype)
    k, v = (torch.randn(1, HEADS // 2, LENGTH, DEPTH, dtype=dtype) for _ in range(2))
    check_values(f, q, k, v)
    assert is_one_op(dtype)


def test_infinite_scores_are_nan_in_bf16() -> None:
    q, k, v = (torch.randn(1, 2, 32, DEPTH, dtype=torch.bfloat16) for _ in range(3))
    q[0, 1, 5, 0] = math.inf
    check_values(attention, q, k, v)
    assert is_one_op(torch.bfloat16)


def test_small_scores_stay_two_products() -> None:
    check_values(attention, *(torch.randn(1, 2, 32, DEPTH) for _ in range(3)))
    assert calls() == {"aten.bmm.default": 2}


class SelfAttention(nn.Module):
    """As nanoGPT spells it without torch's own attention."""

    mask: Tensor

    def __init__(self, channels: int = HEADS * DEPTH) -> None:
        super().__init__()
        self.inner = nn.Linear(channels, 3 * channels)
        self.outer = nn.Linear(channels, channels)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("mask", causal_mask())

    def forward(self, x: Tensor) -> Tensor:
        batch, length, channels = x.shape
        q, k, v = (
            t.view(batch, length, HEADS, channels // HEADS).transpose(1, 2) for t in self.inner(x).split(channels, 2)
        )
        weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        weights = weights.masked_fill(self.mask[:, :, :length, :length] == 0, -math.inf)
        y = self.dropout(F.softmax(weights, dim=-1)) @ v
        return self.outer(y.transpose(1, 2).contiguous().view(batch, length, channels))


def test_a_module_in_eval() -> None:
    module, x = SelfAttention().eval(), torch.randn(2, LENGTH, HEADS * DEPTH)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(module, backend="cuesta", fullgraph=True)(x), module(x))
    assert calls() == {FLASH: 1, "aten.addmm.default": 2}


def test_training_keeps_the_probabilities_and_says_so() -> None:
    tensors = [torch.randn(1, HEADS, 64, DEPTH, requires_grad=True) for _ in range(3)]
    twins = [t.detach().clone().requires_grad_() for t in tensors]
    attention(*tensors).square().sum().backward()
    torch.compile(attention, backend="cuesta", fullgraph=True)(*twins).square().sum().backward()
    for ours, theirs in zip(twins, tensors, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    forward, _ = cuesta.report().graphs
    assert FLASH not in {call["op"] for call in forward.aten_calls}
    assert any(row["reason"].startswith("no attention") for row in forward.apart)


def norm_by_square(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    return weight * ((x - mean) * torch.rsqrt((x - mean).pow(2).mean(-1, keepdim=True) + 1e-5)) + bias


def norm_by_var(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    var = x.var(-1, keepdim=True, unbiased=False)
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(var + 1e-5) * weight + bias


def gelu_erf(x: Tensor, *_: Tensor) -> Tensor:
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def gelu_pow(x: Tensor, *_: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def gelu_product(x: Tensor, *_: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(x * math.sqrt(2.0 / math.pi) * (1.0 + 0.044715 * x * x)))


@pytest.mark.parametrize(
    ("f", "op"),
    [
        (norm_by_square, "layer_norm"),
        (norm_by_var, "layer_norm"),
        (gelu_erf, "gelu"),
        (gelu_pow, "gelu_tanh"),
        (gelu_product, "gelu_tanh"),
    ],
    ids=["norm-square", "norm-var", "gelu-erf", "gelu-pow", "gelu-product"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_formulas(f: Callable[..., Tensor], op: str, dtype: torch.dtype) -> None:
    check_values(f, *(torch.randn(size, dtype=dtype) for size in ((64, 96), (96,), (96,))))
    (graph,) = cuesta.report().graphs
    (kernel,) = graph.kernels
    assert kernel["uses"] == 1
    assert op in kernel["ops"]


@pytest.mark.parametrize("f", [norm_by_square, norm_by_var, gelu_erf, gelu_pow, gelu_product], ids=lambda f: f.__name__)
def test_gradients_of_formulas(f: Callable[..., Tensor]) -> None:
    arguments = [torch.randn(64, 96, requires_grad=True), *(torch.randn(96, requires_grad=True) for _ in range(2))]
    twins = [t.detach().clone().requires_grad_() for t in arguments]
    f(*arguments).square().sum().backward()
    torch.compile(f, backend="cuesta", fullgraph=True)(*twins).square().sum().backward()
    for ours, theirs in zip(twins, arguments, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)
