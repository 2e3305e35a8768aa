"""Writes at computed positions as kernels: in order, in place, within range, for every target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import cuesta

Tensor = torch.Tensor
Function = Callable[..., Any]
TARGETS = ("cpu", "tt")


def floats(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def wholes(high: int, *sizes: int) -> Tensor:
    return torch.randint(0, high, sizes, generator=torch.Generator().manual_seed(high + sum(sizes)))


def compiled(function: Function, target: str = "cpu", **options: Any) -> Function:
    torch._dynamo.reset()
    return torch.compile(
        function, backend="cuesta", fullgraph=True, options={"target": target, "cache": False}, **options
    )


def check(function: Function, *inputs: Any, target: str = "cpu", calls: int = 0) -> None:
    """The same as eager with f64 numbers, in kernels alone but for `calls`."""
    exact = [x.double() if isinstance(x, Tensor) and x.dtype == torch.float32 else x for x in inputs]
    found = compiled(function, target)(*inputs)
    torch.testing.assert_close(found, function(*exact), check_dtype=False, rtol=1e-5, atol=1e-5)
    (graph,) = cuesta.report().graphs
    assert sum(call["count"] for call in graph.aten_calls) == calls


ROWS = (floats(40, 96), wholes(40, 300), floats(300, 96))
MANY = (floats(50), wholes(50, 5000), floats(5000))
ACROSS = (floats(2, 24, 323), wholes(323, 2, 90, 24), floats(2, 90, 24))
DUPLICATES = wholes(9, 30, 20)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x, i, v: x.index_add(0, i, F.gelu(v)), ROWS),
        (lambda x, i, v: x.scatter_add(0, i, v.sin()) * 2, MANY),
        (lambda x, i, v: x.int().put(i - 50, v.int(), True), MANY),
        (lambda x, i, v: x.t().index_add(1, i, v.t()).cos(), ROWS),
        (lambda i: torch.zeros(30, 9).scatter_add(1, i, i * 0.5), (DUPLICATES,)),
        (lambda i: torch.zeros(9, 30, dtype=torch.int64).scatter_reduce(0, i.t(), i.t() * 3, "amax"), (DUPLICATES,)),
        (lambda x, i, v: x.scatter_add(2, i.mT, v.mT), ACROSS),
        (lambda x, i, v: x.scatter_add(2, i.mT, v.mT * x[..., :90]), ACROSS),
        (lambda x, i: x.index_fill(0, i[:5], 2.0), (ROWS[0], ROWS[1])),
        (lambda x, i, v: x[:, ::2].index_add(0, i, v[:, ::2]), ROWS),
        (lambda x, v: x.index_copy(1, torch.tensor([2]), v), (floats(3, 5, 4), floats(3, 1, 4))),
        (lambda x, v: x.scatter_add(0, torch.tensor([0, 0]), v), (floats(), floats(8))),
    ],
    ids=[
        "rows",
        "many",
        "whole numbers",
        "columns",
        "lines",
        "maxima",
        "across",
        "across, computed",
        "one number",
        "steps",
        "one row",
        "0-d",
    ],
)
def test_same_as_eager(function: Function, inputs: tuple[Any, ...], target: str) -> None:
    check(function, *inputs, target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("with_self", [True, False])
def test_gradients_of_a_product_at_positions(with_self: bool, target: str) -> None:
    """Counts zeros by a write, reads them again, and multiplies: groups between the two must not close a circle."""
    x, i, v = floats(5, 6), wholes(5, 5, 6), floats(5, 6)

    def gradients(run: Function) -> tuple[Tensor, ...]:
        leaves = [t.clone().requires_grad_() for t in (x, v)]
        return torch.autograd.grad(run(leaves[0], i, leaves[1]).sin().sum(), leaves)

    def product(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
        return x.scatter_reduce(0, i, v, "prod", include_self=with_self)

    torch.testing.assert_close(gradients(compiled(product, target)), gradients(product))


def test_what_is_written_joins_the_kernel() -> None:
    check(lambda x, i, v: x.index_add(0, i, F.gelu(v) * 2), *ROWS)
    (graph,) = cuesta.report().graphs
    assert graph.launches == 3  # the check of positions, the copy, and all else


def test_a_write_into_a_stretched_tensor_of_no_elements() -> None:
    """No copy of it has other strides, so that nothing is gained by one."""

    def write(x: Tensor) -> Tensor:
        y = x.reshape(-1).broadcast_to(3, 0)
        y[0] = -1
        return y

    assert compiled(write)(torch.empty(3, 0)).shape == (3, 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "function", [lambda x, i, v: x.scatter_add(0, i, v), lambda x, i, v: x.index_add(0, i[:, 0], v)]
)
def test_narrow_floats_are_added_up_in_f32_on_a_gpu(function: Function, dtype: torch.dtype) -> None:
    """Messages to the nodes of a graph: no further from the exact sums than their rounding."""
    x, index, values = floats(40, 16).to(dtype), wholes(40, 700, 1).expand(700, 16), floats(700, 16).to(dtype)
    found = compiled(function, "tt")(x, index, values)
    assert found.dtype == dtype
    exact = function(x.double(), index, values.double())
    assert (found - exact).norm() <= (exact.to(dtype) - exact).norm() * 1.01
    (graph,) = cuesta.report().graphs
    assert not graph.aten_calls


def test_few_sums_of_narrow_floats_stay_a_call_on_a_gpu() -> None:
    x, index, values = floats(4000, 16).bfloat16(), wholes(40, 7), floats(7, 16).bfloat16()
    found = compiled(lambda x, i, v: x.index_add(0, i, v), "tt")(x, index, values)
    torch.testing.assert_close(found, x.index_add(0, index, values))
    (graph,) = cuesta.report().graphs
    assert sum(call["count"] for call in graph.aten_calls) == 1


def test_the_last_write_stays() -> None:
    x, at = floats(1000), torch.arange(3000) % 1000
    found = compiled(lambda x, i, v: x.index_put((i,), v))(x, at, floats(3000))
    torch.testing.assert_close(found, floats(3000)[2000:])


@pytest.mark.parametrize("target", TARGETS)
def test_gradient_of_an_embedding(target: str) -> None:
    weight, at = floats(30, 8), wholes(30, 4, 25)

    def step(weight: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad(F.embedding(at, weight, padding_idx=2).tanh().sum(), weight)
        return grad

    found = step(weight.requires_grad_())
    compiled_embedding = compiled(lambda w: F.embedding(at, w, padding_idx=2).tanh().sum(), target)
    (grad,) = torch.autograd.grad(compiled_embedding(weight), weight)
    torch.testing.assert_close(grad, found)
    assert not cuesta.report().graphs[-1].aten_calls


def test_gradients_of_edges_are_one_kernel_on_a_gpu() -> None:
    """They are added up for the nodes at both ends, and are returned besides."""

    def gradients(edges: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, ...]:
        given, nodes = F.gelu(edges), edges.new_zeros(40, 96)
        return nodes.index_add(0, i, given), (nodes + 1).index_add(0, j, -given), given

    _, i, edges = ROWS
    call = compiled(gradients, "tt")
    torch.testing.assert_close(call(edges, i, i.flip(0)), gradients(edges, i, i.flip(0)), rtol=1e-5, atol=1e-5)
    (graph,) = cuesta.report().graphs
    assert [kernel["ops"] for kernel in graph.kernels if "gelu" in kernel["ops"]] == [["gelu", "index_add", "neg"]]


def test_scatters_into_one_tensor_are_apart_on_a_gpu() -> None:
    def both(x: Tensor, i: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        x = x * 2
        last = x.index_add(0, i.flip(0), v).index_add(0, i // 2, v)
        return x.index_add(0, i, v), last.index_put((i,), v.sin(), accumulate=True)

    torch.testing.assert_close(compiled(both, "tt")(*ROWS), both(*ROWS), rtol=1e-5, atol=1e-5)


# -- in place ----------------------------------------------------------------------------------
@pytest.mark.parametrize("target", TARGETS)
def test_a_cache_is_written_in_place(target: str) -> None:
    def step(cache: Tensor, at: Tensor, row: Tensor) -> Tensor:
        cache.index_copy_(2, at, row)
        cache[:, :, at + 1] = row * 2
        return cache.sum((0, 1, 3))

    cache, at, row = floats(1, 4, 64, 16), torch.tensor([7]), floats(1, 4, 1, 16)
    expected, found = cache.clone(), cache.clone()
    wanted = step(expected, at, row)
    torch.testing.assert_close(compiled(step, target)(found, at, row), wanted)
    torch.testing.assert_close(found, expected)
    (graph,) = cuesta.report().graphs
    assert not any(kernel["name"] == "copy" for kernel in graph.kernels)
    assert graph.peak_bytes < cache.nbytes


def test_old_values_that_are_read_stay() -> None:
    def both(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x * 2
        old = y.sum(1)
        x.index_add_(0, i, y[:3])
        return y.index_copy(0, i, y[:3]), old, y

    x, i = floats(9, 7), torch.tensor([4, 1, 8])
    expected, found = x.clone(), x.clone()
    wanted = both(expected, i)
    torch.testing.assert_close(compiled(both)(found, i), wanted)
    torch.testing.assert_close(found, expected)


def test_an_argument_that_is_read_at_positions_stays() -> None:
    def shift(x: Tensor, i: Tensor) -> None:
        x.index_copy_(0, i, x[i - 1])

    x, i = floats(9, 7), torch.tensor([1, 2, 3])
    expected, found = x.clone(), x.clone()
    shift(expected, i)
    compiled(shift)(found, i)
    torch.testing.assert_close(found, expected)


# -- positions that are none --------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "bad"),
    [
        (lambda x, i: x.index_add_(0, i, x[:2] * 2), 9),
        (lambda x, i: x.index_add_(0, i, x[:2] * 2), -1),
        (lambda x, i: x.scatter_(0, i[:, None], 2.0), -1),
        (lambda x, i: x.index_put_((i,), x[:1] * 2), -10),
        (lambda x, i: x.index_fill_(0, i, 1.0), 9),
    ],
)
def test_nothing_is_written_outside(function: Function, bad: int) -> None:
    x = floats(9, 7)
    call = compiled(function)
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        call(x, torch.tensor([1, bad]))
    torch.testing.assert_close(x, floats(9, 7))
    expected = function(floats(9, 7), torch.tensor([1, 2]))
    torch.testing.assert_close(call(x, torch.tensor([1, 2])), expected)


# -- sizes that depend on the call ----------------------------------------------------------------
@pytest.mark.parametrize("target", TARGETS)
def test_symbolic_sizes(target: str) -> None:
    def both(x: Tensor, i: Tensor, v: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        return x.index_add(0, i, F.gelu(v)), x.scatter_add(1, at, x * 2)

    call = compiled(both, target, dynamic=True)
    for rows, count, width in ((40, 300, 96), (7, 2, 3), (64, 64, 64)):
        x, i, v, at = floats(rows, width), wholes(rows, count), floats(count, width), wholes(width, rows, width)
        expected = both(x.double(), i, v.double(), at)
        torch.testing.assert_close(call(x, i, v, at), tuple(t.float() for t in expected), rtol=1e-5, atol=1e-5)
    assert len(cuesta.report().graphs) == 1


# -- what stays ATen's on a GPU --------------------------------------------------------------------
@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("function", [lambda x, i, v: x.index_add(0, i, v), lambda x, i, v: x.index_put((i,), v, True)])
def test_deterministic_algorithms_keep_the_call(function: Function, deterministic: None) -> None:
    check(function, *ROWS, target="tt", calls=1)
    check(function, *ROWS, target="cpu", calls=0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(300, 96), v, "amax"),
        lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(300, 96), v, "prod"),
        lambda x, i, v: x.bfloat16().index_add(0, i[:40], v[:40].bfloat16()).float().round(),
        lambda x, i, v: v.masked_scatter(v > 0, v * 2),
    ],
    ids=["maxima", "products", "narrow", "a long mask"],
)
def test_calls_on_a_gpu(function: Function) -> None:
    torch.testing.assert_close(compiled(function, "tt")(*ROWS), function(*ROWS))
    (graph,) = cuesta.report().graphs
    assert len(graph.aten_calls) == 1


def test_atens_sums_are_written_over_their_summand() -> None:
    """Complex numbers, which ATen adds up, to a tensor that nobody else reads, and to one that is returned."""

    def step(x: Tensor, at: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        doubled, kept = x * 2, x * 3
        summed = kept.index_put([at], rows, accumulate=True)
        return doubled.index_put([at], rows, accumulate=True), summed, kept

    x, rows = (torch.randn(n, 8, dtype=torch.complex64) for n in (16, 5))
    at = torch.tensor([0, 3, 3, -1, 7])
    found = compiled(step)
    for _ in range(2):
        torch.testing.assert_close(found(x, at, rows), step(x, at, rows))
    (graph,) = cuesta.report().graphs
    assert sorted(call["op"] for call in graph.aten_calls) == ["aten.index_put.default", "aten.index_put_.default"]
