"""Single numbers of f16, which LLVM compiles without vectors: to f64 and back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sin": lambda x, wide: x.sin(),
    "cos": lambda x, wide: x.cos(),
    "copysign": lambda x, wide: x.copysign(wide.half()),
    "copysign in f32": lambda x, wide: x.float().copysign(wide.float()).half(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("number", [1.5, -0.0, 2000.0, float("inf")])
def test_one_number_of_f16(name: str, number: float) -> None:
    x, wide = torch.tensor(number, dtype=torch.float16), torch.tensor(-2.0, dtype=torch.float64)
    found = torch.compile(FUNCTIONS[name], backend="cuesta", dynamic=False)(x, wide)
    expected = FUNCTIONS[name](x, wide)
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert expected.isnan() or found.signbit() == expected.signbit()
