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


def test_what_is_refused_leaves_the_rest_compiled() -> None:
    compiled = torch.compile(lambda x: (x * 2 + 1, x.softmax(-1)), backend="cuesta", fullgraph=True)
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        compiled(torch.arange(12).reshape(4, 3))
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert len(graph["kernels"]) == 1
    assert [call["reason"] for call in graph["aten_calls"]] == ["of integers, which ATen refuses"]


def _refuses(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    with pytest.raises(RuntimeError) as eager:
        function(x)
    with pytest.raises(RuntimeError) as compiled:
        torch.compile(function, backend="cuesta", fullgraph=True)(x)
    assert str(eager.value) in str(compiled.value)
