"""options={"bitwise_eager": True}: the bits of eager's results; and random numbers, which are always eager's.

Every pointwise row is compared for three dtypes; CUESTA_FULL=1 takes all dtypes, and strided operands too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuesta
from cuesta.dialects.cuesta import pointwise
from cuesta.tools.fuzz.graphs.steps import PARAMETERS

pytestmark = pytest.mark.usefixtures("cuesta_only")

SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 0.5, 2.5, -2.5, 20.0, -100.0, 1e-7, 3e38)
WITHOUT_TORCH_NAME: dict[str, Callable[..., Any]] = {
    "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "isfinite": torch.isfinite,
}

#: What models write that is no row of its own.
FORMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "number": lambda x, y: (x + 1.1) * 2.7 - 0.3,
    "number first": lambda x, y: (1.1 - x) / 1.3,
    "reciprocal of a number": lambda x, y: 1.1 / x,
    "chain": lambda x, y: ((x * y + y) * x - y) / x + x,
    "multiple": lambda x, y: torch.add(x, y, alpha=3),
    "addcmul": lambda x, y: torch.addcmul(x, y, x, value=0.5),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "powers": lambda x, y: x**2 + x**3 + x**0.5,
    "clamp": lambda x, y: x.clamp(0, 1) + y.clamp_min(0),
    "where": lambda x, y: torch.where(x > y, x, -1).masked_fill(y > 0, 1.1),
    "softmax": lambda x, y: (x.nan_to_num(1, 1, 1) * y.nan_to_num(1, 1, 1)).softmax(-1),
    "sum": lambda x, y: (x * y).sum(-1) + x.mean(),
    "half": lambda x, y: (x.to(torch.bfloat16) * y.to(torch.bfloat16) + 0.1).to(x.dtype),
    "integers": lambda x, y: (x > 0).to(torch.int64) // 2 + (y > 1).long(),
    "layout": lambda x, y: torch.cat([x.t(), y.t().flip(0)])[::2] + 1,
}


def values(dtype: torch.dtype, seed: int, strided: bool) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    count = 41 * 7
    if dtype == torch.bool:
        x = torch.randint(0, 2, (count,), generator=generator).bool()
    elif dtype.is_floating_point:
        x = (
            torch.randn(count, generator=generator, dtype=torch.float64)
            * torch.tensor([1e-3, 1.0, 100.0]).repeat(99)[:count]
        )
        special = torch.tensor(SPECIAL * 4, dtype=torch.float64)
        x[torch.randperm(count, generator=generator)[: len(special)]] = special
    else:
        x = torch.randint(0 if dtype == torch.uint8 else -100, 100, (count,), generator=generator)
        x = torch.where(x == 0, torch.ones_like(x), x)  # nothing divides by 0
    x = x.to(dtype).view(41, 7)
    return x.t().contiguous().t() if strided else x


def functions(dtype: torch.dtype) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """By name, what eager takes operands of `dtype` for."""
    found: dict[str, Callable[[Tensor, Tensor], Tensor]] = {}

    def offer(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        try:
            function(torch.ones(2, 2, dtype=dtype), torch.ones(2, 2, dtype=dtype))
        except (RuntimeError, TypeError):
            return
        found[name] = function

    def of_row(row: pointwise.Pointwise) -> Callable[[Tensor, Tensor], Tensor]:
        parameters = [PARAMETERS[p] for p in row.params]
        shifts = "shift" in row.name
        return lambda x, y: row.reference(*(x, y % 5 if shifts else y)[: row.arity], *parameters)

    for row in pointwise.ROWS:
        offer(row.name, of_row(row))
    if dtype.is_floating_point:
        for name, form in FORMS.items():
            offer(name, form)
    return found


def bits(x: Tensor) -> Tensor:
    """As integers; every NaN is the same one, as its payload is nobody's promise."""
    if not x.is_floating_point():
        return x
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return torch.where(x.isnan(), torch.full_like(x, math.nan), x).contiguous().view(integer)


CASES = [(dtype, False) for dtype in (torch.float32, torch.bfloat16, torch.int64)]
OTHERS = [
    pytest.param(dtype, strided, marks=pytest.mark.slow)
    for dtype in (
        torch.float32,
        torch.float64,
        torch.bfloat16,
        torch.float16,
        torch.int32,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
    for strided in (True, False)
    if (dtype, strided) not in CASES
]


@pytest.mark.parametrize(("dtype", "strided"), [*CASES, *OTHERS])
def test_every_row_has_the_bits_of_eager(dtype: torch.dtype, strided: bool) -> None:
    x, y = values(dtype, 1, strided), values(dtype, 2, False)
    every = functions(dtype)

    def whole(x: Tensor, y: Tensor) -> list[Tensor]:
        return [function(x, y) for function in every.values()]

    compiled = torch.compile(whole, backend="cuesta", fullgraph=True, options={"bitwise_eager": True})
    wrong = [
        name
        for name, actual, expected in zip(every, compiled(x, y), whole(x, y), strict=True)
        if actual.dtype != expected.dtype or not torch.equal(bits(actual), bits(expected))
    ]
    assert not wrong
    graph = cuesta.report().graphs[-1]
    names = {op for kernel in graph.kernels for op in kernel["ops"]}
    assert {"add", "mul", "eq"} <= names or dtype == torch.bool  # not everything is a call
    assert not names & {"exp", "tanh", "sqrt", "erf"}


def test_a_training_step_has_the_bits_of_eager() -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        return nn.functional.gelu(x * w + 0.5).mul(torch.sigmoid(w)).sub(x.tanh()).square().sum()

    results = []
    for f in (step, torch.compile(step, backend="cuesta", fullgraph=True, options={"bitwise_eager": True})):
        x, w = (values(torch.float32, n, False).nan_to_num(1, 1, 1).clamp(-3, 3).requires_grad_() for n in (1, 2))
        loss = f(x, w)
        loss.backward()
        results.append([loss, x.grad, w.grad])
    for expected, actual in zip(*results, strict=True):
        assert torch.equal(bits(expected), bits(actual))


def draws(x: Tensor) -> list[Tensor]:
    """What draws random numbers, in an order that has to be kept."""
    y = nn.functional.dropout(x, 0.3, True)
    return [
        y,
        torch.rand(3, 5),
        torch.randn_like(x) + y,
        torch.randint(0, 10, (7,)),
        torch.bernoulli(x.sigmoid()),
        torch.empty_like(x).uniform_(1, 2),
        torch.empty_like(x).exponential_(),
        torch.normal(x, 2.0),
        torch.multinomial(x.softmax(-1), 2),
        torch.randperm(13),
        nn.functional.dropout(x.double(), 0.5, True),
        nn.functional.dropout2d(x.expand(2, 3, 41, 7), 0.5, True),
        torch.randn((), dtype=torch.float64) * y.double(),
    ]


@pytest.mark.parametrize("fallback_random", [False, True])
def test_random_numbers_are_those_of_eager(fallback_random: bool) -> None:
    x = torch.randn(41, 7)
    compiled = torch.compile(draws, backend="cuesta", fullgraph=True, options={"fallback_random": fallback_random})
    results, states = [], []
    for f in (draws, compiled):
        torch.manual_seed(7)
        results.append([*f(x), *f(x)])
        states.append(torch.get_rng_state())
    assert torch.equal(*states)
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_dropout_draws_once_for_forward_and_backward() -> None:
    def f(x: Tensor) -> Tensor:
        return nn.functional.dropout(nn.functional.dropout(x, 0.3, True).sin(), 0.5, True).sum()

    gradients = []
    for g in (f, torch.compile(f, backend="cuesta", fullgraph=True)):
        torch.manual_seed(7)
        x = torch.linspace(-1, 1, 99).requires_grad_()
        g(x).backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)
