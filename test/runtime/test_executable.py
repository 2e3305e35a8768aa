"""Programs by hand at the planned stage, down to machine code, called with torch's tensors."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cuesta.errors import ExecutionError
from cuesta.runtime import executable as executable_module
from cuesta.runtime.executable import ARENAS, Executable
from cuesta.runtime.handles import steal
from cuesta.torch_versions import installed

Tensor = torch.Tensor
Load = Callable[..., Executable]
CallOf = Callable[..., Executable]
Check = Callable[[Sequence[Tensor], Sequence[Tensor]], None]


#: y[0] = 2 x[0], and a byte that says whether x[0] is negative.
KERNELS = """
module @kernels {
  llvm.func @omp_get_num_threads() -> i32
  llvm.func @double__tail(%x: !llvm.ptr, %y: !llvm.ptr) {
    %v = llvm.load %x : !llvm.ptr -> f32
    %w = llvm.fadd %v, %v : f32
    llvm.store %w, %y : f32, !llvm.ptr
    llvm.return
  }
  llvm.func @negative__tail(%x: !llvm.ptr, %y: !llvm.ptr) {
    %v = llvm.load %x : !llvm.ptr -> f32
    %zero = llvm.mlir.constant(0.0 : f32) : f32
    %is = llvm.fcmp "olt" %v, %zero : f32
    %byte = llvm.zext %is : i1 to i8
    llvm.store %byte, %y : i8, !llvm.ptr
    llvm.return
  }
  llvm.func @threads__tiles(%y: !llvm.ptr, %first: i64, %end: i64)
      attributes {cuesta.tiles = 64 : i64, cuesta.work = 1000000000 : i64} {
    %count = llvm.call @omp_get_num_threads() : () -> i32
    %threads = llvm.sext %count : i32 to i64
    llvm.store %threads, %y : i64, !llvm.ptr
    llvm.return
  }
}
"""


def mm(load: Load, inner: int, limit: int = 1 << 16) -> Executable:
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


def test_kernels_run_between_calls_and_share_the_arena(load: Load, assert_same: Check) -> None:
    a, b = torch.randn(4, 8), torch.randn(8, 5)
    executable = mm(load, 8)
    assert executable.metadata["arena"] == 64
    for _ in range(3):
        assert_same(executable([a, b]), [a @ b, 4 * (a @ b)[0, 0]])


@pytest.mark.skipif(installed() < (2, 13), reason="torch before 2.13 prints the reason and does not keep it")
@pytest.mark.parametrize("limit", [0, 1 << 16])
def test_a_failed_call_raises_torch_s_message_and_the_next_call_works(
    load: Load, assert_same: Check, limit: int
) -> None:
    wrong, right = mm(load, 7, limit), mm(load, 8, limit)
    a, b = torch.randn(4, 8), torch.randn(8, 5)
    for _ in range(3):
        with pytest.raises(ExecutionError, match=r"aten.mm.default.*(mat1 and mat2|size)"):
            wrong([a, torch.randn(7, 5)])
        assert_same(right([a, b]), [a @ b, 4 * (a @ b)[0, 0]])


def test_tensors_that_torch_is_given_stay_for_the_next_call(
    load: Load, assert_same: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = mm(load, 8)
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
    ((slots, _),) = executable._call.__globals__["free_slots"]
    kept = [handle for handle in slots[-6:][1::2] if handle]
    assert len(kept) == 3
    gone.clear()
    del executable, slots
    gc.collect()
    assert set(kept) <= set(gone)  # the programs of earlier tests may go now, too


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


def test_what_a_dispatch_mode_raises_is_raised_and_nothing_stays_held(load: Load) -> None:
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
def test_a_failed_check_is_an_index_error(load: Load, assert_same: Check, limit: int) -> None:
    executable = load(CHECK, f"plan-memory{{caller-limit={limit}}}")
    for _ in range(3):
        with pytest.raises(IndexError, match="^index out of range: the indexed dim has size 4$"):
            executable([torch.full((4,), -1.0)])
        assert_same(executable([torch.full((4,), 3.0)]), [torch.tensor([6.0])])


def test_failures_free_what_the_program_held(load: Load) -> None:
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
def test_views_and_arguments_are_returned(load: Load, assert_same: Check, limit: int) -> None:
    executable = load(VIEWS, f"plan-memory{{caller-limit={limit}}}")
    x, y = torch.randn(5, 6)[1:], torch.randn(6, 6)
    first, second, argument, row, again = executable([x, y])
    flat = (x @ y).reshape(-1)
    assert_same([first, second], [flat[6:12].reshape(2, 3), flat[8:14].reshape(2, 3).t()])
    assert argument is x
    assert again is not first and again.data_ptr() == first.data_ptr() and again.stride() == first.stride()
    assert_same([row], [x[2]])
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert row.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert not any(t._is_view() for t in (first, second, row))


def test_no_results_and_no_arguments(load: Load, call_of: CallOf, assert_same: Check) -> None:
    assert load("func.func @graph(%x: memref<4xf32>) { return }")([torch.ones(4)]) == []
    ones = torch.ones(3)
    assert_same(call_of("aten.ones.default", [[3]], [], [ones], "python")([]), [ones])


@pytest.mark.parametrize("limit", [0, 1 << 16])
def test_an_empty_result_has_the_strides_asked_for(load: Load, assert_same: Check, limit: int) -> None:
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


def test_kernels_are_told_the_count_of_threads(load: Load) -> None:
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


def test_threads_call_one_executable_at_once(load: Load, call_of: CallOf) -> None:
    executables = [mm(load, 8, 0), call_of("aten.leaky_relu.default", ["%0", 0.5], [torch.ones(64)], [torch.ones(64)])]
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


def releasing(load: Load, inner: int, limit: int = 0) -> Executable:
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


def test_an_argument_that_the_program_owns_is_given_back(load: Load, assert_same: Check) -> None:
    executable = releasing(load, 8)
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


def test_an_argument_that_the_program_owns_is_given_back_where_it_fails(load: Load) -> None:
    wrong = releasing(load, 7)
    tensors: list[Any] = [torch.randn(4, 8), torch.randn(7, 5), torch.tensor(3.0)]
    storage = weakref.ref(tensors[1])
    for _ in range(2):
        with pytest.raises(ExecutionError, match=r"aten.mm.default"):
            wrong(tensors)
        assert storage() is None
        tensors[1] = torch.randn(7, 5)
        storage = weakref.ref(tensors[1])


def test_small_arguments_stay(load: Load) -> None:
    tensors = [torch.randn(4, 8), torch.randn(8, 5), torch.tensor(3.0)]
    releasing(load, 8, limit=1000)(tensors)
    assert all(t is not None for t in tensors)


def test_the_code_goes_with_the_executable_at_once(load: Load, assert_same: Check) -> None:
    executable = mm(load, 8)
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
