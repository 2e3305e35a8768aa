"""The decompositions of padding by reflection and by the edge, and of their gradients, against ATen's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import cuesta
from cuesta.frontend.decompositions import paddings
from cuesta.frontend.decompositions.table import decompositions

aten = torch.ops.aten


def floats(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


#: sizes, and elements in front and behind of each dim, the last one first
PADS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "a row": ((3, 5), (2, 1)),
    "one side": ((3, 5), (0, 4)),
    "an image": ((2, 3, 4, 5), (2, 0, 1, 3)),
    "a volume": ((1, 2, 3, 4, 3), (1, 2, 0, 1, 2, 1)),
    "a crop": ((2, 4, 6), (-1, 2, 1, -2)),
    "a crop of both sides": ((2, 4, 6), (-1, -2, -2, -1)),
}
#: of copies alone
FURTHER: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "one pixel": ((1, 1, 1), (2, 3, 1, 1)),
    "a crop to copies": ((2, 3, 3), (-3, 2, 3, -4)),
}
KINDS = [("reflection", *pads) for pads in PADS.values()]
KINDS += [("replication", *pads) for pads in (PADS | FURTHER).values()]
NAMES = [f"reflection, {name}" for name in PADS] + [f"replication, {name}" for name in (*PADS, *FURTHER)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize(("kind", "sizes", "pads"), KINDS, ids=NAMES)
def test_padding(kind: str, sizes: tuple[int, ...], pads: tuple[int, ...], dtype: torch.dtype) -> None:
    op = getattr(aten, f"{kind}_pad{len(pads) // 2}d").default
    x = floats(*sizes).to(dtype)
    for given in (x, x.to(memory_format=torch.channels_last) if x.dim() == 4 else x):
        place = paddings.mirrored if kind == "reflection" else paddings.clamped
        whole = op(given, pads)
        for mine in (decompositions()[op](given, list(pads)), paddings.read_at(place, given, list(pads))):
            assert torch.equal(mine, whole) and mine.stride() == whole.stride()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("kind", "sizes", "pads"), KINDS, ids=NAMES)
def test_gradient(kind: str, sizes: tuple[int, ...], pads: tuple[int, ...], dtype: torch.dtype) -> None:
    op = getattr(aten, f"{kind}_pad{len(pads) // 2}d")
    x = floats(*sizes).double()
    grad = floats(*op(x, pads).shape).double()
    backward = getattr(aten, f"{kind}_pad{len(pads) // 2}d_backward").default
    mine = decompositions()[backward](grad.to(dtype), x.to(dtype), list(pads))
    torch.testing.assert_close(mine, backward(grad.to(dtype).double(), x, pads).to(dtype))


CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "reflection": lambda x: F.pad(x, (2, 1, 1, 2), "reflect").sin(),
    "replication": lambda x: F.pad(x.exp(), (2, 1), "replicate") * F.pad(x, (0, 3), "replicate").sum(),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", CASES.values(), ids=CASES.keys())
def test_compiled_with_gradients(function: Callable[[Tensor], Tensor], dynamic: bool) -> None:
    def gradient(run: Callable[[Tensor], Tensor], *sizes: int) -> Tensor:
        x = floats(*sizes).double().requires_grad_()
        run(x).square().sum().backward()
        assert x.grad is not None
        return x.grad

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", dynamic=dynamic)
    for sizes in ((2, 4, 6), (3, 5, 9)) if dynamic else ((2, 4, 6),):
        torch.testing.assert_close(gradient(compiled, *sizes), gradient(function, *sizes))
    assert [graph.aten_calls for graph in cuesta.report().graphs] == [[], []]
