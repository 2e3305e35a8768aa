"""Option `freezing`: weights in panels or as MKL packs them, packed once, and packed anew when they change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._functorch.config
import torch.nn.functional as F

import cuesta
from cuesta.driver.freezing import freeze as freezing
from cuesta.driver.freezing import packed_products
from cuesta.passes.libraries.products import panels

Tensor = torch.Tensor


mkl = pytest.mark.skipif(not packed_products.can_pack(), reason="needs a torch with MKL")


class Layers(torch.nn.Module):
    """Two linear layers with what follows, and a product by a weight that is not transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = torch.nn.Linear(256, 384), torch.nn.Linear(384, 256)
        self.last = torch.nn.Parameter(torch.randn(256, 256, generator=torch.Generator().manual_seed(1)))

    def forward(self, x: Tensor) -> Tensor:
        return (self.narrow(F.gelu(self.wide(x))) + x) @ self.last


@pytest.fixture(autouse=True)
def as_on_wide_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "has_wide_vectors", lambda: True)
    torch._dynamo.reset()


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Every weight that is packed, as it is packed."""
    found = []

    def noting(pack: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def noted(weight: Tensor, **how: Any) -> Tensor:
            found.append(weight)
            return pack(weight, **how)

        return noted

    monkeypatch.setattr(freezing, "_panels", noting(freezing._panels))
    monkeypatch.setattr(packed_products, "pack", noting(packed_products.pack))
    return found


def frozen(module: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    compiled = torch.compile(module, backend="cuesta", options={"freezing": True, "cache": False})

    def call(x: Tensor) -> Tensor:
        with torch.no_grad():
            return compiled(x)

    return call


def example(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(0))


def test_weights_are_packed_once_and_products_hold_what_follows(packed: list[Tensor]) -> None:
    layers, x = Layers(), example(2, 12, 256)
    call = frozen(layers)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(call(x), layers(x), rtol=1e-4, atol=1e-4)
    (graph,) = cuesta.report().graphs
    assert len(packed) == 3 and graph.launches == 3 and not graph.aten_calls
    assert graph.frozen == "weights of matrix products: 3 packed into panels"


def test_a_weight_that_changes_is_packed_anew(packed: list[Tensor]) -> None:
    layers, x = Layers(), example(24, 256)
    call = frozen(layers)
    with torch.no_grad():
        call(x)
        layers.wide.weight.mul_(2)
        torch.testing.assert_close(call(x), layers(x), rtol=1e-4, atol=1e-4)
        assert len(packed) == 4
        layers.last = torch.nn.Parameter(layers.last * 3)
        torch.testing.assert_close(call(x), layers(x), rtol=1e-4, atol=1e-4)
        assert len(packed) >= 5
        layers.load_state_dict(Layers().state_dict())
        torch.testing.assert_close(call(x), layers(x), rtol=1e-4, atol=1e-4)


def test_inference_tensors_count_no_versions() -> None:
    with torch.inference_mode():
        weight, x = example(256, 384), example(24, 384)
        module = torch.nn.Linear(384, 256, bias=False)
        module.weight = torch.nn.Parameter(weight, requires_grad=False)
        call = frozen(module)
        call(x)
        module.weight.mul_(2)
        torch.testing.assert_close(call(x), module(x), rtol=1e-4, atol=1e-4)


def test_where_gradients_are_needed_weights_stay_as_they_are() -> None:
    layers, x = Layers(), example(24, 256)
    compiled = torch.compile(layers, backend="cuesta", options={"freezing": True, "cache": False})
    compiled(x).sum().backward()
    expected = torch.autograd.grad(layers(x).sum(), list(layers.parameters()))
    torch.testing.assert_close([p.grad for p in layers.parameters()], list(expected), rtol=1e-4, atol=1e-4)
    forward, backward = (graph.frozen for graph in cuesta.report().graphs)
    assert forward == backward and forward.startswith("nothing: ") and "training" in forward


@mkl
def test_of_many_rows_mkl_multiplies_by_what_it_has_packed(packed: list[Tensor]) -> None:
    layers, x = Layers(), example(2, 100, 256)
    call = frozen(layers)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(call(x), layers(x), rtol=1e-4, atol=1e-4)
        layers.last.mul_(-1)
        torch.testing.assert_close(call(x), layers(x), rtol=1e-4, atol=1e-4)
    (graph,) = cuesta.report().graphs
    assert len(packed) == 4
    assert graph.frozen == "weights of matrix products: 3 packed by MKL"
    (calls,) = graph.aten_calls
    assert (calls["op"], calls["route"], calls["count"]) == ("cuesta.packed_mm.default", "out", 3)


@mkl
def test_a_weight_is_packed_for_each_number_of_rows(packed: list[Tensor]) -> None:
    layer, x = torch.nn.Linear(256, 384), example(500, 256)

    def both(x: Tensor) -> Tensor:
        return layer(x[:200]).sum() + layer(x[200:]).sum() + layer(x[:200] + 1).sum()

    call = frozen(both)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(call(x), both(x), rtol=1e-4, atol=1e-2)
    assert len(packed) == 2


@mkl
def test_a_weight_that_lies_transposed_is_not_for_mkl(packed: list[Tensor]) -> None:
    layer, x = torch.nn.Linear(256, 380), example(200, 256)
    layer.weight = torch.nn.Parameter(example(256, 380).t())
    torch.testing.assert_close(frozen(layer)(x), layer(x).detach(), rtol=1e-4, atol=1e-4)
    assert not packed


@mkl
def test_mkl_gives_what_it_gives_without_packing() -> None:
    for weight, across in ((example(384, 256), True), (example(256, 384), False)):
        x = example(70, 256)
        product = packed_products.packed_mm(x, packed_products.pack(weight, across, 70), 384)
        torch.testing.assert_close(product, x @ (weight.t() if across else weight))


def test_a_graph_worth_keeping_in_torchs_cache_is_frozen_too(packed: list[Tensor], tmp_path: Path) -> None:
    layers, x = torch.nn.Sequential(*(Layers() for _ in range(24))), example(24, 256)  # 3 weights in each
    compiled = torch.compile(layers, backend="cuesta", options={"freezing": True, "cache_dir": tmp_path})
    with torch.no_grad(), torch._functorch.config.patch(enable_autograd_cache=True):
        compiled(x)
    assert len(packed) == 24 * 3  # each weight once


def test_small_weights_stay_as_they_are(packed: list[Tensor]) -> None:
    layer, x = torch.nn.Linear(48, 48), example(24, 48)
    torch.testing.assert_close(frozen(layer)(x), layer(x).detach())
    (graph,) = cuesta.report().graphs
    assert not packed and graph.frozen is not None and graph.frozen.startswith("nothing: ")


def test_a_weight_that_the_graph_writes_stays_as_it_is(packed: list[Tensor]) -> None:
    layer, x = torch.nn.Linear(256, 384), example(24, 256)
    layer.requires_grad_(False)
    other = torch.nn.Linear(256, 384).requires_grad_(False)
    other.load_state_dict(layer.state_dict())

    def step(module: torch.nn.Linear, x: Tensor) -> Tensor:
        result = module(x)
        module.weight.mul_(0.5)
        return result

    call = frozen(lambda x: step(layer, x))
    for _ in range(3):
        torch.testing.assert_close(call(x), step(other, x), rtol=1e-4, atol=1e-4)
    assert not packed
