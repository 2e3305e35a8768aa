"""What eager refuses for its element type is refused in eager's words, whatever a kernel of ours would compute."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta

REFUSED: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "batch_norm": lambda x: F.batch_norm(x, x[0], x[0], training=False),
    "gelu": F.gelu,
    "hardswish": F.hardswish,
    "hypot": lambda x: torch.hypot(x, x),
    "nextafter": lambda x: torch.nextafter(x, x),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "var": lambda x: x.var(),
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool1d(x, 2),
    "adaptive_max_pool": lambda x: F.adaptive_max_pool1d(x, 2),
    "nll_loss": lambda x: F.nll_loss(x, x[:, 0].long() % 3, ignore_index=0, reduction="sum"),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
@pytest.mark.parametrize("function", REFUSED.values(), ids=list(REFUSED))
def test_integers(function: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    _refuses(function, torch.arange(12).reshape(4, 3).to(dtype))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm"])
def test_floats(name: str) -> None:
    op = getattr(torch, name)
    _refuses(lambda x: op(x, x), torch.randn(4, 3))


def test_float8() -> None:
    _refuses(torch.exp, torch.randn(4).to(torch.float8_e5m2))


OF_BOOL: dict[str, Callable[[Tensor], Tensor]] = {
    "abs": torch.abs,
    "floor": torch.floor,
    "cumsum": lambda x: x.cumsum(0, dtype=torch.bool),
    "fmod": lambda x: torch.fmod(x, x),
    "pow": lambda x: x**x,
    "clamp": lambda x: x.clamp(x, x),
    "argmax": torch.argmax,
    "topk": lambda x: x.topk(2).values,
    "matmul": lambda x: x @ x.T,
    "max_pool2d": lambda x: F.max_pool2d(x[None], 2),
    "reflect": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "sub": lambda x: x.float() - x,
    "rsub": lambda x: 1.0 - x,
    "tanhshrink": F.tanhshrink,
    "glu": lambda x: F.glu(x, 0),
    "trace": torch.trace,
}


@pytest.mark.parametrize("function", OF_BOOL.values(), ids=list(OF_BOOL))
def test_bool(function: Callable[[Tensor], Tensor]) -> None:
    _refuses(function, torch.ones(4, 3, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "function",
    [torch.special.erfcx, torch.special.log_ndtr, lambda x: torch.pdist(x[0]), lambda x: F.avg_pool3d(x[None], 1)],
    ids=["erfcx", "log_ndtr", "pdist", "avg_pool3d"],
)
def test_halves(function: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    _refuses(function, torch.randn(2, 4, 3).to(dtype))


def test_complex() -> None:
    _refuses(lambda x: F.mse_loss(x, x), torch.randn(3, dtype=torch.complex64))


def test_what_eager_takes_of_those_types_is_compiled() -> None:
    mask, count = torch.tensor([True, False, True]), torch.arange(3)

    def function(mask: Tensor, count: Tensor) -> tuple[Tensor, ...]:
        return mask.cumsum(0), torch.fmod(mask, count + 1), mask.clamp(min=count), F.smooth_l1_loss(count, count / 2.0)

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    torch.testing.assert_close(compiled(mask, count), function(mask, count))
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert graph["aten_calls"] == []


def test_what_is_refused_leaves_the_rest_compiled() -> None:
    compiled = torch.compile(lambda x: (x * 2 + 1, x.softmax(-1)), backend="cuesta", fullgraph=True)
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        compiled(torch.arange(12).reshape(4, 3))
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert len(graph["kernels"]) == 1
    (call,) = graph["aten_calls"]
    assert "integer" in call["reason"]


def _refuses(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    with pytest.raises(RuntimeError) as eager:
        function(x)
    with pytest.raises(RuntimeError) as compiled:
        torch.compile(function, backend="cuesta", fullgraph=True)(x)
    assert str(eager.value) in str(compiled.value)
