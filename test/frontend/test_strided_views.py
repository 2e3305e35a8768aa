"""Views by strides that show each element once become permutations, and so do writes through them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import cuesta
from cuesta.frontend.fx_passes.strided_views import permute_strided_views

aten = torch.ops.aten
IMAGES = torch.randn(2, 3, 4, 5)


def gradient(sizes: list[int], strides: list[int], given: tuple[list[int], list[int]]) -> Callable[[Tensor], Tensor]:
    """The gradient of a view by strides, as autograd computes it, of a tensor with the sizes and strides `given`."""

    def compute(x: Tensor) -> Tensor:
        base = aten.new_zeros(x, [x.numel()])
        part = aten.copy(aten.as_strided(base, sizes, strides, 0), x.reshape(sizes))
        return aten.as_strided(aten.as_strided_scatter(base, part, sizes, strides, 0), *given, 0) + 1

    return compute


#: What reads or writes each element once.
PERMUTED: dict[str, Callable[[Tensor], Tensor]] = {
    "the same": lambda x: aten.as_strided(x, [2, 3, 4, 5], [60, 20, 5, 1]) + 1,
    "channels last": lambda x: aten.as_strided(x * 2, [2, 5, 3, 4], [60, 1, 20, 5]) + 1,
    "of every second": lambda x: aten.as_strided((x * 2)[..., ::2], [2, 3, 4, 3], [60, 20, 5, 2]) + 1,
    "other sizes": lambda x: aten.as_strided(x.permute(0, 2, 3, 1), [6, 20], [20, 1]) + 1,
    "a dim of size 1": lambda x: aten.as_strided(x, [2, 1, 60], [60, 7, 1]) + 1,
    "from the beginning": lambda x: aten.as_strided(x * 2, [3, 2, 20], [20, 60, 1], 0) + 1,
    "gradient": gradient([6, 20], [20, 1], ([2, 3, 4, 5], [60, 20, 5, 1])),
    "gradient, permuted": gradient([20, 6], [1, 20], ([2, 5, 3, 4], [60, 1, 20, 5])),
}
#: What stays as it is: what begins elsewhere, leaves elements out, or shows some twice.
KEPT: dict[str, Callable[[Tensor], Tensor]] = {
    "an argument's memory": lambda x: aten.as_strided(x, [2, 3, 4, 5], [60, 20, 5, 1], 0) + 1,
    "a part": lambda x: aten.as_strided(x * 2, [2, 59], [60, 1]) + 1,
    "from the second on": lambda x: aten.as_strided(x * 2, [119], [1], 1) + 1,
    "twice": lambda x: aten.as_strided(x * 2, [2, 60], [0, 1]) + 1,
    "windows": lambda x: aten.as_strided(x * 2, [30, 4], [4, 1]) + aten.as_strided(x * 2, [30, 4], [3, 1]),
    "gradient of a part": lambda x: aten.as_strided_scatter(aten.new_zeros(x, [121]), x, [2, 3, 4, 5], [60, 20, 5, 1]),
    "a copy": lambda x: aten.as_strided_copy(x, [20, 6], [1, 20]),
    "a copy of an argument's memory": lambda x: aten.as_strided(
        aten.slice_scatter(x, x[:1], 0, 1, 2), [2, 3, 20], [60, 20, 1], 0
    ),
    "not of zeros": lambda x: aten.as_strided_scatter(x * 2, x, [2, 3, 4, 5], [60, 20, 5, 1]),
}


@pytest.mark.parametrize("name", [*PERMUTED, *KEPT])
def test_views_of_all_elements_are_permutations(name: str) -> None:
    program = (PERMUTED | KEPT)[name]
    gm = make_fx(program, tracing_mode="fake")(IMAGES)
    expected, before = program(IMAGES), gm.code
    permute_strided_views(gm)
    torch.testing.assert_close(gm(IMAGES), expected)
    assert "as_strided" in before
    assert ("as_strided" in gm.code) == (name in KEPT), gm.code


def test_a_batch_of_any_size_is_the_same() -> None:
    def mean(x: Tensor) -> Tensor:
        images, channels, *_ = x.shape
        return x.mean((2, 3), keepdim=True).as_strided([images, channels, 1, 1], [channels, 1, channels, channels]) + 1

    graph = make_fx(mean, tracing_mode="symbolic")(IMAGES)
    permute_strided_views(graph)
    assert "as_strided" not in graph.code


def test_a_result_is_no_view_of_an_argument_and_has_eagers_strides() -> None:
    def scattered(x: Tensor) -> Tensor:
        return torch.as_strided_scatter(x.new_full([10], 2.0), x, [10], [1])

    def part(x: Tensor) -> Tensor:
        return scattered(x).as_strided([2], [1], 8)

    def ones(x: Tensor) -> Tensor:
        return (x[:3] * 1).as_strided([3, 1, 1, 1], [1, 3, 3, 7])

    for function in (scattered, part, ones):
        for x in (torch.arange(10.0), torch.arange(12.0)[1:11]):
            torch._dynamo.reset()
            expected, kept = function(x), x.clone()
            found = torch.compile(function, backend="cuesta")(x)
            torch.testing.assert_close(found, expected)
            assert found.stride() == expected.stride()
            found.add_(1)
            torch.testing.assert_close(x, kept, rtol=0, atol=0)


def test_a_training_step_with_the_mean_of_a_channels_last_image_is_one_program() -> None:
    """As torch computes adaptive_avg_pool2d of such an image to one pixel on a GPU."""

    def loss(x: Tensor, w: Tensor) -> Tensor:
        image = torch.nn.functional.conv2d(x, w, padding=1).relu()
        pooled = image.mean((2, 3), keepdim=True).as_strided([4, 8, 1, 1], [8, 1, 8, 8])
        return pooled.flatten(1).square().sum()

    x = torch.randn(4, 3, 9, 9).to(memory_format=torch.channels_last)
    w = torch.randn(8, 3, 3, 3, requires_grad=True)
    torch.compile(loss, backend="cuesta")(x, w).backward()
    found, w.grad = w.grad, None
    loss(x, w).backward()
    torch.testing.assert_close(found, w.grad)
    names = [graph["name"] for graph in cuesta.report().as_dict()["graphs"]]
    assert not any("piece" in name for name in names), names
