"""Import rules of pools and of views at other strides, with their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

aten = torch.ops.aten
Check = Callable[..., Any]


def floats(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


IMAGE, CUBE, M = floats(2, 3, 9, 8), floats(1, 2, 5, 6, 4), floats(4, 6)
WHOLE = (IMAGE * 9).long()
#: Rows of -inf, of equal numbers and with several NaN.
ODD = IMAGE.clone()
ODD[0, 0] = -math.inf
ODD[0, 1] = 1
ODD[0, 2, 2:5, 3:5] = math.nan

WINDOWS: dict[str, tuple[Any, ...]] = {
    "apart": (2,),
    "overlapping": (3, 2, 1),
    "of two sides": ((3, 2), (1, 2), (1, 0)),
    "with a ceiling": (3, 2, 1, 1, True),
    "with gaps": (2, 2, 1, 2),
    "apart with gaps": ((2, 1), 3, 0, 2, True),
}


@pytest.mark.parametrize("x", [IMAGE, WHOLE, ODD, IMAGE.bfloat16()], ids=["f32", "int", "odd", "bf16"])
def test_max_pool(x: torch.Tensor, matches_eager: Check) -> None:
    def pools(x: torch.Tensor) -> dict[str, Any]:
        return {
            name: (F.max_pool2d(x, *window, return_indices=True), F.max_pool2d(x, *window))
            for name, window in WINDOWS.items()
        }

    assert "aten.call" not in matches_eager(pools, x).ops()


CASES: dict[str, tuple[Any, ...]] = {
    "max_pool1d": (lambda x: F.max_pool1d(x[0], 3, 2, 1), IMAGE),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2, 2, 1, return_indices=True), CUBE),
    "avg_pool1d": (lambda x: F.avg_pool1d(x[0], 3, 2, 1), IMAGE),
    "avg_pool2d": (lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, (3, 1))), IMAGE),
    "avg_pool2d without its padding": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), IMAGE),
    "avg_pool2d with a ceiling": (
        lambda x: (F.avg_pool2d(x, 3, 2, 1, True), F.avg_pool2d(x, 2, 2, 0, True, False)), IMAGE,
    ),
    "avg_pool2d with a divisor": (lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=7), IMAGE),
    "avg_pool2d of bf16": (lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGE.bfloat16()),
    "avg_pool2d of ints": (
        lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, True, False)), WHOLE,
    ),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, 1, 1), CUBE),
    "adaptive_avg_pool2d": (lambda x: (F.adaptive_avg_pool2d(x, (3, 4)), F.adaptive_avg_pool2d(x, 1)), IMAGE),
    "adaptive_avg_pool2d into parts that overlap": (
        lambda x: (F.adaptive_avg_pool2d(x, (4, 5)), F.adaptive_avg_pool2d(x.bfloat16(), (11, 3)),
                   aten._adaptive_avg_pool2d_backward(F.adaptive_avg_pool2d(x, (4, 12)), x)), IMAGE,
    ),
    "adaptive_avg_pool3d into parts that overlap": (
        lambda x: (F.adaptive_avg_pool3d(x, (2, 4, 3)),
                   aten._adaptive_avg_pool3d_backward(F.adaptive_avg_pool3d(x, (2, 4, 3)), x)), CUBE,
    ),
    "adaptive_max_pool2d": (
        lambda x: (F.adaptive_max_pool2d(x, (3, 4), True), F.adaptive_max_pool2d(x, (4, 11), True),
                   F.adaptive_max_pool2d(x, (4, 5)), F.adaptive_max_pool2d(x, 1)), ODD,
    ),
    "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, (2, 4, 3), True), CUBE),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (1, 3, 2)), CUBE),
    "fold": (
        lambda x: (F.fold(x, (5, 4), (2, 3)), F.fold(x, (5, 2), (2, 1), stride=(2, 1), padding=(0, 1)),
                   F.fold(x, (7, 2), (2, 1), dilation=(3, 1)), F.fold(x[0, :, :6], (4, 4), (3, 2)),
                   F.fold(x.abs().bfloat16(), (5, 4), (2, 3))), floats(2, 6, 8),
    ),
    "diagonal": (lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-2)), M),
    "diagonal of other dims": (lambda x: (x.diagonal(0, 1, 3), x.diagonal(1, 3, 0), x.diagonal(-1, 2, 1)), IMAGE),
    "diagonal_scatter": (
        lambda x, y: (aten.diagonal_scatter(x, y), aten.diagonal_scatter(x, y[1:], -1),
                      aten.diagonal_scatter(x, y, 2), aten.diagonal_scatter(x.t(), y, -1)), M, floats(4),
    ),
    "diagonal_scatter of other dims": (lambda x, y: aten.diagonal_scatter(x, y, 1, 3, 0), IMAGE, floats(3, 9, 1)),
    "unfold": (lambda x: (x.unfold(1, 3, 2), x.unfold(0, 2, 1), x.unfold(-1, 1, 1)), M),
    "unfold of a scalar": (lambda x: x.sum().unfold(0, 1, 2), M),
    "unfold_backward": (
        lambda g: (aten.unfold_backward(g, [7, 3, 5], 0, 3, 2), aten.unfold_backward(g[:, :, 0], [7, 3], 0, 3, 2)),
        floats(3, 3, 5, 3),
    ),
    "unfold_backward of windows apart": (
        lambda g: (aten.unfold_backward(g, [5, 6], 1, 2, 2), aten.unfold_backward(g.bfloat16(), [5, 9], -1, 2, 3)),
        floats(5, 3, 2),
    ),
    "unfold_backward of the same windows for all": (
        lambda g: (aten.unfold_backward(g[:1], [4, 9], 1, 5, 2), aten.unfold_backward(g[:1, :2], [4, 10], 1, 5, 5)),
        floats(2, 3, 5),
    ),
    "unfold_backward of a scalar": (lambda g: aten.unfold_backward(g, [], 0, 1, 1), floats(1)),
    "roll": (lambda x: (x.roll(2), x.roll(-1, 0), x.roll((1, 9), (0, 1)), x.roll(0, 1), x.roll((1, 1), (1, 1))), M),
    "slice_scatter": (
        lambda x, y: (aten.slice_scatter(x, y, 1, 2, 4), aten.slice_scatter(x, y, -1, -2),
                      aten.slice_scatter(x, y, 1, 1, 5, 2), aten.slice_scatter(x, y, 1, 0, 6, 3)), M, floats(4, 2),
    ),
    "slice_backward with a step": (
        lambda g: (aten.slice_backward(g, [4, 6], 1, 1, 6, 2), aten.slice_backward(g, [4, 8], 1, 0, 8, 3)),
        floats(4, 3),
    ),
    "as_strided": (lambda x: ((x + 1).as_strided((3, 4), (1, 2)), (x.t() + 1).as_strided((2, 2), (2, 7), 3)), M),
    "masked writes": (lambda x, m: (x.index_put((m,), torch.tensor(2.0)), x.index_put((m[0], ), x[0, 0])),
                      floats(6, 6), floats(6, 6) > 0),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_case(case: tuple[Any, ...], matches_eager: Check) -> None:
    run = matches_eager(*case)
    assert "aten.call" not in run.ops()


def test_as_strided_beyond_its_tensor_is_refused(capture: Any) -> None:
    reading = capture.compile(lambda x: (x[0] + 0).as_strided((4, 2), (6, 1)))
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="memory that its tensor does not name"):
        reading(M)


@pytest.mark.parametrize("pool", [
    lambda x: F.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.max_pool2d(x, (3, 4), (1, 3)),
    lambda x: F.avg_pool2d(x, 2), lambda x: F.avg_pool2d(x, 3, 2, 1, True, False), lambda x: F.avg_pool2d(x, 5, 3, 2),
    lambda x: F.avg_pool2d(x, 2, 3, divisor_override=3), lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
])  # fmt: skip
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["rows", "channels_last"])
def test_gradient(pool: Callable[[torch.Tensor], torch.Tensor], layout: torch.memory_format, capture: Any) -> None:
    assert not _compare_gradients(pool, layout, capture)


@pytest.mark.parametrize("name", ["adaptive_avg_pool2d", "adaptive_max_pool2d"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["rows", "channels_last"])
def test_gradient_of_parts_that_overlap(name: str, layout: torch.memory_format, capture: Any) -> None:
    called = _compare_gradients(lambda x: getattr(F, name)(x, (4, 5)), layout, capture)
    # On a CPU ATen reads and adds up vectors of channels.
    ops = {f"aten.{'_' if 'avg' in name else ''}{name}{suffix}.default" for suffix in ("", "_backward")}
    assert called == (set() if layout is torch.contiguous_format else ops)


@pytest.mark.parametrize("window", [*WINDOWS.values(), (5, 1, 2)])
@pytest.mark.parametrize("x", [IMAGE, ODD], ids=["f32", "odd"])
def test_gradient_of_max_pool(x: torch.Tensor, window: tuple[Any, ...], matches_eager: Check) -> None:
    size, stride, padding, dilation, ceiling = (*window, *(None, 0, 1, False)[len(window) - 1 :])
    places, positions = F.max_pool2d(x, size, stride, padding, dilation, ceiling, return_indices=True)
    rest = [stride or [], padding, dilation, ceiling]
    run = matches_eager(
        lambda grad, x, at: aten.max_pool2d_with_indices_backward(
            grad, x, _pair(size), *map(_pair, rest[:3]), rest[3], at
        ),
        *(places.cos(), x, positions),
    )
    assert "aten.call" not in run.ops()


def _pair(number: Any) -> Any:
    return [number, number] if isinstance(number, int) else number


def _compare_gradients(
    pool: Callable[[torch.Tensor], torch.Tensor], layout: torch.memory_format, capture: Any
) -> set[str]:
    """Checks the pool's gradient; returns the calls into ATen."""

    def gradient(run: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        x = IMAGE.clone(memory_format=layout).requires_grad_()
        run(x).square().sum().backward()
        assert x.grad is not None
        return x.grad

    torch.testing.assert_close(gradient(capture.compile(pool)), gradient(pool))
    return {op for run in capture.runs for op in run.reasons()}
