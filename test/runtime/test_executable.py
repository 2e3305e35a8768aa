"""Programs by hand at the planned stage, down to machine code, called with torch's tensors."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import cuesta.passes
from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.dialects.host.aten_abi import DTYPE_CODES
from cuesta.errors import ExecutionError
from cuesta.lowering.host_to_llvm.describe import describe
from cuesta.lowering.host_to_llvm.object_code import compile_to_object
from cuesta.passes.form_kernels.routes import choose_route
from cuesta.passes.pipeline import Pipeline
from cuesta.runtime import executable as executable_module
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.callbacks import PythonCalls
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.executable import ARENAS, Executable
from cuesta.runtime.handles import steal

Tensor = torch.Tensor

SPELLING = {dtype: spelling for spelling, dtype in DTYPES.items()}

#: y[0] = 2 x[0], and a byte that says whether x[0] is negative.
KERNELS = """
module @kernels {
  llvm.func @double(%x: !llvm.ptr, %y: !llvm.ptr, %threads: i64) {
    %v = llvm.load %x : !llvm.ptr -> f32
    %w = llvm.fadd %v, %v : f32
    llvm.store %w, %y : f32, !llvm.ptr
    llvm.return
  }
  llvm.func @negative(%x: !llvm.ptr, %y: !llvm.ptr, %threads: i64) {
    %v = llvm.load %x : !llvm.ptr -> f32
    %zero = llvm.mlir.constant(0.0 : f32) : f32
    %is = llvm.fcmp "olt" %v, %zero : f32
    %byte = llvm.zext %is : i1 to i8
    llvm.store %byte, %y : i8, !llvm.ptr
    llvm.return
  }
  llvm.func @threads(%y: !llvm.ptr, %threads: i64) {
    llvm.store %threads, %y : i64, !llvm.ptr
    llvm.return
  }
}
"""


def load(text: str, passes: str = "plan-memory") -> Executable:
    """Compiles the module, and loads it from the artefact's bytes, as a cache does."""
    cuesta.passes.load_all()
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        Pipeline.parse(f"builtin.module({passes})").run(module)
        metadata = describe(module)
        Pipeline.parse("builtin.module(host-to-llvm)").run(module)
        artefact = Artefact(compile_to_object(module), "cuesta_main", {"program": metadata})
    return Executable(Artefact.from_bytes(artefact.to_bytes()))


def memref(t: Tensor) -> str:
    storage = {"i1": "i8", "ui8": "i8"}.get(SPELLING[t.dtype], SPELLING[t.dtype])
    layout = "" if t.is_contiguous() else f", strided<{list(t.stride())}>"
    return f"memref<{''.join(f'{n}x' for n in t.shape)}{storage}{layout}>"


def attributes(t: Tensor) -> str:
    return f'{{cuesta.dtype = "{SPELLING[t.dtype]}", cuesta.strides = {list(t.stride())}}}'


def call_of(
    overload: str,
    args: Sequence[Any],
    tensors: Sequence[Tensor],
    expected: Sequence[Tensor],
    route: str | None = None,
    positions: Sequence[int] | None = None,
) -> Executable:
    """A program that makes one call and returns its results."""
    text = json.dumps(list(args))
    route = route or choose_route(overload, text, [])
    operands = ", ".join(f"%a{i}" for i in range(len(tensors)))
    parameters = ", ".join(f"%a{i}: {memref(t)} {attributes(t)}" for i, t in enumerate(tensors))
    results = ", ".join(f"{memref(t)} {attributes(t)}" for t in expected)
    kinds = ", ".join(map(memref, expected))
    dtypes = json.dumps([SPELLING[t.dtype] for t in (*tensors, *expected)])
    kept = "" if positions is None else f", positions = {list(positions)}"
    names = ", ".join(f"%r#{i}" for i in range(len(expected)))
    return load(f"""
    func.func @graph({parameters}) -> ({results}) {{
      %r:{len(expected)} = "host.aten"({operands}) {{overload = "{overload}", args = {json.dumps(text)},
        dtypes = {dtypes}, reason = "", route = "{route}"{kept}}} : ({", ".join(map(memref, tensors))}) -> ({kinds})
      return {names} : {kinds}
    }}""")


def assert_same(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=0, atol=0)
        assert (a.stride(), a.dtype, a.device) == (e.stride(), e.dtype, e.device)


ADDMM = """
func.func @graph(%c: memref<5xf32>, %a: memref<4x8xf32>, %b: memref<8x5xf32, strided<[1, 8]>>) -> memref<4x5xf32> {
  %0 = "host.alloc"() {owner = "plan"} : () -> memref<20xf32>
  %1 = "host.view"(%0) {offset = 0} : (memref<20xf32>) -> memref<4x5xf32>
  "host.aten"(%c, %a, %b, %1) {overload = "aten.addmm.default",
    args = "[\\"%0\\", \\"%1\\", \\"%2\\", {\\"kwargs\\": {\\"beta\\": 2.0, \\"alpha\\": 0.5}}]",
    dtypes = ["f32", "f32", "f32", "f32"], reason = "", route = "out"}
    : (memref<5xf32>, memref<4x8xf32>, memref<8x5xf32, strided<[1, 8]>>, memref<4x5xf32>) -> ()
  return %1 : memref<4x5xf32>
}"""


@pytest.mark.parametrize("limit", [0, 1 << 16], ids=["torch allocates", "the caller allocates"])
def test_a_typed_call_writes_into_a_result(limit: int) -> None:
    c, a, b = torch.randn(5), torch.randn(4, 8), torch.randn(5, 8).t()
    (result,) = load(ADDMM, f"plan-memory{{caller-limit={limit}}}")([c, a, b])
    assert_same([result], [torch.addmm(c, a, b, beta=2, alpha=0.5)])


def mm(inner: int, limit: int = 1 << 16) -> Executable:
    """(4x8, inner x 5) → their product by way of the arena, and twice its first element."""
    return load(
        KERNELS
        + f"""
    func.func @graph(%a: memref<4x8xf32>, %b: memref<{inner}x5xf32>) -> (memref<4x5xf32>, memref<f32>) {{
      %0 = "host.alloc"() {{owner = "plan"}} : () -> memref<20xf32>
      %1 = "host.view"(%0) {{offset = 0}} : (memref<20xf32>) -> memref<4x5xf32>
      %2 = "host.alloc"() {{owner = "plan"}} : () -> memref<1xf32>
      %3 = "host.view"(%2) {{offset = 0}} : (memref<1xf32>) -> memref<f32>
      %4 = "host.alloc"() {{owner = "plan"}} : () -> memref<1xf32>
      "host.aten"(%a, %b, %1) {{overload = "aten.mm.default", args = "[\\"%0\\", \\"%1\\"]",
        dtypes = ["f32", "f32", "f32"], reason = "", route = "out"}}
        : (memref<4x8xf32>, memref<{inner}x5xf32>, memref<4x5xf32>) -> ()
      "host.launch"(%1, %4) {{kernel = @kernels::@double, outputs = 1}} : (memref<4x5xf32>, memref<1xf32>) -> ()
      "host.launch"(%4, %3) {{kernel = @kernels::@double, outputs = 1}} : (memref<1xf32>, memref<f32>) -> ()
      return %1, %3 : memref<4x5xf32>, memref<f32>
    }}""",
        f"plan-memory{{caller-limit={limit}}}",
    )


def test_kernels_run_between_calls_and_share_the_arena() -> None:
    a, b = torch.randn(4, 8), torch.randn(8, 5)
    executable = mm(8)
    assert executable.metadata["arena"] == 64
    for _ in range(3):
        assert_same(executable([a, b]), [a @ b, 4 * (a @ b)[0, 0]])


@pytest.mark.parametrize("limit", [0, 1 << 16])
def test_a_failed_call_raises_torch_s_message_and_the_next_call_works(limit: int) -> None:
    wrong, right = mm(7, limit), mm(8, limit)
    a, b = torch.randn(4, 8), torch.randn(8, 5)
    for _ in range(3):
        with pytest.raises(ExecutionError, match=r"aten.mm.default.*(mat1 and mat2|size)"):
            wrong([a, torch.randn(7, 5)])
        assert_same(right([a, b]), [a @ b, 4 * (a @ b)[0, 0]])


@pytest.mark.parametrize("route", ["shim", "python"])
def test_results_of_several_dtypes(route: str) -> None:
    x = torch.randn(4, 5)
    expected = torch.sort(x, 1, True)
    assert_same(call_of("aten.sort.default", ["%0", 1, True], [x], expected, route)([x]), expected)
    mask = torch.rand(6) > 0.5
    counted = torch.ops.aten.bincount(mask.to(torch.int64))
    assert_same(call_of("aten.bincount.default", ["%0"], [mask.long()], [counted], route)([mask.long()]), [counted])
    inverted = ~mask
    assert_same(call_of("aten.logical_not.default", ["%0"], [mask], [inverted], route)([mask]), [inverted])
    small = torch.tensor([1, 200], dtype=torch.uint8)
    flipped = small.flip(0)
    assert_same(call_of("aten.flip.default", ["%0", [0]], [small], [flipped], route)([small]), [flipped])


@pytest.mark.parametrize("route", ["shim", "python"])
def test_attention_and_its_backward(route: str) -> None:
    q, k, v = (torch.randn(2, 8, 3, 4).transpose(1, 2) for _ in range(3))
    name = "aten._scaled_dot_product_flash_attention_for_cpu"
    options = {"kwargs": {"attn_mask": None, "scale": 0.5}}
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, False, scale=0.5)
    args = ["%0", "%1", "%2", 0.0, False, options]
    assert_same(call_of(f"{name}.default", args, [q, k, v], forward, route)([q, k, v]), forward)
    operands = [torch.randn_like(forward[0]), q, k, v, *forward]
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(*operands, 0.0, False, scale=0.5)
    args = [*(f"%{i}" for i in range(6)), 0.0, False, options]
    assert_same(call_of(f"{name}_backward.default", args, operands, backward, route)(operands), backward)


@pytest.mark.parametrize("route", ["shim", "python"])
def test_convolution_and_the_results_that_its_backward_was_asked_for(route: str) -> None:
    x, w, b = torch.randn(1, 3, 8, 8), torch.randn(2, 3, 3, 3), torch.randn(2)
    settings = [[1, 1], [0, 0], [1, 1], False, [0, 0], 1]
    y = torch.ops.aten.convolution(x, w, b, *settings)
    assert_same(
        call_of("aten.convolution.default", ["%0", "%1", "%2", *settings], [x, w, b], [y], route)([x, w, b]), [y]
    )
    grad = torch.randn_like(y)
    _, dw, db = torch.ops.aten.convolution_backward(grad, x, w, [2], *settings, [False, True, True])
    args = ["%0", "%1", "%2", [2], *settings, [False, True, True]]
    executable = call_of("aten.convolution_backward.default", args, [grad, x, w], [dw, db], route, [1, 2])
    assert_same(executable([grad, x, w]), [dw, db])


def test_the_dispatcher_takes_lists_of_optional_tensors_and_strings() -> None:
    x, index = torch.randn(3, 4), torch.tensor([2, 0])
    assert choose_route("aten.index.Tensor", '["%0", [null, "%1"]]', []) == "shim"
    picked = x[:, index]
    assert_same(call_of("aten.index.Tensor", ["%0", [None, "%1"]], [x, index], [picked])([x, index]), [picked])
    both = torch.cat([x, x])
    assert_same(call_of("aten.cat.default", [["%0", "%0"], 0], [x], [both])([x]), [both])
    where = torch.zeros(1, 4, dtype=torch.int64)
    mean = torch.scatter_reduce(x, 0, where, x, "mean")
    args = ["%0", 0, "%1", "%0", {"str": "mean"}]
    assert_same(call_of("aten.scatter_reduce.two", args, [x, where], [mean], "shim")([x, where]), [mean])


def test_random_numbers_and_index_gradients_through_the_dispatcher() -> None:
    x = torch.rand(64)
    torch.manual_seed(3)
    drawn = torch.ops.aten.bernoulli.p(x, 0.3)
    executable = call_of("aten.bernoulli.p", ["%0", 0.3], [x], [drawn], "shim")
    torch.manual_seed(3)
    assert_same(executable([x]), [drawn])
    grad, index = torch.randn(4, 8), torch.tensor([0, 2, 2, 5])
    expected = torch.ops.aten.embedding_dense_backward(grad, index, 10, -1, False)
    args = ["%0", "%1", 10, -1, False]
    executable = call_of("aten.embedding_dense_backward.default", args, [grad, index], [expected], "shim")
    assert_same(executable([grad, index]), [expected])


def test_what_the_dispatcher_cannot_take_goes_through_python() -> None:
    assert choose_route("aten.leaky_relu.default", '["%0", 0.5]', []) == "python"
    x = torch.randn(7)
    expected = torch.nn.functional.leaky_relu(x, 0.5)
    assert_same(call_of("aten.leaky_relu.default", ["%0", 0.5], [x], [expected])([x]), [expected])


def test_a_view_from_python_is_copied_out_of_its_operand() -> None:
    x = torch.arange(6.0)
    expected = x.unfold(0, 2, 2).clone()
    executable = call_of("aten.unfold.default", ["%0", 0, 2, 2], [x], [expected])
    (result,) = executable([x])
    x.zero_()
    assert_same([result], [expected])


def test_what_python_raised_is_raised() -> None:
    x = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    executable = call_of("aten.linalg_cholesky_ex.default", ["%0", {"kwargs": {"check_errors": True}}], [x],
                         [torch.zeros(2, 2).t(), torch.zeros((), dtype=torch.int32)], "python")  # fmt: skip
    for _ in range(2):
        with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
            executable([x])
    good = torch.eye(2) * 4
    assert torch.equal(executable([good])[0], torch.eye(2) * 2)


def test_a_view_from_python_is_copied_on_its_own_device() -> None:
    # A GPU's tensors as far as this machine has them: on the meta device.
    expected = {"sizes": [3, 2], "strides": [2, 1], "dtype": "f32"}
    call = {"overload": "aten.unfold.default", "args": '["%0", 0, 2, 2]', "operands": 1, "positions": None}
    (result,) = PythonCalls([{**call, "results": [expected]}])._run(0, [torch.empty(6, device="meta")])
    assert result.device.type == "meta"


def test_tensors_that_torch_is_given_stay_for_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()  # what an earlier test has left goes now, and is not counted below
    executable = mm(8)
    assert executable.metadata["kept"] == 3
    gone: list[int] = []

    def steal_and_note(*handles: int) -> list[Tensor]:
        gone.extend(handles)
        return steal(*handles)

    monkeypatch.setattr(executable_module, "steal", steal_and_note)
    weights = [torch.randn(8, 5) for _ in range(3)]
    for weight in weights * 2:  # at another address each time
        a = torch.randn(4, 8)
        assert_same(executable([a, weight]), [a @ weight, 4 * (a @ weight)[0, 0]])
    gone.clear()
    del executable
    gc.collect()
    assert len(gone) == 3


@pytest.mark.parametrize("overload", ["aten.mm.default", "aten.convolution.default"])
def test_tensors_that_torch_was_given_in_inference_mode_serve_outside_it(overload: str) -> None:
    settings = [[1, 1], [0, 0], [1, 1], False, [0, 0], 1]
    tensors = [torch.randn(4, 8), torch.randn(8, 5)]
    args: list[Any] = ["%0", "%1"]
    expected = [tensors[0] @ tensors[1]]
    if overload == "aten.convolution.default":
        tensors = [torch.randn(1, 3, 8, 8), torch.randn(2, 3, 3, 3)]
        args += [None, *settings]
        expected = [torch.ops.aten.convolution(*tensors, None, *settings)]
    executable = call_of(overload, args, tensors, expected, "shim")
    for _ in range(2):
        with torch.inference_mode():
            assert_same(executable(tensors), expected)
        (result,) = executable(tensors)
        assert_same([result], expected)
        assert not result.is_inference()
        result.add_(1)


class Refuses(TorchDispatchMode):
    """As AOTAutograd's checks of a first call: torch reaches Python within a call, and an exception stays set."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten.flip.default:
            raise torch.OutOfMemoryError("no memory for a flip")
        return function(*args, **(kwargs or {}))


FLIP = """
func.func @graph(%x: memref<4xf32>, %owned: memref<64xf32>) -> memref<4xf32> {
  %0 = "host.alloc"() {owner = "plan"} : () -> memref<4xf32>
  "host.launch"(%owned, %0) {kernel = @kernels::@double, outputs = 1} : (memref<64xf32>, memref<4xf32>) -> ()
  "host.free"(%owned) : (memref<64xf32>) -> ()
  %1 = "host.aten"(%0) {overload = "aten.flip.default", args = "[\\"%0\\", [0]]", dtypes = ["f32", "f32"],
    reason = "", route = "shim"} : (memref<4xf32>) -> memref<4xf32>
  "host.launch"(%x, %0) {kernel = @kernels::@double, outputs = 1} : (memref<4xf32>, memref<4xf32>) -> ()
  return %1 : memref<4xf32>
}"""


def test_what_a_dispatch_mode_raises_is_raised_and_nothing_stays_held() -> None:
    executable = load(KERNELS + FLIP)
    assert executable.metadata["arena"] and executable.metadata["released"] == [1]
    x = torch.ones(4)
    executable([x, torch.ones(64)])
    gc.collect()  # what an earlier test has left goes now, and no arena comes back below that was not lent here
    arenas = len(ARENAS._free)
    owned = torch.ones(64)
    gone = weakref.ref(owned)
    for _ in range(3):
        tensors = [x, owned if gone() is not None else torch.ones(64)]
        owned = None
        with Refuses(), pytest.raises(torch.OutOfMemoryError, match="no memory for a flip") as caught:
            executable(tensors)
        assert caught.value.__cause__ is None and len(ARENAS._free) == arenas
        del caught, tensors
        gc.collect()
        assert gone() is None
        assert executable([x, torch.full((64,), 3.0)])[0][3] == 6


@pytest.mark.parametrize("route", ["shim", "python"])
def test_other_metadata_than_traced_is_refused(route: str) -> None:
    x = torch.randn(4, 5)
    executable = call_of("aten.flip.default", ["%0", [0]], [x], [torch.empty(5, 4)], route)
    with pytest.raises(ExecutionError, match=r"aten.flip.default.*traced with.*sizes \[5, 4\]"):
        executable([x])
    executable = call_of("aten.flip.default", ["%0", [0]], [x], [torch.empty(4, 5, dtype=torch.int32)], route)
    with pytest.raises(ExecutionError, match="aten.flip.default"):
        executable([x])


@pytest.mark.parametrize("route", ["shim", "python"])
def test_other_strides_than_traced_are_laid_out_anew(route: str) -> None:
    """Torch's fake kernels do not always foretell the strides that the real ones give."""
    x = torch.randn(4, 5)
    executable = call_of("aten.flip.default", ["%0", [0]], [x], [torch.empty(5, 4).t()], route)
    for _ in range(2):
        (result,) = executable([x])
        assert_same([result], [torch.empty(5, 4).t().copy_(x.flip(0))])


CHECK = (
    KERNELS
    + """
func.func @graph(%x: memref<4xf32>) -> memref<1xf32> {
  %0 = "host.alloc"() {owner = "plan"} : () -> memref<1xi8>
  %1 = "host.view"(%0) {offset = 0} : (memref<1xi8>) -> memref<i8>
  %2 = "host.alloc"() {owner = "plan"} : () -> memref<1xf32>
  "host.launch"(%x, %2) {kernel = @kernels::@double, outputs = 1} : (memref<4xf32>, memref<1xf32>) -> ()
  "host.launch"(%x, %1) {kernel = @kernels::@negative, outputs = 1} : (memref<4xf32>, memref<i8>) -> ()
  "host.check"(%1) {message = "index out of range: the indexed dim has size 4"} : (memref<i8>) -> ()
  return %2 : memref<1xf32>
}"""
)


@pytest.mark.parametrize("limit", [0, 1 << 16])
def test_a_failed_check_is_an_index_error(limit: int) -> None:
    executable = load(CHECK, f"plan-memory{{caller-limit={limit}}}")
    for _ in range(3):
        with pytest.raises(IndexError, match="^index out of range: the indexed dim has size 4$"):
            executable([torch.full((4,), -1.0)])
        assert_same(executable([torch.full((4,), 3.0)]), [torch.tensor([6.0])])


def test_failures_free_what_the_program_held() -> None:
    """4 MB a call would be 800 MB; another thread that starts meanwhile maps no more than 136 MB."""
    executable = load(CHECK.replace("memref<1xf32>", "memref<1048576xf32>"), "plan-memory{caller-limit=0}")
    bad = torch.full((4,), -1.0)

    def mapped_pages() -> int:  # resident ones would not show memory that no kernel wrote to
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0])

    before = 0
    for i in range(210):
        if i == 10:
            before = mapped_pages()
        with pytest.raises(IndexError):
            executable([bad])
    assert (mapped_pages() - before) * os.sysconf("SC_PAGESIZE") < 400 << 20


VIEWS = (
    KERNELS
    + """
func.func @graph(%x: memref<4x6xf32>) ->
    (memref<2x3xf32>, memref<3x2xf32, strided<[1, 3]>>, memref<4x6xf32>, memref<6xf32>, memref<2x3xf32>) {
  %0 = "host.alloc"() {owner = "plan"} : () -> memref<24xf32>
  %1 = "host.view"(%0) {offset = 0} : (memref<24xf32>) -> memref<4x6xf32>
  "host.aten"(%x, %y, %1) {OP} : (memref<4x6xf32>, memref<6x6xf32>, memref<4x6xf32>) -> ()
  %2 = "host.view"(%0) {offset = 24} : (memref<24xf32>) -> memref<2x3xf32>
  %3 = "host.view"(%2) {offset = 8} : (memref<2x3xf32>) -> memref<3x2xf32, strided<[1, 3]>>
  %4 = "host.view"(%x) {offset = 48} : (memref<4x6xf32>) -> memref<6xf32>
  return %2, %3, %x, %4, %2
    : memref<2x3xf32>, memref<3x2xf32, strided<[1, 3]>>, memref<4x6xf32>, memref<6xf32>, memref<2x3xf32>
}"""
)
VIEWS = VIEWS.replace("%x: memref<4x6xf32>)", "%x: memref<4x6xf32>, %y: memref<6x6xf32>)", 1).replace(
    "{OP}",
    '{overload = "aten.mm.default", args = "[\\"%0\\", \\"%1\\"]", dtypes = ["f32", "f32", "f32"],'
    ' reason = "", route = "out"}',
)


@pytest.mark.parametrize("limit", [0, 1 << 16])
def test_views_and_arguments_are_returned(limit: int) -> None:
    executable = load(VIEWS, f"plan-memory{{caller-limit={limit}}}")
    x, y = torch.randn(5, 6)[1:], torch.randn(6, 6)
    first, second, argument, row, again = executable([x, y])
    flat = (x @ y).reshape(-1)
    assert_same([first, second], [flat[6:12].reshape(2, 3), flat[8:14].reshape(2, 3).t()])
    assert argument is x
    assert again is first
    assert_same([row], [x[2]])
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert row.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert not any(t._is_view() for t in (first, second, row))


@pytest.mark.parametrize("route", ["shim", "python"])
def test_tensors_without_elements_and_without_dims(route: str) -> None:
    empty = torch.empty(0, 3)
    assert_same(call_of("aten.flip.default", ["%0", [0]], [empty], [empty], route)([empty]), [empty])
    scalar = torch.tensor(2.5)
    assert_same(call_of("aten.neg.default", ["%0"], [scalar], [-scalar], route)([scalar]), [-scalar])


def test_no_results_and_no_arguments() -> None:
    assert load("func.func @graph(%x: memref<4xf32>) { return }")([torch.ones(4)]) == []
    ones = torch.ones(3)
    assert_same(call_of("aten.ones.default", [[3]], [], [ones], "python")([]), [ones])


@pytest.mark.parametrize("limit", [0, 1 << 16])
def test_an_empty_result_has_the_strides_asked_for(limit: int) -> None:
    executable = load(
        """
    func.func @graph() -> (memref<0x3xf32> {cuesta.dtype = "f32", cuesta.strides = [3, 1]}) {
      %0 = "host.alloc"() {owner = "plan"} : () -> memref<1xf32>
      %1 = "host.view"(%0) {offset = 0} : (memref<1xf32>) -> memref<0x3xf32>
      return %1 : memref<0x3xf32>
    }""",
        f"plan-memory{{caller-limit={limit}}}",
    )
    assert_same(executable([]), [torch.empty(0, 3)])


def test_kernels_are_told_the_count_of_threads() -> None:
    executable = load(
        KERNELS
        + """
    func.func @graph() -> memref<i64> {
      %0 = "host.alloc"() {owner = "plan"} : () -> memref<1xi64>
      %1 = "host.view"(%0) {offset = 0} : (memref<1xi64>) -> memref<i64>
      "host.launch"(%1) {kernel = @kernels::@threads, outputs = 1} : (memref<i64>) -> ()
      return %1 : memref<i64>
    }"""
    )
    before = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            assert executable([])[0].item() == count
    finally:
        torch.set_num_threads(before)


def test_threads_call_one_executable_at_once() -> None:
    executables = [mm(8, 0), call_of("aten.leaky_relu.default", ["%0", 0.5], [torch.ones(64)], [torch.ones(64)])]
    problems: list[str] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(200):
            a, b = torch.randn(4, 8, generator=generator), torch.randn(8, 5, generator=generator)
            if not torch.equal(executables[0]([a, b])[0], a @ b):
                problems.append("mm")
            x = torch.randn(64, generator=generator)
            if not torch.equal(executables[1]([x])[0], torch.nn.functional.leaky_relu(x, 0.5)):
                problems.append("leaky_relu")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def releasing(inner: int, limit: int = 0) -> Executable:
    """(4x8, owned inner x 5, owned f32) → their product and the last argument."""
    return load(
        f"""
    func.func @graph(%a: memref<4x8xf32>, %b: memref<{inner}x5xf32> {{cuesta.donated}},
                     %c: memref<f32> {{cuesta.donated}})
        -> (memref<4x5xf32>, memref<f32>) {{
      %0 = "host.alloc"() {{owner = "plan"}} : () -> memref<20xf32>
      %1 = "host.view"(%0) {{offset = 0}} : (memref<20xf32>) -> memref<4x5xf32>
      "host.aten"(%a, %b, %1) {{overload = "aten.mm.default", args = "[\\"%0\\", \\"%1\\"]",
        dtypes = ["f32", "f32", "f32"], reason = "", route = "out"}}
        : (memref<4x8xf32>, memref<{inner}x5xf32>, memref<4x5xf32>) -> ()
      return %1, %c : memref<4x5xf32>, memref<f32>
    }}""",
        f"plan-memory{{release-limit={limit}}}",
    )


def test_an_argument_that_the_program_owns_is_given_back() -> None:
    executable = releasing(8)
    a, b, c = torch.randn(4, 8), torch.randn(8, 5), torch.tensor(3.0)
    expected = a @ b
    tensors: list[Any] = [a, b, c]
    results = executable(tensors)
    assert_same(results, [expected, c])
    # Both are the caller's still, who has other references to them.
    assert tensors[0] is a and tensors[1] is None and results[1] is c
    assert_same([a @ b], [expected])
    gone = weakref.ref(b)
    del b
    assert gone() is None


def test_an_argument_that_the_program_owns_is_given_back_where_it_fails() -> None:
    wrong = releasing(7)
    tensors: list[Any] = [torch.randn(4, 8), torch.randn(7, 5), torch.tensor(3.0)]
    storage = weakref.ref(tensors[1])
    for _ in range(2):
        with pytest.raises(ExecutionError, match=r"aten.mm.default"):
            wrong(tensors)
        assert storage() is None
        tensors[1] = torch.randn(7, 5)
        storage = weakref.ref(tensors[1])


def test_small_arguments_stay() -> None:
    tensors = [torch.randn(4, 8), torch.randn(8, 5), torch.tensor(3.0)]
    releasing(8, limit=1000)(tensors)
    assert all(t is not None for t in tensors)


def test_the_code_goes_with_the_executable_at_once() -> None:
    executable = mm(8)
    loaded = weakref.ref(executable._call.__globals__["keep"][0])
    gc.disable()
    try:
        call = executable._call
        del executable
        assert loaded() is not None
        assert_same(call([torch.ones(4, 8), torch.ones(8, 5)]), [torch.full((4, 5), 8.0), torch.tensor(32.0)])
        del call
        assert loaded() is None
    finally:
        gc.enable()


def test_dtype_codes_are_torch_s() -> None:
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    for dtype, code in DTYPE_CODES.items():
        assert getattr(library, f"aoti_torch_dtype_{str(dtype).removeprefix('torch.')}")() == code
