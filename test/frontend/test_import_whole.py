"""Import rules of indexing, norms, losses, contractions and attention, with their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

aten = torch.ops.aten
Check = Callable[..., Any]


def floats(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


X, CUBE = floats(4, 6), floats(2, 3, 4)
AT, AT2 = torch.tensor([0, 3, -1, 2]), torch.tensor([[0, 1], [-2, 3]])
POSITIONS = torch.tensor([[0, 1], [2, 5], [3, 3], [4, 0]])
ROW, BIAS = floats(6).abs() + 1, floats(6).flip(0)
CLASSES = torch.tensor([0, 5, 2, -100])
A, B = floats(4, 5), floats(5, 3)
BATCH_A, BATCH_B = floats(2, 4, 5), floats(2, 5, 3)
IMAGE, FILTER = floats(2, 4, 6, 6), floats(6, 4, 3, 3)
MASK = floats(4, 5)
Q, K, V = floats(2, 3, 4, 8), floats(2, 3, 5, 8), floats(2, 3, 5, 8).flip(0)

sdpa = F.scaled_dot_product_attention

CASES: dict[str, tuple[Any, ...]] = {
    "embedding": (lambda w, i: (F.embedding(i, w), F.embedding(i, w, padding_idx=1)), X, AT2.abs()),
    "index_select": (lambda x, i: (x.index_select(1, i), x.index_select(-2, i)), X, torch.tensor([3, 0, 2])),
    "index": (lambda x, i: (x[i], x[:, i], x[i, i]), X, AT),
    "index by a matrix": (lambda x, i: x[i], X, AT2),
    "indices broadcast": (lambda x, i, j: (x[i, j[:2]], x[j[:, None], j]), X, AT2, AT),
    "adjacent indices": (lambda x, i, j: x[:, i, j], CUBE, torch.tensor([0, -1]), torch.tensor([3, 1])),
    "separated indices": (lambda x, i, j: x[i, :, j], CUBE, torch.tensor([0, -1]), torch.tensor([3, 1])),
    "int32 indices": (lambda x, i: x[i], X, AT.int()),
    "indices from ranges": (lambda x, i: (x[torch.arange(2)], x[torch.arange(4), i], x[[0, 2]]), X, AT),
    "index of narrow types": (lambda x, i: (x.bfloat16()[i], (x > 0)[i], x.byte()[i]), X.abs(), AT),
    "gather": (lambda x, i: (x.gather(1, i), x.gather(1, i[:2])), X, POSITIONS),
    "gather over fewer rows": (lambda x, i: x.gather(0, i), X, torch.tensor([[0, 1, 3], [2, 3, 0]])),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 1), X, POSITIONS[:, :1]),
    "scatter of one": (
        lambda x, i, v: (x.scatter(1, i, 2.5), x.scatter(-1, i, v), x.t().scatter(0, i.t(), v.t())),
        X,
        POSITIONS[:, :1],
        floats(5, 3),
    ),
    "scatter of more": (lambda x, i: (x.scatter(1, i, 1.0), x.scatter(1, i[:2, :1], 1.0)), X, POSITIONS),
    "scatter of ints": (lambda x, i: x.scatter(1, i, -1), X.long(), POSITIONS[:, :1]),
    "softmax with a dtype": (lambda x: F.softmax(x, -1, dtype=torch.float32), X.bfloat16()),
    "softmax of ints": (lambda x: F.softmax(x, -1, dtype=torch.float32), AT2),
    "log_softmax with a dtype": (lambda x: F.log_softmax(x, -1, dtype=torch.float64), X),
    "softmax_backward": (lambda g, y: aten._softmax_backward_data(g, y, -1, torch.float32), X, X.softmax(-1)),
    "layer_norm": (lambda x, w, b: aten.native_layer_norm(x, [6], w, b, 1e-5), X, ROW, BIAS),
    "layer_norm, bare": (lambda x: aten.native_layer_norm(x, [6], None, None, 1e-5), X),
    "layer_norm, no bias": (lambda x, w: F.layer_norm(x, [6], w), X, ROW),
    "layer_norm over all dims": (lambda x, w, b: F.layer_norm(x, [4, 6], w, b), X, X + 1, X.flip(0)),
    "layer_norm of bf16": (lambda x, w, b: F.layer_norm(x, [6], w.bfloat16(), b.bfloat16()), X.bfloat16(), ROW, BIAS),
    "layer_norm of bf16, f32 weights": (lambda x, w, b: F.layer_norm(x, [6], w, b), X.bfloat16(), ROW, BIAS),
    "group_norm": (
        lambda x, w, b: (F.group_norm(x, 2, w, b), F.group_norm(x, 4), F.group_norm(x.bfloat16(), 1)),
        IMAGE,
        ROW[:4].clone(),
        BIAS[:4].clone(),
    ),
    "rms_norm": (lambda x, w: F.rms_norm(x, (6,), w), X, ROW),
    "nll_loss": (lambda x, t: [F.nll_loss(x, t, reduction=r) for r in ("none", "mean", "sum")], X, CLASSES),
    "nll_loss_forward": (lambda x, t: [aten.nll_loss_forward(x, t, None, r, -100) for r in (0, 1, 2)], X, CLASSES),
    "nll_loss, all ignored": (lambda x, t: F.nll_loss(x, t), X, CLASSES * 0 - 100),
    "nll_loss ignores a class": (lambda x, t: F.nll_loss(x, t, ignore_index=2), X, CLASSES.clamp(min=0)),
    "nll_loss of one sample": (lambda x, t: F.nll_loss(x, t), X[0], CLASSES[1]),
    "cross_entropy": (F.cross_entropy, X, CLASSES),
    "cross_entropy of bf16": (F.cross_entropy, X.bfloat16(), CLASSES),
    "cross_entropy, smoothed": (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), X, CLASSES),
    "mm": (lambda a, b: (a @ b, a.bfloat16() @ b.bfloat16(), a.long() @ b.long()), A, B),
    "products with vectors": (
        lambda a, v, c: [
            (
                torch.mv(a, v),
                torch.dot(v, v),
                torch.vdot(v, v),
                torch.addmv(c, a, v, beta=2, alpha=3),
                torch.addmv(c, a, v, beta=0),
                torch.addmv(c[:1], a.t().contiguous().t(), v),
            )
            for a, v, c in ((a, v, c), (a.bfloat16(), v.bfloat16(), c.bfloat16()))
        ],
        A.long(),
        B[:, 0].long(),
        torch.arange(4),
    ),
    "mm of views": (lambda a, b: b.t() @ a.t(), A, B),
    "bmm": (lambda a, b: (a @ b, torch.einsum("bij,bjk->bik", a, b), a @ b[0]), BATCH_A, BATCH_B),
    "addmm": (lambda c, a, b: (torch.addmm(c, a, b), torch.addmm(c, a, b, beta=0.5, alpha=2)), floats(3), A, B),
    "addmm that drops its bias": (lambda c, a, b: torch.addmm(c, a, b, beta=0), torch.full((3,), math.nan), A, B),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), floats(1, 4, 1), BATCH_A, BATCH_B),
    "linear": (lambda x, w, b: (F.linear(x, w, b), F.linear(x, w)), BATCH_A, floats(3, 5), floats(3)),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), IMAGE, FILTER, floats(6)),
    "conv2d, strided": (lambda x, w: F.conv2d(x, w, stride=2, dilation=2), IMAGE, FILTER),
    "conv2d, grouped": (lambda x, w: F.conv2d(x, w, groups=2), IMAGE, floats(6, 2, 3, 3)),
    "conv1d": (F.conv1d, floats(2, 4, 6), floats(3, 4, 2), floats(3)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2, output_padding=1), IMAGE, floats(4, 3, 3, 3)),
    "conv2d, channels last": (lambda x, w: F.conv2d(x.to(memory_format=torch.channels_last), w), IMAGE, FILTER),
    "attention": (lambda q, k, v: (sdpa(q, k, v), sdpa(q, k, v, is_causal=True), sdpa(q, k, v, scale=0.3)), Q, K, V),
    "attention with a mask": (sdpa, Q, K, V, MASK),
    "attention with a boolean mask": (sdpa, Q, K, V, floats(2, 1, 4, 5) > -1),
    "grouped queries": (lambda q, k, v: sdpa(q, k[:, :1], v[:, :1], enable_gqa=True), Q, K, V),
    "attention of bf16": (lambda q, k, v: sdpa(q.bfloat16(), k.bfloat16(), v.bfloat16()), Q, K, V),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_case(case: tuple[Any, ...], matches_eager: Check) -> None:
    matches_eager(*case)


INFINITE = torch.tensor([[-math.inf] * 3, [math.inf, 1, 2], [math.nan, 1, 2]])


@pytest.mark.parametrize("x", [X, X.bfloat16(), X[:, :1], INFINITE], ids=["f32", "bf16", "1 column", "special"])
def test_softmax(x: torch.Tensor, matches_eager: Check) -> None:
    run = matches_eager(lambda x: (F.softmax(x, -1), F.softmax(x, 0), F.log_softmax(x, 1)), x)
    assert run.ops() == ["cuesta.softmax", "cuesta.softmax", "cuesta.log_softmax"]


SCALARS: dict[str, tuple[Any, ...]] = {
    "softmax": (lambda x: (F.softmax(x, 0), F.log_softmax(x, -1), x.logsumexp(0)), X[0, 0].clone()),
    "softmax backward": (
        lambda g, y: (
            aten._softmax_backward_data(g, y, 0, torch.float32),
            aten._log_softmax_backward_data(g, y, 0, torch.float32),
        ),
        X[0, 0].clone(),
        torch.tensor(1.0),
    ),
    "index_select": (lambda x, i: (x[0, 0].index_select(0, i[:1] * 0), x.index_select(1, i[0])), X, AT2[0]),
    "gather": (lambda x, i: (x[0, 0].gather(0, i[0] * 0), x[0].gather(0, i[0])), X, AT2[0]),
    "made of nothing": (lambda x: (aten.narrow_copy(x, 1, 2, 3), aten._efficientzerotensor([2, 3]) + x[:2, :3]), X),
}


@pytest.mark.parametrize("case", SCALARS.values(), ids=SCALARS.keys())
def test_scalars(case: tuple[Any, ...], matches_eager: Check) -> None:
    assert "aten.call" not in matches_eager(*case).ops()


def test_safe_softmax(matches_eager: Check) -> None:
    matches_eager(lambda x: aten._safe_softmax(x, -1), INFINITE)


TRAINED: dict[str, tuple[Any, ...]] = {
    "softmax": (lambda x: F.softmax(x, -1).square(), X),
    "log_softmax": (lambda x: F.log_softmax(x, 0).square(), X),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, [6], w, b).square(), X, ROW, BIAS),
    "layer_norm over all dims": (lambda x, w, b: F.layer_norm(x, [4, 6], w, b).square(), X, X + 1, X.flip(0)),
    "layer_norm, no bias": (lambda x, w: F.layer_norm(x, [6], w).square(), X, ROW),
    "layer_norm of bf16": (
        lambda x, w, b: F.layer_norm(x, [6], w, b).square(), X.bfloat16(), ROW.bfloat16(), BIAS.bfloat16(),
    ),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b).square(), IMAGE, ROW[:4].clone(), BIAS[:4].clone()),
    "group_norm, bare": (lambda x: F.group_norm(x, 4).square(), IMAGE),
    "group_norm of the weight alone": (lambda w: F.group_norm(IMAGE, 1, w).square(), ROW[:4].clone()),
    "group_norm of bf16": (lambda x: F.group_norm(x, 2).square(), IMAGE.bfloat16()),
    "cross_entropy": (lambda x: F.cross_entropy(x, CLASSES), X),
    "cross_entropy, none": (lambda x: F.cross_entropy(x, CLASSES, reduction="none").square(), X),
    "cross_entropy, sum": (lambda x: F.cross_entropy(x, CLASSES, reduction="sum"), X),
    "attention": (lambda q, k, v: sdpa(q, k, v, is_causal=True).square(), Q, K, V),
    "attention with a mask": (lambda q, k, v: sdpa(q, k, v, MASK).square(), Q, K, V),
    "embedding": (lambda w: F.embedding(AT2.abs(), w).square(), X),
    "index": (lambda x: x[AT].square(), X),
    "slices": (lambda x: torch.cat([x[:, 1:3], x[:, -1:], x[:, ::2]], 1).square() + x[:, 2:3].sum(), X),
    "selections": (lambda x: x[1].square().sum() + x[:, -1].exp(), X),
    "pad": (lambda x: F.pad(x, (1, -2, 1, 0)).square(), X),
    "activations": (lambda x: F.gelu(x) + F.silu(x) + F.relu(x) + torch.tanh(x) + torch.sigmoid(x), X),
    "linear": (lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"), X, floats(3, 6), floats(3)),
    "conv2d": (lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)), IMAGE, FILTER, floats(6)),
    "reductions": (lambda x: x.amax(1) * x.mean(0).sum() + x.var(1) + x.logsumexp(1), X),
    "extremes": (lambda x: x.max(1).values + x.min(), X),
}  # fmt: skip


@pytest.mark.parametrize("case", TRAINED.values(), ids=TRAINED.keys())
def test_gradient(case: tuple[Any, ...], capture: Any) -> None:
    function, *inputs = case

    def gradients(compiled: Callable[..., Any]) -> list[torch.Tensor]:
        leaves = [x.detach().clone().requires_grad_() for x in inputs]
        result = compiled(*leaves)
        result.sum().backward()
        return [result.detach(), *(x.grad for x in leaves if x.grad is not None)]

    expected = gradients(function)
    actual = gradients(capture.compile(function))
    assert len(capture.runs) == 2  # forward and backward
    torch.testing.assert_close(actual, expected)
