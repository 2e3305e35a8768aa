"""What goes into a compiled function and what comes out: layouts, dtypes, aliases, mutation, missing gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

Check = Callable[..., Any]

LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: torch.randn(2, 3, 4, 5),
    "transposed": lambda: torch.randn(5, 4, 3, 2).permute(3, 2, 1, 0),
    "channels_last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "expanded": lambda: torch.randn(2, 1, 4, 1).expand(2, 3, 4, 5),
    "every_second": lambda: torch.randn(2, 3, 4, 10)[..., ::2],
    "with_an_offset": lambda: torch.randn(3, 4, 5, 6)[1:, 1:, 1:, 1:],
    "scalar": lambda: torch.randn(()),
    "one_element": lambda: torch.randn(1, 1),
    "no_elements": lambda: torch.randn(2, 0, 4),
    "long_and_odd": lambda: torch.randn(7, 1031),
}
LAYOUT = pytest.mark.parametrize("layout", LAYOUTS)


@LAYOUT
def test_pointwise_keeps_the_layout(layout: str, same_as_eager: Check) -> None:
    same_as_eager(lambda x: torch.relu(x) * 2 + 1, LAYOUTS[layout]())


@LAYOUT
def test_reductions_of_a_layout(layout: str, same_as_eager: Check) -> None:
    same_as_eager(lambda x: (x.sum(), x.mean(-1 if x.dim() else None), torch.softmax(x, -1)), LAYOUTS[layout]())


@LAYOUT
def test_gradients_of_a_layout(layout: str, backend: str) -> None:
    def scaled(x: Tensor) -> Tensor:
        return torch.tanh(x) * x

    ours = LAYOUTS[layout]().requires_grad_()
    theirs = ours.detach().requires_grad_()
    torch.compile(scaled, backend=backend, fullgraph=True)(ours).sum().backward()
    scaled(theirs).sum().backward()
    assert ours.grad is not None
    assert_close(ours.grad, theirs.grad, check_stride=True)


def test_convolution_keeps_channels_last(same_as_eager: Check) -> None:
    weight = torch.randn(8, 3, 3, 3)
    image = torch.randn(2, 3, 9, 9).to(memory_format=torch.channels_last)
    same_as_eager(lambda x, w: torch.relu(nn.functional.conv2d(x, w, padding=1)), image, weight)


FLOATING = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGER = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_floating_dtypes(dtype: torch.dtype, same_as_eager: Check) -> None:
    # One operation a result: eager rounds to the dtype after each, fused code may keep float32 between two.
    same_as_eager(
        lambda x, y: (x + y, x * 2.5, torch.exp(x), torch.maximum(x, y), x > y, x.sum(1), x.float(), x.to(torch.int32)),
        torch.randn(8, 33).to(dtype),
        torch.randn(8, 33).to(dtype),
    )


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_matrix_products_of_floating_dtypes(dtype: torch.dtype, same_as_eager: Check) -> None:
    same_as_eager(lambda x, w: x @ w, torch.randn(8, 16).to(dtype), torch.randn(16, 24).to(dtype))


@pytest.mark.parametrize("dtype", INTEGER, ids=str)
def test_integer_dtypes(dtype: torch.dtype, same_as_eager: Check) -> None:
    same_as_eager(
        lambda x, y: (x + y, x * 3, x // y, x % y, x & y, x ^ 5, x == y, x.sum(), x / y, x.float(), x.amax(1)),
        torch.randint(0, 100, (8, 33), dtype=dtype),
        torch.randint(1, 10, (8, 33), dtype=dtype),
    )


def test_signed_division(same_as_eager: Check) -> None:
    numerator, denominator = torch.arange(-9, 10).repeat(2), torch.tensor([4] * 19 + [-4] * 19)
    same_as_eager(
        lambda x, y: (x // y, x % y, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y)), numerator, denominator
    )


def test_rows_of_a_small_softmax(same_as_eager: Check) -> None:
    """LLVM mixed them up at its highest level."""
    same_as_eager(lambda x: torch.log_softmax(x.float(), 1), torch.rand(16, 3) > 0.5)


def test_bool(same_as_eager: Check) -> None:
    x, y = torch.rand(8, 33) < 0.5, torch.rand(8, 33) < 0.5
    same_as_eager(
        lambda x, y: (x & y, x | y, ~x, x ^ y, x.sum(), x.any(1), x.all(), torch.where(x, 1.5, y), x + y), x, y
    )


@pytest.mark.parametrize("other", [torch.int64, torch.bool, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_promotion(other: torch.dtype, same_as_eager: Check) -> None:
    x, y = torch.randn(5, 7), torch.randint(0, 2, (5, 7)).to(other)
    same_as_eager(lambda x, y: (x + y, y * 2, y + 0.5, y / 3, x + y[0, 0], torch.where(x > 0, x, y)), x, y)


def test_complex(same_as_eager: Check) -> None:
    x = torch.randn(4, 5, dtype=torch.complex64)
    same_as_eager(lambda x: (x * x + 1j, x.abs(), x.real, x.sum()), x)


def test_nan_and_infinity_come_through(same_as_eager: Check) -> None:
    x = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-45, -1e38, 1e38, 90.0, -110.0])
    same_as_eager(
        lambda x: (
            *(f(x) for f in (torch.exp, torch.tanh, torch.erf, torch.log, torch.sqrt, torch.rsqrt, torch.relu)),
            *(f(x) for f in (torch.sigmoid, torch.isnan, torch.isinf, torch.sum, torch.amax)),
            # Eager's own gelu makes NaN of +inf (and the formula of -inf), so it is compared on the rest.
            nn.functional.gelu(x[3:]),
            *(f(x[3:6]) for f in (torch.sin, torch.cos, torch.reciprocal)),
            torch.maximum(x, x.flip(0)),
            x.clamp(-1, 1),
            torch.softmax(x[3:], 0),
        ),
        x,
    )


# Calls ------------------------------------------------------------------------------------------------------------


def test_results_of_two_calls_are_apart(backend: str) -> None:
    """A kept arena must not show: what one call returned is not touched by the next."""
    compiled = torch.compile(lambda x: (torch.softmax(x, -1), (x * 2).sum(0)), backend=backend)
    inputs = [torch.randn(16, 32) for _ in range(3)]
    results = [compiled(x) for x in inputs]
    for x, (softmax, total) in zip(inputs, results, strict=True):
        assert_close(softmax, torch.softmax(x, -1))
        assert_close(total, (x * 2).sum(0))


def test_a_constant_result_is_fresh_in_each_call(backend: str) -> None:
    compiled = torch.compile(lambda x: (torch.ones(3), x + 1), backend=backend)
    compiled(torch.zeros(2))[0].add_(5)
    assert_close(compiled(torch.zeros(2))[0], torch.ones(3))


# Mutation --------------------------------------------------------------------------------------------------------


def add_one(x: Tensor) -> None:
    x.add_(1)


def write_a_row(x: Tensor) -> Tensor:
    x[1] = 7.0
    return x * 2


def write_through_a_view(x: Tensor) -> Tensor:
    x.t()[0].mul_(3)
    return x.sum()


def write_and_return(x: Tensor) -> tuple[Tensor, Tensor]:
    x.copy_(torch.sin(x))
    return x, x.view(-1)


def read_then_write(x: Tensor) -> Tensor:
    y = x + 1
    x.zero_()
    return y


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "every_second", "channels_last"])
@pytest.mark.parametrize("f", [add_one, write_a_row, read_then_write], ids=lambda f: f.__name__)
def test_writes_to_an_input(f: Callable[[Tensor], Any], layout: str, same_as_eager: Check) -> None:
    same_as_eager(f, LAYOUTS[layout]())


@pytest.mark.parametrize("f", [write_through_a_view, write_and_return], ids=lambda f: f.__name__)
def test_writes_through_views(f: Callable[[Tensor], Any], same_as_eager: Check) -> None:
    same_as_eager(f, torch.randn(4, 6))


def test_writes_to_a_view_of_a_larger_tensor(backend: str) -> None:
    base = torch.zeros(4, 6)
    torch.compile(add_one, backend=backend)(base[1:3, ::2])
    expected = torch.zeros(4, 6)
    expected[1:3, ::2] = 1
    assert_close(base, expected)


def test_one_tensor_as_two_inputs(same_as_eager: Check) -> None:
    def write_first(a: Tensor, b: Tensor) -> Tensor:
        a.add_(1)
        return a * b

    x = torch.randn(5)
    same_as_eager(write_first, x, x)


def test_inputs_that_overlap(same_as_eager: Check) -> None:
    def write_first(a: Tensor, b: Tensor) -> Tensor:
        a.mul_(2)
        return b + 1

    base = torch.randn(8)
    same_as_eager(write_first, base[:6], base[3:])


def read_beside_an_argument(x: Tensor) -> Tensor:
    return torch.as_strided(x, (2, 2), (1, 2), 6) + 1


def read_beside_a_view(x: Tensor) -> Tensor:
    return torch.as_strided((x + 1)[2:], (2, 2), (1, 2), 4) * 2


def read_in_the_gaps_of_a_view(x: Tensor) -> Tensor:
    return (x + 1)[:9].view(3, 3).diagonal(1).as_strided((2,), (1,)) * 2


def read_past_the_end_of_a_view(x: Tensor) -> Tensor:
    return (x + 1)[2:5].as_strided((4,), (1,)) * 2


def read_behind_an_empty_view(x: Tensor) -> Tensor:
    return (x + 1)[3:3].as_strided((1,), (1,)) * 2


def write_beside_an_argument(x: Tensor) -> Tensor:
    return torch.as_strided_scatter(x, torch.ones(2, 2), (2, 2), (1, 2), 6) * 2


@pytest.mark.parametrize(
    "f",
    [
        *(read_beside_an_argument, read_beside_a_view, read_in_the_gaps_of_a_view, read_past_the_end_of_a_view),
        *(read_behind_an_empty_view, write_beside_an_argument),
    ],
)
def test_offsets_count_from_where_memory_begins(f: Callable[[Tensor], Tensor], backend: str) -> None:
    compiled = torch.compile(f, backend=backend)
    base = torch.arange(24.0)
    for x in (base[5:15], base[2:12], base[:10]):
        assert_close(compiled(x), f(x))


class Counter(nn.Module):
    """Writes to a buffer, as a key/value cache or batch-norm statistics do."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("history", torch.zeros(4, 3))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        self.calls += 1
        self.history.index_copy_(0, position, x[None])
        return self.history.sum(0) * self.calls


def test_writes_to_buffers(backend: str) -> None:
    ours, theirs = Counter(), Counter()
    compiled = torch.compile(ours, backend=backend, fullgraph=True)
    for step in range(4):
        x = torch.randn(3)
        assert_close(compiled(x, torch.tensor([step])), theirs(x, torch.tensor([step])))
    assert_close(ours.state_dict(), theirs.state_dict())


def test_writes_to_a_parameter(backend: str) -> None:
    @torch.no_grad()
    def decay(module: nn.Linear) -> None:
        module.weight.mul_(0.5)

    ours = nn.Linear(3, 3)
    theirs = copy.deepcopy(ours)
    torch.compile(decay, backend=backend, fullgraph=True)(ours)
    decay(theirs)
    assert_close(ours.weight, theirs.weight)


# Gradients -------------------------------------------------------------------------------------------------------


def test_gradients_that_are_none(backend: str) -> None:
    def partial(a: Tensor, b: Tensor, c: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        return (a * c.detach())[index].sum() + 0 * b.detach().sum(), torch.sin(c)

    def gradients(f: Callable[..., Any]) -> list[Tensor | None]:
        torch.manual_seed(1)
        a, b, c = (torch.randn(6, requires_grad=wanted) for wanted in (True, True, False))
        f(a, b, c, torch.tensor([1, 3]))[0].backward()
        return [a.grad, b.grad, c.grad]

    actual, expected = gradients(torch.compile(partial, backend=backend, fullgraph=True)), gradients(partial)
    assert [g is None for g in actual] == [False, True, True]
    assert_close(actual[0], expected[0])


def test_an_output_nobody_differentiates(backend: str) -> None:
    x = torch.randn(5, requires_grad=True)
    used, _ = torch.compile(lambda x: (x * 2, torch.exp(x)), backend=backend)(x)
    used.sum().backward()
    assert_close(x.grad, torch.full((5,), 2.0))


def test_gradients_accumulate(backend: str) -> None:
    module = nn.Linear(3, 2)
    compiled = torch.compile(module, backend=backend)
    x = torch.randn(4, 3)
    for _ in range(2):
        compiled(x).sum().backward()
    assert_close(module.weight.grad, 2 * x.sum(0).expand(2, 3))


def test_backward_twice_with_retain_graph(backend: str) -> None:
    x = torch.randn(5, requires_grad=True)
    y = torch.compile(lambda x: torch.sin(x).sum(), backend=backend)(x)
    (first,) = torch.autograd.grad(y, x, retain_graph=True)
    (second,) = torch.autograd.grad(y, x)
    assert_close(first, second)
    assert_close(first, torch.cos(x.detach()))


# Python values ---------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    total: Tensor
    count: int


def test_python_values_in_and_out(same_as_eager: Check) -> None:
    def mixed(x: Tensor, scale: float, times: int, flag: bool, name: str, nothing: None) -> dict[str, Any]:
        for _ in range(times):
            x = x * scale
        return {"x": x if flag else -x, "pair": Pair(x.sum(), times), "name": name, "nothing": nothing, "list": [x, 1]}

    x = torch.randn(6)
    same_as_eager(mixed, x, 1.5, 3, True, "a", None)
    same_as_eager(mixed, x, 0.25, 2, False, "b", None)


def test_changing_python_scalars(backend: str) -> None:
    compiled = torch.compile(lambda x, scale, shift: x * scale + shift, backend=backend)
    x = torch.randn(6)
    for scale, shift in ((2.0, 1), (2.5, 7), (-0.0, 12), (float("inf"), -3)):
        assert_close(compiled(x, scale, shift), x * scale + shift, equal_nan=True)


def test_no_tensor_at_all(backend: str) -> None:
    assert_close(torch.compile(lambda: torch.arange(6) * 2.5, backend=backend)(), torch.arange(6) * 2.5)


def test_zero_sized_inputs_and_outputs(same_as_eager: Check) -> None:
    same_as_eager(
        lambda x, w: (x @ w, x.sum(0), torch.cat([x, x]), x[:, :0], w.new_zeros(0)),
        torch.randn(0, 3),
        torch.randn(3, 4),
    )
