"""The judge of the end-to-end tests: what it accepts, and that it refuses what is wrong."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cuesta.tools.accuracy import check_close, neighbours


def check(actual: Tensor, expected: Tensor, exact: Tensor | None = None, **others: Tensor) -> None:
    """`others` are right, and set the scale."""
    wide = {name: value.double() for name, value in others.items()}
    check_close(
        {"x": actual, **others},
        {"x": expected, **others},
        {"x": expected.double() if exact is None else exact, **wide},
        what="values",
    )


def test_another_order_of_summation_is_accepted() -> None:
    x = torch.randn(64, 10_000)
    check(x.flip(1).cumsum(1)[:, -1], x.cumsum(1)[:, -1], x.double().sum(1))


@pytest.mark.parametrize("error", [1e-4, -1e-4, float("nan"), float("inf")])
def test_one_wrong_element_is_refused(error: float) -> None:
    expected = torch.randn(50, 20)
    actual = expected.clone()
    actual[31, 4] += error
    with pytest.raises(AssertionError, match=r"values: 1 differences\n  x: "):
        check(actual, expected)


def test_rounding_is_accepted_beside_large_values() -> None:
    check(torch.full((4,), 1e-9), torch.full((4,), -2e-9), torch.zeros(4, dtype=torch.float64), large=torch.ones(3))


def test_an_error_larger_than_eagers_is_refused() -> None:
    exact = torch.randn(1000, dtype=torch.float64)
    eager = exact.float()
    with pytest.raises(AssertionError, match="eager's is"):
        check(eager * (1 + 2e-5), eager, exact)


@pytest.mark.parametrize(
    ("actual", "message"),
    [
        (torch.ones(2, 3, dtype=torch.float64), "dtype"),
        (torch.ones(3, 2), "shape"),
        (torch.ones(3, 2).t(), "strides"),
        (torch.ones(2, 3, requires_grad=True), "requires_grad"),
    ],
    ids=["dtype", "shape", "strides", "requires_grad"],
)
def test_another_form_is_refused(actual: Tensor, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check(actual, torch.ones(2, 3))


def test_the_stride_of_a_dimension_of_size_one_is_free() -> None:
    check(torch.ones(2, 1).as_strided((2, 1), (1, 7)), torch.ones(2, 1))


def test_integers_are_compared_exactly() -> None:
    with pytest.raises(AssertionError, match="int64"):
        check(torch.tensor([1, 2]), torch.tensor([1, 3]))


def test_missing_and_extra_tensors_are_named() -> None:
    one = {"a": torch.ones(1)}
    two = {"b": torch.ones(1)}
    with pytest.raises(AssertionError, match=r"no \['a'\]; missing are \['b'\]"):
        check_close(one, two, two, what="gradients")


def test_neighbours_of_videos_in_bf16() -> None:
    """Weights of five dims have no channels_last of images, and what is moved keeps its type."""
    module, x = nn.Conv3d(2, 3, 2).bfloat16(), torch.randn(1, 2, 4, 4, 4).bfloat16()
    found = list(neighbours(module, {"x": x}))
    assert len(found) == 3
    for near, inputs in found:
        assert inputs["x"].dtype == torch.bfloat16
        assert near(inputs["x"]).shape == (1, 3, 3, 3, 3)
