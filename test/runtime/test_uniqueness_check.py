"""A tensor that is written to is the list's alone, in memory that nothing else is in; else a copy is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cuesta.runtime.uniqueness_check import own

Tensor = torch.Tensor


def test_what_the_list_alone_has_stays() -> None:
    tensors = [torch.randn(8, 8), torch.empty_strided((8, 8), (1, 8)), torch.randn(4, 4, dtype=torch.float64)]
    before = [t.data_ptr() for t in tensors]
    for i, nbytes in enumerate((256, 256, 128)):
        own(tensors, i, nbytes)
    assert [t.data_ptr() for t in tensors] == before


class _Keeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor) -> Tensor:
        ctx.save_for_backward(kept)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0], None


def _saved_by_autograd(tensor: Tensor) -> Tensor:
    return _Keeps.apply(torch.zeros(1, requires_grad=True), tensor)  # type: ignore[no-any-return, no-untyped-call]


HOLDERS: dict[str, Callable[[Tensor], Any]] = {
    "itself": lambda t: t,
    "a list": lambda t: [t],
    "a view": lambda t: t[:2],
    "a detached one": lambda t: t.detach(),
    "its memory": lambda t: t.untyped_storage(),
    "an array": lambda t: t.numpy(),
    "a capsule": torch.utils.dlpack.to_dlpack,
    "autograd": _saved_by_autograd,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_somebody_else_has_is_copied(holder: str) -> None:
    tensors = [torch.randn(8, 8)]
    held = HOLDERS[holder](tensors[0])
    address, values = tensors[0].data_ptr(), tensors[0].tolist()
    own(tensors, 0, 256)
    assert tensors[0].data_ptr() != address
    assert tensors[0].tolist() == values
    del held


def test_what_is_in_the_list_twice_is_copied() -> None:
    tensors = [torch.randn(8, 8)] * 2
    own(tensors, 0, 256)
    assert tensors[0].data_ptr() != tensors[1].data_ptr()


@pytest.mark.parametrize("make", [lambda: torch.randn(9, 8)[1:], lambda: torch.randn(16, 8)[:8].t()])
def test_a_part_of_larger_memory_is_copied_as_it_lies(make: Callable[[], Tensor]) -> None:
    tensors = [make()]
    values, strides = tensors[0].tolist(), tensors[0].stride()
    own(tensors, 0, 256)
    assert (tensors[0].tolist(), tensors[0].stride()) == (values, strides)
    assert tensors[0].untyped_storage().nbytes() == 256
