"""What torch's dispatcher takes beside numbers and tensors, by ops of our own whose arguments say what arrived."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from cuesta.dialects.host.aten_abi import Number, Present, Undefined, dispatcher_words
from cuesta.lowering.host_to_llvm import needed
from cuesta.lowering.host_to_llvm.dispatch_step import BOX_FROM_NEW, BOX_FROM_TORCH, word_helper
from cuesta.runtime.executable import Executable
from cuesta.torch_versions import installed

X = torch.tensor([1.0, 2.0])
Call = Callable[..., list[torch.Tensor]]


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    library = torch.library.Library("aten", "FRAGMENT")
    library.define("cuesta_count(Tensor x, Tensor y, Device? place, float? f) -> (Tensor, int, Tensor)")
    library.impl("cuesta_count", _count, "CPU")
    yield
    library._destroy()


SEEN: list[tuple[Any, ...]] = []


def _count(x: torch.Tensor, y: torch.Tensor | None, place: torch.device | None, f: float | None) -> Any:
    SEEN.append((y is None, place, f))
    return x + 1, 7, x * 2


@pytest.fixture
def call(call_of: Callable[..., Executable]) -> Callable[..., list[torch.Tensor]]:
    """`call(args, results=2)`: what the op gives through the dispatcher to a program that keeps so many tensors."""

    def run(args: list[Any], results: int = 2) -> list[torch.Tensor]:
        program = call_of("aten.cuesta_count.default", args, [X], [X] * results, "shim", [0, 2][:results])
        SEEN.clear()
        return program([X])

    return run


@pytest.mark.parametrize("results", [1, 2])
def test_a_number_among_the_results_is_left_alone(call: Call, results: int) -> None:
    torch.testing.assert_close(call(["%0", "%0", None, None], results), [X + 1, X * 2][:results])
    assert list(SEEN) == [(False, None, None)]


def test_a_tensor_that_is_none_arrives_undefined(call: Call) -> None:
    torch.testing.assert_close(call(["%0", None, None, None]), [X + 1, X * 2])
    assert list(SEEN) == [(True, None, None)]


@pytest.mark.parametrize(
    "box",
    [
        pytest.param(
            BOX_FROM_TORCH,
            marks=pytest.mark.skipif(installed() < (2, 13), reason="torch before 2.13 has no function that makes one"),
        ),
        BOX_FROM_NEW,
    ],
)
@pytest.mark.parametrize("device", ["cpu", "cuda:3", "meta"])
def test_devices_and_other_optionals_arrive(call: Call, box: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(needed.HELPERS, "cuesta_word", word_helper(box))
    torch.testing.assert_close(call(["%0", "%0", {"device": device}, 2.5]), [X + 1, X * 2])
    assert list(SEEN) == [(False, torch.device(device), 2.5)]


def test_words() -> None:
    text = json.dumps(["%0", None, {"device": "cuda:1"}, None])
    words = dispatcher_words("aten.cuesta_count.default", text)
    assert words is not None
    assert words[1:] == (Undefined(), Present(Number(1 << 32 | 1)), Number(0))


@pytest.mark.parametrize(("name", "argument"), [("_unsafe_view.default", [2, 1]), ("unsafe_split.Tensor", 1)])
def test_what_returns_views_unsaid_goes_through_python(name: str, argument: Any) -> None:
    """Which copies what is a view of an operand: a program uses an operand's memory again."""
    overload = torch.ops.aten
    for part in name.split("."):
        overload = getattr(overload, part)
    (first, *_) = [made] if isinstance(made := overload(X, argument), torch.Tensor) else made
    assert first.data_ptr() == X.data_ptr()
    assert dispatcher_words(f"aten.{name}", json.dumps(["%0", argument])) is None
