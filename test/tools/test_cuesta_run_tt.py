"""cuesta-run on kernels by themselves, at the tt level."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cuesta.tools import cuesta_run

LOAD = "operandSegmentSizes = array<i32: 1, 0, 0>, boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32"


def negate(name: str = "negate", arguments: str = "{cuesta.shape = [8]}, {cuesta.shape = [8]}", grid: str = "8") -> str:
    """A kernel that writes 0 - x, an element a program."""
    return f"""
    "tt.func"() ({{
    ^bb0(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>):
      %i = "tt.get_program_id"() {{axis = 0 : i32}} : () -> i32
      %from = "tt.addptr"(%x, %i) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
      %v = "tt.load"(%from) {{{LOAD}, isVolatile = false}} : (!tt.ptr<f32>) -> f32
      %zero = arith.constant 0.0 : f32
      %w = arith.subf %zero, %v : f32
      %to = "tt.addptr"(%y, %i) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
      "tt.store"(%to, %w) {{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}} : (!tt.ptr<f32>, f32) -> ()
      "tt.return"() : () -> ()
    }}) {{sym_name = "{name}", function_type = (!tt.ptr<f32>, !tt.ptr<f32>) -> (), arg_attrs = [{arguments}],
        cuesta.grid = [{grid}, 1, 1]}} : () -> ()"""


def write(folder: Path, text: str) -> str:
    path = folder / "kernels.mlir"
    path.write_text(text)
    return str(path)


def fail(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cuesta_run.main(list(arguments)) == 1
    return capsys.readouterr().err


def test_files_in_and_out(tmp_path: Path) -> None:
    """Shapes come from the files where the kernel does not say."""
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.float32).reshape(2, 4))
    np.save(tmp_path / "y.npy", np.zeros((4, 2), np.float32))
    path = write(tmp_path, negate(arguments="{}, {}"))
    given = [f for name in ("x", "y") for f in ("--input", str(tmp_path / f"{name}.npy"))]
    assert cuesta_run.main([path, *given, "-o", str(tmp_path / "out")]) == 0
    assert np.array_equal(np.load(tmp_path / "out/result_0.npy"), -np.arange(8, dtype=np.float32).reshape(4, 2))


def test_one_of_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, negate("first") + negate("second"))
    assert "--function takes one of first, second" in fail(capsys, path)
    assert "no kernel @third" in fail(capsys, path, "--function", "third")
    assert cuesta_run.main([path, "--function", "second", "--level", "tt"]) == 0
    assert capsys.readouterr().out.startswith("result 0: f32[8]")


def test_what_the_attributes_must_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    no_shape = write(tmp_path, negate(arguments="{cuesta.shape = [8]}, {}"))
    assert "argument 1 is !tt.ptr<f32>: its arg_attrs lack cuesta.shape, such as [64, 128]" in fail(capsys, no_shape)
    no_grid = write(tmp_path, negate().replace("cuesta.grid", "grid"))
    assert "the kernel lacks cuesta.grid" in fail(capsys, no_grid)
    assert "only ops of the cuesta dialect have a reference" in fail(capsys, no_grid, "--reference")


def test_an_access_outside_an_argument(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, negate(grid="9"))
    assert "program (8, 0, 0), lane [], is outside memory: byte 32 of argument 0, which has 32 bytes" in fail(
        capsys, path
    )


def test_a_kernel_that_breaks_a_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, negate().replace("arith.subf %zero, %v", "arith.negf %v"))
    assert "Triton does not lower arith.negf" in fail(capsys, path)
