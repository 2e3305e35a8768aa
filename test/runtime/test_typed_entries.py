"""Typed functions of torch's C shim: signatures as torch's own headers have them, and calls for real."""

from __future__ import annotations

import ctypes
import gc
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from cuesta.dialects.host import typed_entries
from cuesta.dialects.host.typed_entries import dispatcher_mistakes_results, typed_entry
from cuesta.errors import ExecutionError
from cuesta.lowering.host_to_llvm import needed, typed_step
from cuesta.passes.form_kernels.routes import choose_route
from cuesta.runtime import executable as executable_module
from cuesta.runtime.elf.loader import process_resolver
from cuesta.runtime.executable import Executable
from cuesta.runtime.handles import make_handles

CallOf = Callable[..., Executable]

FUSED = "aten._scaled_dot_product_fused_attention_overrideable.default"
FLASH = "aten._scaled_dot_product_flash_attention_for_cpu.default"


class _Mallinfo(ctypes.Structure):
    _fields_ = [(f"field_{i}", ctypes.c_size_t) for i in range(10)]


def bytes_in_use() -> int:
    """What malloc has handed out: mallinfo2(3), uordblks."""
    gc.collect()
    information = ctypes.CDLL("libc.so.6").mallinfo2
    information.restype = _Mallinfo
    return int(information().field_7)


SEEN: list[tuple[Any, ...]] = []


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    library = torch.library.Library("aten", "FRAGMENT")
    library.define("cuesta_mixed(Tensor x) -> (Tensor, Tensor, int)")
    library.impl("cuesta_mixed", lambda x: (x + 1, x * 2, 7), "CPU")
    yield
    library._destroy()


_POINTERS = ctypes.POINTER(ctypes.c_int64)


@ctypes.CFUNCTYPE(
    ctypes.c_int32,
    *[ctypes.c_int64] * 3,
    _POINTERS,
    ctypes.c_double,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_double),
    *[_POINTERS] * 9,
)
def fused(q: int, k: int, v: int, bias: Any, p: float, causal: int, debug: int, scale: Any, *results: Any) -> int:
    """As torch's own function is called, which for this op only raises."""
    SEEN.append(([q, k, v], bias[0] if bias else None, p, causal, debug, scale[0] if scale else None))
    if p == 1:
        return 1
    for i, result in enumerate(results):
        result[0] = 100 + i if i in (4, 5) else make_handles([torch.full((2, 3), float(i))])[0]
    return 0


@pytest.fixture
def of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts `fused` in the place of torch's function."""
    address = ctypes.cast(fused, ctypes.c_void_p).value
    assert address is not None
    find = process_resolver()
    symbol = "aoti_torch_cpu__scaled_dot_product_fused_attention_overrideable"
    resolver = lambda name: address if name == symbol else find(name)  # noqa: E731
    monkeypatch.setattr(executable_module, "process_resolver", lambda: resolver)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_signatures_are_those_of_torch_s_header(device: str) -> None:
    folder = Path(torch.__file__).parent / "include/torch/csrc/inductor/aoti_torch/generated"
    header = (folder / f"c_shim_{device}.h").read_text()
    types = {"tensor": "AtenTensorHandle", "bool": "int32_t", "float": "double", "int": "int64_t"}
    optionals = {"tensor?": ["AtenTensorHandle*"], "value?": ["double*", "int64_t*"]}
    for overload in typed_entries._OVERLOADS[device]:
        entry = typed_entry(overload, device)
        assert entry is not None
        found = re.search(rf"\b{entry.symbol}\((.*?)\);", header)
        assert found is not None, entry.symbol
        parameters = [parameter.split()[0] for parameter in found.group(1).split(", ")]
        results = [f"{types[kind]}*" for kind in entry.results]
        assert parameters[len(entry.arguments) :] == results
        for kind, parameter in zip(entry.arguments, parameters, strict=False):
            assert parameter in optionals.get(kind, [types.get(kind)]), (entry.symbol, kind)


@pytest.mark.usefixtures("of_our_own")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [None, 0.25])
def test_results_of_mixed_types_and_optional_arguments(call_of: CallOf, masked: bool, scale: float | None) -> None:
    tensors = [torch.randn(2, 3) for _ in range(3 + masked)]
    args = ["%0", "%1", "%2", "%3" if masked else None, 0.5, True, False, {"kwargs": {"scale": scale}}]
    expected = [torch.full((2, 3), float(i)) for i in (0, 2, 7, 8)]
    executable = call_of(FUSED, args, tensors, expected, "shim", [0, 2, 7, 8])
    for _ in range(3):
        SEEN.clear()
        torch.testing.assert_close(executable(tensors), expected, rtol=0, atol=0)
        ((handles, bias, *rest),) = SEEN
        assert rest == [0.5, 1, 0, scale]
        assert (bias is not None) == masked and len({*handles, bias}) == 4


@pytest.mark.usefixtures("of_our_own")
def test_such_a_function_s_failure_is_raised(call_of: CallOf) -> None:
    tensors = [torch.randn(2, 3) for _ in range(3)]
    executable = call_of(FUSED, ["%0", "%1", "%2", None, 1.0, False, False], tensors, tensors[:1], "shim", [0])
    for _ in range(3):
        with pytest.raises(ExecutionError, match="fused_attention_overrideable"):
            executable(tensors)


def test_torch_s_message_is_raised(call_of: CallOf) -> None:
    tensors = [torch.randn(2, 3) for _ in range(3)]
    executable = call_of(FUSED, ["%0", "%1", "%2", None], tensors, tensors[:1], "shim", [0])
    with pytest.raises(ExecutionError, match="not implemented|torch refused"):
        executable(tensors)


@pytest.mark.parametrize("box", ["torch", "new"])
def test_such_a_call_keeps_nothing(call_of: CallOf, box: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuesta.lowering.host_to_llvm import dispatch_step as words

    if box == "new":  # as before torch 2.13
        monkeypatch.setitem(needed.HELPERS, "cuesta_word", words.word_helper(words.BOX_FROM_NEW))
        monkeypatch.setitem(
            needed.HELPERS,
            "cuesta_free_box",
            typed_step.free_helper("llvm.call @_ZdlPv(%box) : (!llvm.ptr) -> ()"),
        )
    q, k, v = (torch.randn(1, 1, 2, 4) for _ in range(3))
    mask = torch.zeros(2, 2)
    expected = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=mask, scale=0.5)
    args = ["%0", "%1", "%2", 0.0, False, {"kwargs": {"attn_mask": "%3", "scale": 0.5}}]
    executable = call_of(FLASH, args, [q, k, v, mask], expected, "shim")
    torch.testing.assert_close(executable([q, k, v, mask]), list(expected), rtol=0, atol=0)
    for _ in range(200):
        executable([q, k, v, mask])
    before = bytes_in_use()
    for _ in range(5000):
        executable([q, k, v, mask])
    assert bytes_in_use() - before < 5000 * 16  # a handle or a box takes 24 at least


def test_results_that_the_dispatcher_mistakes_go_another_way(call_of: CallOf) -> None:
    assert dispatcher_mistakes_results(FUSED)
    assert choose_route(FUSED, json.dumps(["%0", "%1", "%2", None]), []) == "shim"
    assert choose_route("aten.cuesta_mixed.default", '["%0"]', []) == "python"
    x = torch.randn(3)
    executable = call_of("aten.cuesta_mixed.default", ["%0"], [x], [x + 1, x * 2], None, [0, 1])
    torch.testing.assert_close(executable([x]), [x + 1, x * 2])


def test_complex_scalars_go_another_way_than_doubles() -> None:
    scaled = json.dumps(["%0", "%1", "%2", {"kwargs": {"alpha": {"complex": [1, 2]}}}])
    assert choose_route("aten.addmm.default", scaled, []) == "python"
    assert choose_route("aten.addmm.default", scaled.replace('{"complex": [1, 2]}', "2"), []) == "out"
