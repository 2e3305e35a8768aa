"""Results that ATen leaves undefined: None, as in eager."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cuesta.errors import ExecutionError
from cuesta.runtime.callbacks import PythonCalls

aten = torch.ops.aten
R = torch.randn
Same = Callable[..., Any]


def attend(x: Tensor, weights: Tensor, bias: Tensor, out: Tensor, out_bias: Tensor, **options: bool) -> Any:
    return torch._native_multi_head_attention(x, x, x, 8, 2, weights, bias, out, out_bias, **options)


ATTENTION = (R(2, 4, 8), R(24, 8), R(24), R(8, 8), R(8))


def test_attention_without_its_weights(same_as_eager: Same) -> None:
    same_as_eager(lambda *a: attend(*a, need_weights=False), *ATTENTION)
    same_as_eager(lambda *a: attend(*a, need_weights=True), *ATTENTION)
    same_as_eager(lambda *a: attend(*a, need_weights=False)[0] + 1, *ATTENTION)


@pytest.mark.may_fall_back("what eager raises")
def test_what_computes_with_an_undefined_result_raises_as_in_eager(backend: str) -> None:
    compiled = torch.compile(lambda *a: attend(*a, need_weights=False)[1] + 1, backend=backend)
    with pytest.raises((TypeError, RuntimeError), match="None"):
        compiled(*ATTENTION)


RECURRENT = (R(3, 2, 4), R(20, 4), R(20, 5), R(20), R(20), R(2, 5), R(2, 5))


def recurrent(*arguments: Tensor) -> Any:
    return aten.mkldnn_rnn_layer(*arguments, False, [], 2, 5, 1, True, False, False, True)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="oneDNN's op")
def test_a_recurrent_layer_of_onednn(same_as_eager: Same) -> None:
    with torch.no_grad():  # as AOTAutograd calls it: ATen keeps a workspace for autograd only
        same_as_eager(recurrent, *RECURRENT)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="oneDNN's op")
def test_one_that_is_trained_says_what_is_missing(cuesta_only: None) -> None:
    arguments = [x.clone().requires_grad_() for x in RECURRENT]
    with pytest.raises(RuntimeError, match=r"mkldnn_rnn_layer.default needs its result 3"):
        torch.compile(lambda *a: recurrent(*a)[0], backend="cuesta")(*arguments)


MASKS: dict[str, tuple[Any, int, tuple[Any, ...]]] = {
    "convolution": (
        aten.convolution_backward.default,
        3,
        (R(2, 4, 6, 6), R(2, 3, 8, 8), R(4, 3, 3, 3), [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ),
    "layer norm": (aten.native_layer_norm_backward.default, 3, (R(2, 4), R(2, 4), [4], R(2, 1), R(2, 1), R(4), R(4))),
    "group norm": (
        aten.native_group_norm_backward.default,
        3,
        (R(2, 4, 5), R(2, 4, 5), R(2, 2), R(2, 2), R(4), 2, 4, 5, 2),
    ),
    "batch norm": (
        aten.native_batch_norm_backward.default,
        3,
        (R(2, 4, 5), R(2, 4, 5), R(4), R(4), R(4).abs(), R(4), R(4).abs(), True, 1e-5),
    ),
    "grid sampler": (
        aten.grid_sampler_2d_backward.default,
        2,
        (R(2, 3, 4, 4), R(2, 3, 5, 5), torch.rand(2, 4, 4, 2) - 0.5, 0, 0, False),
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_what_an_output_mask_leaves_out(name: str, backend: str) -> None:
    """All masks in one graph. ATen may give more than was asked for; what was asked for it gives."""
    op, results, arguments = MASKS[name]
    masks = [mask for mask in itertools.product((False, True), repeat=results) if any(mask)]

    def f(*tensors: Tensor) -> list[Any]:
        given = iter(tensors)
        call = [next(given) if isinstance(a, Tensor) else a for a in arguments]
        return [op(*call, list(mask)) for mask in masks]

    tensors = [a for a in arguments if isinstance(a, Tensor)]
    eager, ours = f(*tensors), torch.compile(f, backend=backend)(*tensors)
    for mask, wants, gots in zip(masks, eager, ours, strict=True):
        for asked, want, got in zip(mask, wants, gots, strict=True):
            if asked:
                torch.testing.assert_close(got, want)
            else:
                assert got is None or want is not None


@pytest.mark.parametrize("sizes", [[3], [0]])
def test_an_undefined_result_that_nothing_foretold_is_an_error(sizes: list[int], cuesta_only: None) -> None:
    """A fourth result of a call through Python, as if the op were not in the table."""
    result = {"sizes": sizes, "strides": [1], "dtype": "f32"}
    args = '["%0", "%1", "%2", "%3", "%4", "%5", "%6", false, [], 2, 5, 1, true, false, false, true]'
    call = {"overload": "aten.mkldnn_rnn_layer.default", "args": args, "operands": 7, "results": [result]}
    with torch.no_grad(), pytest.raises(ExecutionError, match="returned no tensor"):
        PythonCalls([{**call, "positions": [3]}])._run(0, list(RECURRENT))
