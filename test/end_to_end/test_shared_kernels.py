"""Layers that differ in one size share a kernel, and give what each would with a kernel of its own."""

from __future__ import annotations

import pytest
import torch

import cuesta

#: Channels that fill vectors, some of them in more than one block of a product's sum.
CHANNELS = (64, 96, 160, 416, 448, 992)


def _kernels() -> list[tuple[str, int]]:
    (graph,) = cuesta.report().as_dict()["graphs"]
    return [(kernel["name"], kernel["uses"]) for kernel in graph["kernels"]]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_norms_of_other_channels_are_one_kernel(layout: torch.memory_format) -> None:
    xs = [torch.randn(2, n, 7, 9).to(memory_format=layout) for n in CHANNELS]
    norms = [torch.nn.BatchNorm2d(n) for n in CHANNELS]
    for norm in norms:
        torch.nn.init.normal_(norm.running_mean)
        torch.nn.init.normal_(norm.weight)
        norm.eval()

    def run(xs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [norm(x).relu() for norm, x in zip(norms, xs, strict=True)]

    with torch.no_grad():
        found = torch.compile(run, backend="cuesta")(xs)
        for result, expected in zip(found, run(xs), strict=True):
            torch.testing.assert_close(result, expected)
            assert result.stride() == expected.stride()
    assert [uses for _, uses in _kernels()] == [len(CHANNELS)]


@pytest.mark.parametrize("across", [False, True])
def test_products_of_other_lengths_are_one_kernel(across: bool) -> None:
    xs = [torch.randn(70, n) for n in CHANNELS]
    weights = [torch.randn(128, n) if across else torch.randn(n, 128).t() for n in CHANNELS]

    def run(xs: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.nn.functional.linear(x, w).relu() for x, w in zip(xs, weights, strict=True)]

    found = torch.compile(run, backend="cuesta", options={"gemm": "kernel"})(xs, weights)
    for result, expected in zip(found, run(xs, weights), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)  # sums of 992 in another order
    assert [uses for _, uses in _kernels()] == [len(CHANNELS)]
    alone = [
        torch.compile(run, backend="cuesta", options={"gemm": "kernel"}, dynamic=False)([x], [w])[0]
        for x, w in zip(xs[-3::2], weights[-3::2], strict=True)
    ]
    assert all(map(torch.equal, found[-3::2], alone))


def test_sizes_that_do_not_fill_vectors_have_kernels_of_their_own() -> None:
    xs = [torch.randn(n) for n in (65, 66, 67, 68)]
    found = torch.compile(lambda xs: [x.exp() for x in xs], backend="cuesta")(xs)
    for result, x in zip(found, xs, strict=True):
        torch.testing.assert_close(result, x.exp())
    assert [uses for _, uses in _kernels()] == [1, 1, 1, 1]
