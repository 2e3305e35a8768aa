"""Products of 2 to 16 rows by a linear layer's weight on a GPU, as a decoding step of a few sequences makes them:
kernels that read the weight once, together with what is around them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import cuesta
from cuesta.export.compile_for import TargetModel
from cuesta.passes.libraries.products import routes
from cuesta.passes.libraries.products.tiles import Plan
from cuesta.tools.models.quantised import Int8Linear

WIDTH, HEADS, INNER = 512, 8, 4096


@pytest.fixture(autouse=True)
def small_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter takes long for weights that are large."""
    monkeypatch.setattr(routes, "_LARGE_WEIGHT", 1 << 17)


def matches(run: Callable[..., Tensor], *given: Tensor, **options: str) -> None:
    """Whether the kernels, run by the interpreter of Triton IR, are no further from f64 than twice eager's distance."""
    exact, eager = run(*(x.double() for x in given)), run(*given)
    actual = torch.compile(run, backend="cuesta", options={"target": "tt", **options}, dynamic=False)(*given)
    assert (actual - exact).norm() <= 2 * (eager - exact).norm() + 1e-6 * exact.norm()
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert not graph["aten_calls"]


def tensors(*shapes: tuple[int, ...], dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
    torch.manual_seed(0)
    return [(torch.randn(shape) / shape[-1] ** 0.5).to(dtype) for shape in shapes]


def around(x: Tensor, w: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    return residual + F.silu(F.linear(x, w, bias))


@pytest.mark.parametrize("rows", [2, 3, 8, 16])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_with_what_is_around(rows: int, dtype: torch.dtype) -> None:
    matches(around, *tensors((rows, WIDTH), (WIDTH, WIDTH), (WIDTH,), (rows, WIDTH), dtype=dtype))


@pytest.mark.parametrize("n", [500, 513, 8192, 16400])
@pytest.mark.parametrize("k", [536, 1040])
def test_sizes_that_tiles_do_not_divide(n: int, k: int) -> None:
    matches(around, *tensors((5, k), (n, k), (n,), (5, n)))


@pytest.mark.parametrize("plan", ["16x16x32/2/3", "16x128x64/4/3", "16x32x512/8/2"])
@pytest.mark.parametrize("k", [512, 536])
def test_every_tile(plan: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "plan_of_few_rows", lambda *_: Plan.parse(plan))
    matches(F.linear, *tensors((7, k), (1040, k)))


@pytest.mark.parametrize("length", [500, 481])
def test_rows_that_end_within_16_bytes(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are rows of a wider matrix, so that they begin aligned."""
    monkeypatch.setattr(routes, "plans", lambda *_: [Plan.parse("16x32x64/2/3")])
    x, w = (x[:, :length] for x in tensors((7, 512), (96, 512)))
    matches(F.linear, x, w, gemm="kernel")


def test_gate_and_up_are_one_kernel() -> None:
    def gated(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
        return F.silu(F.linear(x, gate)) * F.linear(x, up)

    given = tensors((8, 1, WIDTH), (1024, WIDTH), (1024, WIDTH))
    matches(gated, *given)
    assert len(cuesta.compile_for(gated, tuple(given), target="cuda:90").kernels) == 1


def test_a_weight_of_bytes_is_widened_in_the_kernel() -> None:
    torch.manual_seed(0)
    layer, x = Int8Linear(torch.randn(2 * WIDTH, WIDTH)).bfloat16(), torch.randn(4, WIDTH).bfloat16()
    actual = torch.compile(layer, backend="cuesta", options={"target": "tt"}, dynamic=False)(x)
    eager, exact = layer(x), layer.double()(x.double())
    assert (actual - exact).norm() <= 2 * (eager - exact).norm()
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert not graph["aten_calls"]
    assert len(graph["kernels"]) == 1


class Gated(torch.nn.Module):
    """A gated layer with its norm and its residual."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = torch.nn.RMSNorm(WIDTH)
        self.gate, self.up = (torch.nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.norm(x)
        return x + self.down(F.silu(self.gate(wide)) * self.up(wide))


# With each shape its kernels: the norm; gate and up with what joins them; down in parts; their sum, with the bias and
# the residual, but for a residual that a reshape parts from the sum.
@pytest.mark.parametrize(
    ("shape", "count"), [((2, WIDTH), 4), ((8, 1, WIDTH), 4), ((3, 5, WIDTH), 5), ((16, WIDTH), 4)]
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_gated_layer(shape: tuple[int, ...], count: int, dtype: torch.dtype) -> None:
    model, x = Gated(), torch.randn(shape).to(dtype)
    with torch.no_grad():
        exact = model.double()(x.double())
        eager = model.to(dtype)(x)
        actual = torch.compile(model, backend="cuesta", options={"target": "tt"}, dynamic=False)(x)
    assert (actual - exact).norm() <= 2 * (eager - exact).norm()
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert not graph["aten_calls"]
    assert len(graph["kernels"]) == count


class Step(torch.nn.Module):
    """Attention to a cache, and a gated layer, each with its norm and residual."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norms = torch.nn.ModuleList([torch.nn.RMSNorm(WIDTH) for _ in range(2)])
        self.queries, self.out = (torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.gate, self.up = (torch.nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        q = self.queries(self.norms[0](x)).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        seen = F.scaled_dot_product_attention(q, keys, values)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def step(rows: int) -> tuple[Step, tuple[Tensor, ...]]:
    shapes = ((rows, 1, WIDTH), *(2 * [(rows, HEADS, 256, WIDTH // HEADS)]))
    return Step().bfloat16().eval(), tuple(tensors(*shapes))


def test_a_step_of_several_sequences() -> None:
    model, given = step(4)
    with torch.no_grad():
        actual = torch.compile(model, backend="cuesta", options={"target": "tt"}, dynamic=False)(*given)
        eager, exact = model(*given), model.double()(*(x.double() for x in given))
    assert (actual - exact).norm() <= 2 * (eager - exact).norm()


def test_kernels_of_a_step() -> None:
    made: TargetModel = cuesta.compile_for(*step(4), target="cuda:90")
    assert not made.aten_calls
    # A norm; queries; attention's parts; their sum; the output with its residual and squares; a norm; gate and up with
    # what joins them; down with its residual.
    assert len(made.kernels) == 8, made
    # A residual that waits for the end of a loop may cost a register too many, once for each program.
    assert all(kernel.spills <= 4 for kernel in made.kernels)


def test_weights_with_columns_side_by_side_are_the_librarys() -> None:
    x, w = tensors((8, WIDTH), (WIDTH, WIDTH))
    assert cuesta.compile_for(torch.mm, (x, w), target="cuda:90").aten_calls == {"aten.mm.default": 1}
