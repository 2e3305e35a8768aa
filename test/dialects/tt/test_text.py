"""What Triton is given: its own parser and verifier take it, and it depends on the computation alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cuesta._mlir import arith, ir, scf
from cuesta._mlir import math as mlir_math
from cuesta.dialects import tt, verify
from cuesta.dialects.tt.fields import AtomicOp
from cuesta.dialects.tt.interpreter import prepare
from cuesta.dialects.tt.text import kernel_text

HERE = Path(__file__).parent
Value = ir.Value


def read(path: Path) -> ir.Module:
    module = ir.Module.parse(path.read_text())
    verify(module, "reading")
    return module


def written(write: Callable[..., None], pointees: list[str], **attributes: int) -> ir.Module:
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        _, entry = tt.func("kernel", [tt.pointer_type(p) for p in pointees], **attributes)
    with ir.InsertionPoint(entry):
        write(*entry.arguments)
        tt.return_()
    verify(module, "building")
    return module


def triton_reads(text: str, folder: Path) -> str:
    """`text` as Triton's parser and verifier understand it."""
    triton = pytest.importorskip("triton._C.libtriton").ir
    context = triton.context()
    triton.load_dialects(context)
    path = folder / "kernel.ttir"
    path.write_text(text)
    module = triton.parse_mlir_module(str(path), context)
    assert module.verify()
    return str(module)


def only(module: ir.Module) -> ir.Operation:
    (function,) = module.body.operations
    return function.operation


def every_op(x: Value, y: Value, z: Value) -> None:
    """All the builders."""
    lanes = tt.make_range(0, 64)
    rows, columns = tt.expand_dims(lanes, 1), tt.expand_dims(lanes, 0)
    square = (64, 64)
    at = arith.addi(arith.muli(tt.broadcast(rows, square), tt.full(square, "i32", 64)), tt.broadcast(columns, square))
    mask = arith.cmpi(arith.CmpIPredicate.slt, at, tt.full(square, "i32", 4000))
    pointers = tt.addptr(tt.splat(x, square), at)
    value = tt.load(pointers, mask, 0.0)
    tt.store(pointers, tt.load(pointers), mask)
    half = arith.truncf(tt.block_type(square, "f16"), value)
    for precision in ("ieee", "tf32", "tf32x3"):
        value = tt.dot(half, tt.trans(half, [1, 0]), value, precision)
    value = tt.extern_elementwise([value], value.type, "__nv_tanhf")
    value = tt.precise_sqrt(tt.precise_divf(value, value))
    (row,) = tt.reduce([value], 1, arith.maximumf)
    (running,) = tt.scan([row], 0, arith.addf, reverse=True)
    tt.split(tt.reshape(value, (64, 32, 2), allow_reorder=True))
    bits = tt.bitcast(running, "i32")
    at = tt.addptr(tt.splat(z, (64,)), lanes)
    for kind in AtomicOp.CODES:
        if kind != "fadd":
            tt.atomic_rmw(kind, at, bits)
    tt.atomic_rmw("fadd", x, tt.constant(1, "f32"), tt.constant(True, "i1"))
    loop = scf.ForOp(tt.constant(0, "i32"), tt.constant(8, "i32"), tt.constant(1, "i32"), [running])
    with ir.InsertionPoint(loop.body):
        scf.YieldOp([mlir_math.exp(loop.inner_iter_args[0])])
    one = tt.unsplat(tt.reshape(tt.splat(tt.get_program_id(2), (1,)), (1,)))
    tt.store(tt.addptr(y, one), tt.constant(1.5, "bf16"))
    tt.store(tt.addptr(tt.splat(x, (64,)), lanes), loop.results[0])


def test_triton_takes_every_op(tmp_path: Path) -> None:
    module = written(every_op, ["f32", "bf16", "i32"])
    found = triton_reads(kernel_text(only(module)), tmp_path)
    assert "tt.func public @kernel(%arg0: !tt.ptr<f32>" in found
    assert "tt.atomic_rmw umax, relaxed, gpu" in found
    assert "tt.atomic_rmw fadd, relaxed, gpu" in found
    assert "inputPrecision = tf32x3" in found


@pytest.mark.parametrize("name", ["softmax", "matmul"])
def test_triton_takes_kernels_written_by_hand(tmp_path: Path, name: str) -> None:
    module = read(HERE / f"{name}.mlir")
    text = kernel_text(only(module))
    assert "cuesta" not in text
    assert f"@{name}(" in triton_reads(text, tmp_path)


@pytest.mark.parametrize("name", ["softmax", "matmul"])
def test_triton_compiles_them_for_nvidia(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    path, module = tmp_path / f"{name}.ttir", read(HERE / f"{name}.mlir")
    path.write_text(kernel_text(only(module)))
    assert f".entry {name}(" in triton.compile(str(path), target=GPUTarget("cuda", 90, 32)).asm["ptx"]


def test_softmax_and_matmul_compute_what_they_say() -> None:
    x, y = torch.randn(48, 100), torch.zeros(48, 100)
    softmax, matmul = read(HERE / "softmax.mlir"), read(HERE / "matmul.mlir")
    prepare(only(softmax)).run((48, 1, 1), [x.data_ptr(), y.data_ptr()], [19200, 19200])
    torch.testing.assert_close(y, x.softmax(1))
    a, b, c = torch.randn(64, 96).half(), torch.randn(96, 32).half(), torch.zeros(64, 32)
    sizes = [t.numel() * t.itemsize for t in (a, b, c)]
    prepare(only(matmul)).run((2, 1, 1), [t.data_ptr() for t in (a, b, c)], sizes)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-4, atol=1e-4)


def test_the_text_depends_on_the_computation_alone() -> None:
    def copy(x: Value) -> None:
        tt.store(x, tt.load(x))

    first = written(copy, ["f32"], warps=4)
    with ir.Location.file("other.py", 99, 1):
        second = written(copy, ["f32"], warps=8)
    before = str(first)
    assert kernel_text(only(first)) == kernel_text(only(second))
    assert str(first) == before
    assert (warps(first), warps(second)) == (4, 8)


def warps(module: ir.Module) -> int:
    return ir.IntegerAttr(only(module).attributes["cuesta.warps"]).value
