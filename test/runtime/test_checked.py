"""Programs with `options={"checked": True}`: kernels that are wrong on purpose, and calls that write beside."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
import torch

from cuesta.errors import BoundsError, CompileError
from cuesta.runtime.checked import ZONE, CheckedCall, check_operands
from cuesta.runtime.executable import Executable

Tensor = torch.Tensor
Load = Callable[..., Executable]

#: What a checked program goes through, beside what every program does.
PASSES = "plan-memory{guarded=true},check-operands"

#: Name → the body of a kernel that is passed %x and %y, of 20 floats each, and what a BoundsError says; None where it
#: is right.
BODIES: dict[str, tuple[str, str | None]] = {
    "the last element is read and written": (
        """
        %i = llvm.mlir.constant(19 : i64) : i64
        %p = llvm.getelementptr inbounds|nuw %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %q = llvm.getelementptr inbounds|nuw %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.load %p : !llvm.ptr -> f32
        llvm.store %v, %q : f32, !llvm.ptr""",
        None,
    ),
    "one past the end is read": (
        """
        %i = llvm.mlir.constant(20 : i64) : i64
        %p = llvm.getelementptr inbounds|nuw %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.load %p : !llvm.ptr -> f32
        llvm.store %v, %y : f32, !llvm.ptr""",
        r"kernel wrong: a read up to 4 bytes behind the end of its buffer 0 \(argument 0\)",
    ),
    "one past the end is written": (
        """
        %i = llvm.mlir.constant(20 : i64) : i64
        %q = llvm.getelementptr inbounds|nuw %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.load %x : !llvm.ptr -> f32
        llvm.store %v, %q : f32, !llvm.ptr""",
        r"kernel wrong: a write up to 4 bytes behind the end of its buffer 1 \(memory for a result\)",
    ),
    "one before the begin is written": (
        """
        %i = llvm.mlir.constant(-1 : i64) : i64
        %j = llvm.add %i, %i overflow<nsw, nuw> : i64
        %q = llvm.getelementptr inbounds|nuw %x[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.load %x : !llvm.ptr -> f32
        llvm.store %v, %q : f32, !llvm.ptr""",
        r"a write 8 bytes before the begin of its buffer 0 \(argument 0\)",
    ),
    "memory that nobody has is written": (
        """
        %i = llvm.mlir.constant(99999999999 : i64) : i64
        %q = llvm.getelementptr inbounds|nuw %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.load %x : !llvm.ptr -> f32
        llvm.store %v, %q : f32, !llvm.ptr""",
        r"a write up to 399999999920 bytes behind the end of its buffer 1",
    ),
    "a vector begins inside and ends outside": (
        """
        %i = llvm.mlir.constant(8 : i64) : i64
        %p = llvm.getelementptr inbounds|nuw %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
        llvm.store %v, %y {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr""",
        r"a read up to 16 bytes behind the end of its buffer 0",
    ),
    "a vector ends with its buffer": (
        """
        %i = llvm.mlir.constant(4 : i64) : i64
        %p = llvm.getelementptr inbounds|nuw %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
        llvm.store %v, %y {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr""",
        None,
    ),
    "a mask leaves out what is outside": (
        """
        %i = llvm.mlir.constant(16 : i64) : i64
        %m = llvm.mlir.constant(dense<[true, true, true, true, false, false]> : vector<6xi1>) : vector<6xi1>
        %z = llvm.mlir.constant(dense<0.0> : vector<6xf32>) : vector<6xf32>
        %p = llvm.getelementptr inbounds|nuw %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %q = llvm.getelementptr inbounds|nuw %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.intr.masked.load %p, %m, %z {alignment = 4 : i32}
          : (!llvm.ptr, vector<6xi1>, vector<6xf32>) -> vector<6xf32>
        llvm.intr.masked.store %v, %q, %m {alignment = 4 : i32} : vector<6xf32>, vector<6xi1> into !llvm.ptr""",
        None,
    ),
    "a mask has one element too many": (
        """
        %i = llvm.mlir.constant(16 : i64) : i64
        %m = llvm.mlir.constant(dense<[false, true, true, true, true, false]> : vector<6xi1>) : vector<6xi1>
        %v = llvm.mlir.constant(dense<1.0> : vector<6xf32>) : vector<6xf32>
        %q = llvm.getelementptr inbounds|nuw %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        llvm.intr.masked.store %v, %q, %m {alignment = 4 : i32} : vector<6xf32>, vector<6xi1> into !llvm.ptr""",
        r"a write up to 4 bytes behind the end of its buffer 1",
    ),
    "a mask of nothing, far outside": (
        """
        %i = llvm.mlir.constant(99999999999 : i64) : i64
        %m = llvm.mlir.constant(dense<false> : vector<6xi1>) : vector<6xi1>
        %v = llvm.mlir.constant(dense<1.0> : vector<6xf32>) : vector<6xf32>
        %q = llvm.getelementptr inbounds|nuw %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        llvm.intr.masked.store %v, %q, %m {alignment = 4 : i32} : vector<6xf32>, vector<6xi1> into !llvm.ptr""",
        None,
    ),
    "an element of a gather": (
        """
        %i = llvm.mlir.constant(dense<[0, 19, 21, 99999999999]> : vector<4xi64>) : vector<4xi64>
        %m = llvm.mlir.constant(dense<[true, true, true, false]> : vector<4xi1>) : vector<4xi1>
        %z = llvm.mlir.constant(dense<0.0> : vector<4xf32>) : vector<4xf32>
        %p = llvm.getelementptr %x[%i] : (!llvm.ptr, vector<4xi64>) -> vector<4x!llvm.ptr>, f32
        %v = llvm.intr.masked.gather %p, %m, %z {alignment = 4 : i32}
          : (vector<4x!llvm.ptr>, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
        llvm.store %v, %y {alignment = 4 : i64} : vector<4xf32>, !llvm.ptr""",
        r"a read up to 8 bytes behind the end of its buffer 0",
    ),
    "scratch memory": (
        """
        %n = llvm.mlir.constant(8 : i64) : i64
        %s = llvm.alloca %n x f32 {alignment = 64 : i64} : (i64) -> !llvm.ptr
        %p = llvm.getelementptr inbounds|nuw %s[%n] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.load %x : !llvm.ptr -> f32
        llvm.store %v, %p : f32, !llvm.ptr""",
        r"a write up to 4 bytes behind the end of its scratch memory",
    ),
    "what another function is passed": (
        """
        llvm.call @inner(%x, %y) : (!llvm.ptr, !llvm.ptr) -> ()""",
        r"a write up to 44 bytes behind the end of its buffer 1",
    ),
}
KERNELS = """
module @kernels {{
  llvm.func @inner(%x: !llvm.ptr, %y: !llvm.ptr) {{
    %i = llvm.mlir.constant(30 : i64) : i64
    %q = llvm.getelementptr inbounds|nuw %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %v = llvm.load %x : !llvm.ptr -> f32
    llvm.store %v, %q : f32, !llvm.ptr
    llvm.return
  }}
  llvm.func @wrong__{kind} {{ {body}
    llvm.return
  }}
}}
func.func @graph(%x: memref<20xf32>) -> memref<20xf32> {{
  %y = "host.alloc"() {{owner = "plan"}} : () -> memref<20xf32>
  "host.launch"(%x, %y) {{kernel = @kernels::@wrong, outputs = 1}} : (memref<20xf32>, memref<20xf32>) -> ()
  return %y : memref<20xf32>
}}"""
TAIL = "tail(%x: !llvm.ptr {llvm.noalias}, %y: !llvm.ptr {llvm.noalias})"
TILES = (
    "tiles(%x: !llvm.ptr {llvm.noalias}, %y: !llvm.ptr {llvm.noalias}, %first: i64, %end: i64) "
    "attributes {cuesta.tiles = 64 : i64, cuesta.work = 1000000000 : i64}"
)


@pytest.mark.parametrize("kind", [TAIL, TILES], ids=["tail", "tiles"])
@pytest.mark.parametrize(("body", "told"), BODIES.values(), ids=list(BODIES))
def test_an_access_outside_is_told_and_touches_nothing(load: Load, kind: str, body: str, told: str | None) -> None:
    run = load(KERNELS.format(kind=kind, body=body), PASSES)
    around = torch.arange(60.0)
    untouched = around.clone()
    for _ in range(3):
        if told is None:
            run([around[20:40]])
        else:
            with pytest.raises(BoundsError, match=told):
                run([around[20:40]])
        assert around.equal(untouched)


def test_without_the_checks_nothing_is_said(load: Load) -> None:
    body, _ = BODIES["one past the end is read"]
    run = load(KERNELS.format(kind=TAIL, body=body))
    around = torch.arange(60.0)
    assert "checked" not in run.metadata
    assert run([around[20:40]])[0][0] == 40


CALL = """
func.func @graph(%x: memref<4x4xf32>) -> memref<4x4xf32> {
  %a = "host.alloc"() {owner = "plan"} : () -> memref<16xf32>
  %b = "host.view"(%a) {offset = 0} : (memref<16xf32>) -> memref<4x4xf32>
  %y = "host.alloc"() {owner = "plan"} : () -> memref<4x4xf32>
  "host.aten"(%x, %x, %b) {overload = "aten.mm.default", args = "[\\"%0\\", \\"%1\\"]",
    dtypes = ["f32", "f32", "f32"], reason = "", route = "out"}
    : (memref<4x4xf32>, memref<4x4xf32>, memref<4x4xf32>) -> ()
  "host.aten"(%b, %b, %y) {overload = "aten.mm.default", args = "[\\"%0\\", \\"%1\\"]",
    dtypes = ["f32", "f32", "f32"], reason = "", route = "out"}
    : (memref<4x4xf32>, memref<4x4xf32>, memref<4x4xf32>) -> ()
  return %y : memref<4x4xf32>
}"""


def test_a_call_that_writes_beside_the_arena_is_told(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    right = load(CALL, PASSES)
    x = torch.randn(4, 4)
    torch.testing.assert_close(right([x])[0], x @ x @ x @ x)
    for distance, told in (
        (64, "memory up to 1 bytes behind the arena"),
        (-3, "memory up to 3 bytes before the arena"),
    ):
        lease = CheckedCall.lease

        def beside(self: CheckedCall, nbytes: int, distance: int = distance, lease: Any = lease) -> Any:
            arena = lease(self, nbytes)
            ctypes.memset(arena.address + distance, 7, 1)  # as a call of ATen might
            return arena

        with monkeypatch.context() as patched:
            patched.setattr(CheckedCall, "lease", beside)
            wrong = load(CALL, PASSES)
            with pytest.raises(BoundsError, match=rf"{told} was written, not by a kernel; .* aten.mm.default"):
                wrong([x])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.int8])
def test_results_have_zones_around_them(dtype: torch.dtype) -> None:
    checked = CheckedCall({"steps": []})
    made: list[Tensor] = []

    def call(tensors: list[Tensor]) -> list[Tensor]:
        made.append(checked.allocate((3, 5), (5, 1), dtype))
        if tensors:
            ctypes.memset(made[-1].data_ptr() + made[-1].nbytes, 1, len(ZONE))
        return made[-1:]

    (result,) = checked.around(call)([])
    assert result.dtype == dtype and result.shape == (3, 5) and result.storage_offset() == 0
    assert result.untyped_storage().nbytes() == result.nbytes and result.data_ptr() % 64 == 0
    assert set(result.view(torch.uint8).flatten().tolist()) == {0xFF}  # it was never written
    with pytest.raises(BoundsError, match=r"bytes behind a result of sizes \[3, 5\]"):
        checked.around(call)([torch.empty(0)])


OPERAND = """
module @kernels {{
  llvm.func @k__tail(%x: !llvm.ptr, %y: !llvm.ptr) {{ llvm.return }}
}}
func.func @graph(%x: memref<8x4xf32>) -> memref<4xf32> {{
  %v = "host.view"(%x) {{offset = {offset}}} : (memref<8x4xf32>) -> memref<4x2xf32, strided<[8, 1]>>
  %y = "host.alloc"() {{owner = "plan"}} : () -> memref<4xf32>
  "host.launch"(%v, %y) {{kernel = @kernels::@k, outputs = 1}} : (memref<4x2xf32, strided<[8, 1]>>, memref<4xf32>) -> ()
  return %y : memref<4xf32>
}}"""


def test_an_operand_beside_its_memory_is_refused(load: Load) -> None:
    load(OPERAND.format(offset=24), PASSES)
    with pytest.raises(
        CompileError, match=r"operand 0 of kernel k takes the bytes from 28 to 132 of argument 0, .* 128"
    ):
        load(OPERAND.format(offset=28), PASSES)


def test_an_operand_beside_its_memory_is_refused_where_sizes_tell() -> None:
    memory = {"sizes": ["s0", 4], "strides": [4, 1], "itemsize": 4}
    row = {"what": "operand 0 of kernel k", "offset": 16, "sizes": ["s0 - 1", 4], "strides": [4, 1], "itemsize": 4}
    check_operands([row | {"memory": memory}], {"s0": 8})
    check_operands([row | {"offset": 64, "memory": memory}], {"s0": 1})  # it has no element
    with pytest.raises(BoundsError, match="takes the bytes from 32 to 144 of memory that has 128, where s0 = 8"):
        check_operands([row | {"offset": 32, "memory": memory}], {"s0": 8})
