"""A training step on a CPU saves images in the layout in which both of its graphs' convolutions work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from functorch.compile import aot_function, make_boxed_func
from torch import Tensor
from torch.nn import functional as F

from cuesta.frontend.capture.aot import partition
from cuesta.frontend.decompositions.table import decompositions

Graphs = list[torch.fx.GraphModule]


def split(function: Callable[..., Any]) -> tuple[Callable[..., Any], Graphs]:
    """`function` as its two graphs, run op by op; the list has them once it has been called."""
    graphs: Graphs = []

    def keep(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        graphs.append(module)
        return make_boxed_func(module.forward)

    return aot_function(function, keep, keep, partition, decompositions()), graphs


def images(backward: torch.fx.GraphModule) -> list[tuple[int, int]]:
    """(channels, stride of the channels) of the saved tensors of four dims, but weights."""
    arguments = [n for n in backward.graph.nodes if n.op == "placeholder"]
    metas = [n.meta["val"] for n in arguments if n.name.startswith(("convolution", "relu", "sin", "getitem"))]
    return sorted((m.shape[1], m.stride(1)) for m in metas if m.dim() == 4)


def check(function: Callable[..., Tensor], *tensors: Tensor) -> Graphs:
    """The graphs of `function`, whose gradients are those of float64 but for rounding."""
    compiled, graphs = split(function)
    leaves = [t.clone().requires_grad_() for t in tensors]
    compiled(*leaves).sum().backward()
    exact = [t.double().requires_grad_() for t in tensors]
    for leaf, gradient in zip(leaves, torch.autograd.grad(function(*exact).sum(), exact), strict=True):
        assert leaf.grad is not None
        assert (leaf.grad - gradient).abs().max() <= 1e-4 * gradient.abs().max()
    return graphs


def test_what_convolutions_read_and_give_is_saved_in_channels_last() -> None:
    torch.manual_seed(0)
    x, w, v = torch.randn(2, 3, 16, 16), torch.randn(8, 3, 3, 3), torch.randn(6, 8, 3, 3)
    _, backward = check(lambda x, w, v: F.conv2d(F.conv2d(x, w, padding=1).sin(), v).sin(), x, w, v)
    assert images(backward) == [(6, 1), (8, 1), (8, 1)]


def test_a_weight_that_the_graph_computes_is_saved_as_its_gradient_takes_it() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 8, 16, 16), torch.randn(6, 8, 3, 3)
    _, backward = check(lambda x, w: F.conv2d(x.sin(), w.tanh(), padding=1).sin(), x, w)
    arguments = [n for n in backward.graph.nodes if n.op == "placeholder" and n.name.startswith("tanh")]
    assert [n.meta["val"].stride() for n in arguments] == [(72, 1, 24, 8)]


def test_heads_behind_a_convolution_are_saved_as_they_are() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 16, 16), torch.randn(16, 3, 3, 3)

    def heads(x: Tensor, w: Tensor) -> Tensor:
        tokens = F.conv2d(x, w, padding=1).flatten(2)
        return tokens.view(2, 4, 4, 256).cumsum(-1).sin()

    _, backward = check(heads, x, w)
    (saved,) = (n.meta["val"] for n in backward.graph.nodes if n.name == "cumsum")
    assert saved.is_contiguous()


def test_patches_are_saved_as_they_are() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 32, 32), torch.randn(8, 3, 8, 8)
    _, backward = check(lambda x, w: F.conv2d(x.sin(), w, stride=8).sin(), x, w)
    found = images(backward)
    assert found and all(stride > 1 for _, stride in found)


def test_what_is_returned_and_what_has_more_weights_than_elements_stays_row_major() -> None:
    torch.manual_seed(0)
    x, w, v = torch.randn(2, 3, 8, 8), torch.randn(64, 3, 3, 3), torch.randn(64, 64, 3, 3)

    def large_weights(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return F.conv2d(F.conv2d(x, w, stride=4, padding=1).sin(), v, padding=1).sin()

    _, backward = check(large_weights, x, w, v)
    assert images(backward) == [(64, 4)] * 3

    compiled, graphs = split(lambda x, w: (y := F.conv2d(x, w), y.sin().sin()))
    y, z = compiled(x.requires_grad_(), w.requires_grad_())
    (y.sum() + z.sum()).backward()
    assert y.is_contiguous()
    assert images(graphs[1]) == [(64, 36)]


def test_a_graph_that_reads_by_strides_keeps_its_layouts() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 16, 16), torch.randn(8, 3, 3, 3)

    def by_strides(x: Tensor, w: Tensor) -> Tensor:
        y = F.conv2d(x, w).sin()
        return y.as_strided((2, 8, 14), (1568, 196, 1)).exp() + y.sin().sum()

    _, backward = check(by_strides, x, w)
    assert all(stride != 1 for _, stride in images(backward))


def test_a_view_of_an_image_is_saved_as_a_view_of_channels_last() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 16, 16), torch.randn(8, 3, 3, 3)
    _, backward = check(lambda x, w: F.layer_norm(F.conv2d(x, w).permute(0, 2, 3, 1), (8,)).sin(), x, w)
    saved = [n.meta["val"] for n in backward.graph.nodes if n.op == "placeholder" and n.name.startswith("permute")]
    assert [v.stride() for v in saved] == [(1568, 112, 8, 1)]


def test_tokens_of_an_image_are_saved_side_by_side() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 16, 16), torch.randn(8, 3, 3, 3)
    _, backward = check(lambda x, w: F.conv2d(x, w).flatten(2).transpose(1, 2).sin(), x, w)
    saved = [n.meta["val"] for n in backward.graph.nodes if n.op == "placeholder" and n.name.startswith("transpose")]
    assert [v.stride() for v in saved] == [(1568, 8, 1)]


def test_an_image_whose_dims_are_in_another_order_is_no_image() -> None:
    torch.manual_seed(0)
    x, w, v = torch.randn(2, 3, 16, 16), torch.randn(8, 3, 3, 3), torch.randn(8, 8)
    _, backward = check(lambda x, w, v: (F.conv2d(x, w).permute(0, 2, 3, 1) @ v).sigmoid().sin(), x, w, v)
    saved = [n.meta["val"] for n in backward.graph.nodes if n.op == "placeholder" and n.name.startswith("sigmoid")]
    assert saved and all(v.is_contiguous() for v in saved)


def test_what_is_computed_from_a_view_of_an_image_is_saved_as_the_view_lies() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 16, 16), torch.randn(8, 3, 3, 3)
    _, backward = check(lambda x, w: F.layer_norm(F.conv2d(x, w).permute(0, 2, 3, 1).sigmoid(), (8,)).sin(), x, w)
    saved = [n.meta["val"] for n in backward.graph.nodes if n.op == "placeholder" and n.name.startswith("sigmoid")]
    assert saved and all(v.is_contiguous() for v in saved)


def test_an_image_whose_view_channels_last_has_not_is_saved_as_it_is() -> None:
    torch.manual_seed(0)
    x, w, v = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(144, 5)
    _, backward = check(lambda x, w, v: F.conv2d(x, w).view(2, 144).sin() @ v, x, w, v)
    assert images(backward) == [(4, 36)]


def test_images_whose_gradient_onednn_computes_row_major_only_are_saved_so() -> None:
    torch.manual_seed(0)
    x, w, v = torch.randn(2, 3, 16, 16), torch.randn(4, 3, 3, 3), torch.randn(6, 4, 1, 1)
    _, backward = check(lambda x, w, v: F.conv2d(F.conv2d(x, w, padding=1).sin(), v, stride=2).sin(), x, w, v)
    assert images(backward) == [(4, 1), (4, 256), (6, 64)]
