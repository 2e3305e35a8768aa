"""What torch's dispatcher takes beside numbers and tensors, by ops of our own whose arguments say what arrived."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import cuesta.passes
from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.dialects.host.aten_abi import Number, Present, Undefined, dispatcher_words
from cuesta.lowering.host_to_llvm import entry
from cuesta.lowering.host_to_llvm.describe import describe
from cuesta.lowering.host_to_llvm.dispatch_step import BOX_FROM_NEW, BOX_FROM_TORCH, word_helper
from cuesta.lowering.host_to_llvm.object_code import compile_to_object
from cuesta.passes.pipeline import Pipeline
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable

X = torch.tensor([1.0, 2.0])


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


def call(args: list[Any], results: int = 2) -> list[torch.Tensor]:
    """The results of the op, of which a program keeps the first `results` tensors, called through the dispatcher."""
    cuesta.passes.load_all()
    text = json.dumps(args)
    kinds, names = ", ".join(["memref<2xf32>"] * results), ", ".join(f"%r#{i}" for i in range(results))
    source = f"""
    func.func @graph(%x: memref<2xf32>) -> ({kinds}) {{
      %r:{results} = "host.aten"(%x) {{overload = "aten.cuesta_count.default", args = {json.dumps(text)},
        dtypes = {json.dumps(["f32"] * (1 + results))}, reason = "", route = "shim", positions = {[0, 2][:results]}}}
        : (memref<2xf32>) -> ({kinds})
      return {names} : {kinds}
    }}"""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(source)
        Pipeline.parse("builtin.module(plan-memory)").run(module)
        metadata = describe(module)
        Pipeline.parse("builtin.module(host-to-llvm)").run(module)
        artefact = Artefact(compile_to_object(module), "cuesta_main", {"program": metadata})
    SEEN.clear()
    return Executable(artefact)([X])


@pytest.mark.parametrize("results", [1, 2])
def test_a_number_among_the_results_is_left_alone(results: int) -> None:
    torch.testing.assert_close(call(["%0", "%0", None, None], results), [X + 1, X * 2][:results])
    assert list(SEEN) == [(False, None, None)]


def test_a_tensor_that_is_none_arrives_undefined() -> None:
    torch.testing.assert_close(call(["%0", None, None, None]), [X + 1, X * 2])
    assert list(SEEN) == [(True, None, None)]


@pytest.mark.parametrize("box", [BOX_FROM_TORCH, BOX_FROM_NEW])
@pytest.mark.parametrize("device", ["cpu", "cuda:3", "meta"])
def test_devices_and_other_optionals_arrive(box: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(entry._HELPERS, "cuesta_word", word_helper(box))
    torch.testing.assert_close(call(["%0", "%0", {"device": device}, 2.5]), [X + 1, X * 2])
    assert list(SEEN) == [(False, torch.device(device), 2.5)]


def test_words() -> None:
    text = json.dumps(["%0", None, {"device": "cuda:1"}, None])
    words = dispatcher_words("aten.cuesta_count.default", text)
    assert words is not None
    assert words[1:] == (Undefined(), Present(Number(1 << 32 | 1)), Number(0))


@pytest.mark.parametrize("call", [("_unsafe_view.default", [2, 1]), ("unsafe_split.Tensor", 1)], ids=lambda c: c[0])
def test_what_returns_views_unsaid_goes_through_python(call: tuple[str, Any]) -> None:
    """Which copies what is a view of an operand: a program uses an operand's memory again."""
    name, argument = call
    overload = torch.ops.aten
    for part in name.split("."):
        overload = getattr(overload, part)
    (first, *_) = [made] if isinstance(made := overload(X, argument), torch.Tensor) else made
    assert first.data_ptr() == X.data_ptr()
    assert dispatcher_words(f"aten.{name}", json.dumps(["%0", argument])) is None
