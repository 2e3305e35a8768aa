"""Products with unaligned rows are padded for cuBLAS: the same results, aligned rows in memory, no copy of a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import cuesta
from cuesta.frontend.fx_passes import ragged_products
from cuesta.frontend.fx_passes.ragged_products import pad_ragged_products
from cuesta.targets import Target

aten = torch.ops.aten
TT, BF16 = Target("tt"), torch.bfloat16
ROWS, WIDTH, CLASSES = 24, 32, 77


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Products of any size pay."""
    monkeypatch.setattr(ragged_products, "_MULTIPLICATIONS", 1e-6)
    yield


def _padded(function: Callable[..., object], *tensors: Tensor, target: Target = TT) -> GraphModule:
    """A function's graph after the pass, whose results are the function's."""
    gm = make_fx(function, tracing_mode="fake")(*tensors)
    pad_ragged_products(gm, target)
    expected, actual = function(*tensors), gm(*tensors)
    torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)
    return gm


def _products(gm: GraphModule) -> list[list[int]]:
    """M, K, N of each product."""
    nodes = [n for n in gm.graph.nodes if n.target in (aten.mm.default, aten.addmm.default)]
    shapes = [[n.args[-2].meta["val"].shape, n.args[-1].meta["val"].shape] for n in nodes]
    return [[*left, right[1]] for left, right in shapes]


def _pads(gm: GraphModule) -> int:
    return len(gm.graph.find_nodes(op="call_function", target=aten.constant_pad_nd.default))


def _random(*sizes: int) -> Tensor:
    return torch.randn(*sizes, dtype=BF16)


@pytest.mark.usefixtures("always")
def test_columns() -> None:
    x, w, b = _random(ROWS, WIDTH), _random(CLASSES, WIDTH), _random(CLASSES)
    gm = _padded(lambda x, w, b: aten.addmm(b, x, w.sin().t()).float().exp(), x, w, b)
    assert _products(gm) == [[ROWS, WIDTH, 80]] and _pads(gm) == 2


@pytest.mark.usefixtures("always")
def test_both_gradients_of_a_head_read_one_padded_factor() -> None:
    def gradients(g: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        g = g.sin()
        return g @ w, (g.t() @ x).float() * 2

    gm = _padded(gradients, _random(ROWS, CLASSES), _random(ROWS, WIDTH), _random(CLASSES, WIDTH))
    assert _products(gm) == [[ROWS, 80, WIDTH], [80, ROWS, WIDTH]]
    assert _pads(gm) == 2


@pytest.mark.parametrize(("rows", "products"), [(2048, [[2048, 50304, 512], [50304, 2048, 512]]), (64, None)])
def test_gradients_of_logits_from_another_graph_are_copied_once(rows: int, products: list[list[int]] | None) -> None:
    """The gradient of the weight, too, that the caller gets: it has as many columns as ever."""
    with torch.device("meta"):
        given = [torch.empty(*sizes, dtype=BF16) for sizes in ((rows, 50265), (rows, 512), (50265, 512))]
    gm = make_fx(lambda g, x, w: (g @ w, g.t() @ x), tracing_mode="fake")(*given)
    pad_ragged_products(gm, TT)
    assert _products(gm) == (products or [[rows, 50265, 512], [50265, rows, 512]])
    assert _pads(gm) == (2 if products else 0)


@pytest.mark.usefixtures("always")
def test_a_result_that_the_caller_gets_keeps_its_rows() -> None:
    gm = _padded(lambda x, w: (x @ w.sin().t()).view(2, 12, CLASSES), _random(ROWS, WIDTH), _random(CLASSES, WIDTH))
    assert _products(gm) == [[ROWS, WIDTH, CLASSES]] and not _pads(gm)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("target", ["cpu", "hip:gfx942", "xpu"])
def test_other_machines(target: str) -> None:
    kind, _, arch = target.partition(":")
    x, w = _random(ROWS, WIDTH), _random(CLASSES, WIDTH)
    assert not _pads(_padded(lambda x, w: (x @ w.t()).exp(), x, w, target=Target(kind, arch)))


def test_what_does_not_pay_stays() -> None:
    """Small products; wide types; and a weight of the caller's, which would be copied for a product of few rows."""
    small = _padded(lambda x, w: (x @ w.t()).exp(), _random(ROWS, WIDTH), _random(CLASSES, WIDTH))
    assert not _pads(small)
    wide = (torch.randn(4096, 64), torch.randn(30522, 64))
    gm = make_fx(lambda x, w: (x @ w.t()).exp(), tracing_mode="fake")(*wide)
    pad_ragged_products(gm, TT)
    assert not _pads(gm)
    for rows, count in ((64, 0), (8192, 1)):
        with torch.device("meta"):
            given = (torch.empty(rows, 768, dtype=BF16), torch.empty(50257, 768, dtype=BF16))
        gm = make_fx(lambda x, w: (x @ w.t()).exp(), tracing_mode="fake")(*given)
        pad_ragged_products(gm, TT)
        assert _pads(gm) == count


def test_few_columns_get_no_zeros() -> None:
    """A bias of attention for four heads, computed of pairs: 16 columns would be four times the bytes."""
    for columns, count in ((4, 0), (1000 + 4, 1)):
        with torch.device("meta"):
            given = (torch.empty(65536, 64, dtype=BF16), torch.empty(columns, 64))
        gm = make_fx(lambda x, w: (x @ w.to(BF16).t()).exp(), tracing_mode="fake")(*given)
        pad_ragged_products(gm, TT)
        assert _pads(gm) == count


@pytest.mark.usefixtures("always")
def test_a_training_step_saves_the_padded_logits() -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(ROWS, WIDTH, requires_grad=True), torch.randn(CLASSES, WIDTH, requires_grad=True)]
    targets = torch.randint(CLASSES, (ROWS,))

    def step(x: Tensor, w: Tensor, kind: torch.dtype = BF16) -> Tensor:
        return F.cross_entropy((x.to(kind) @ w.to(kind).t()).to(torch.promote_types(kind, torch.float32)), targets)

    compiled = torch.compile(lambda x, w: step(x, w), backend="cuesta", options={"target": "tt"}, dynamic=False)
    exact = torch.autograd.grad(step(*tensors, torch.float64), tensors)
    eager = torch.autograd.grad(step(*tensors), tensors)
    actual = torch.autograd.grad(compiled(*tensors), tensors)
    for ours, theirs, right in zip(actual, eager, exact, strict=True):
        assert (ours - right).norm() <= 2 * (theirs - right).norm()
    forward, backward = cuesta.report().graphs[-2:]
    counts = [sum(c["count"] for c in g.aten_calls if c["op"] == "aten.mm.default") for g in (forward, backward)]
    assert counts == [1, 2]
    # Logits, weight and x in two bytes, the first two padded, and little more: no logits without the padding.
    assert forward.kept_bytes < 1.1 * 2 * (ROWS * 128 + 128 * WIDTH + ROWS * WIDTH)


@pytest.mark.usefixtures("always")
def test_a_short_row_is_padded_to_a_sector() -> None:
    """A multiple of 64 would make a row of 196 tokens a third longer."""
    x, w = _random(ROWS, 196), _random(196, WIDTH)
    gm = _padded(lambda x, w: (aten.mm(x.sin(), w.sin()).float()).exp(), x, w)
    assert _products(gm) == [[ROWS, 208, WIDTH]]
