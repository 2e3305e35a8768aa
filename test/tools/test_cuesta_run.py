"""cuesta-run: modules of every level give the same results; what is wrong is said in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from cuesta.tools import cuesta_opt, cuesta_run

SOFTMAX = """
func.func @graph(%x: tensor<4x6xf32> {cuesta.strides = [1, 4]}, %i: tensor<3xi64> {cuesta.strides = [1]})
    -> (tensor<3x6xf32> {cuesta.strides = [6, 1]}) {
  %0 = "cuesta.softmax"(%x) {dim = 1, safe = 0} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = "cuesta.index"(%0, %i) {dims = [0]} : (tensor<4x6xf32>, tensor<3xi64>) -> tensor<3x6xf32>
  return %1 : tensor<3x6xf32>
}
"""
MUTATES = """
func.func @step(%x: tensor<3xbf16>) -> (tensor<3xi1>, tensor<3xbf16>) attributes {cuesta.mutates = [0]} {
  %0 = "cuesta.gt"(%x, %x) : (tensor<3xbf16>, tensor<3xbf16>) -> tensor<3xi1>
  %1 = "cuesta.add"(%x, %x) : (tensor<3xbf16>, tensor<3xbf16>) -> tensor<3xbf16>
  return %0, %1 : tensor<3xi1>, tensor<3xbf16>
}
"""


@pytest.fixture
def softmax(tmp_path: Path) -> Path:
    path = tmp_path / "softmax.mlir"
    path.write_text(SOFTMAX)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    status = cuesta_run.main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return out


def fail(capsys: pytest.CaptureFixture[str], *arguments: object, lines: int = 1) -> str:
    assert cuesta_run.main([str(a) for a in arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cuesta-run: error: ")
    assert err.count("\n") == lines
    return err


def test_files_in_and_out(softmax: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, i = torch.randn(4, 6), torch.tensor([3, 0, 1])
    np.save(tmp_path / "x.npy", x.numpy())
    np.save(tmp_path / "i.npy", i.numpy())
    given = ("--input", tmp_path / "x.npy", "--input", tmp_path / "i.npy")
    for way in ((), ("--reference",)):
        out = run(capsys, softmax, *given, *way, "-o", tmp_path / "out")
        assert out.startswith("result 0: f32[3, 6] strides (6, 1)  min ")
        (path,) = (tmp_path / "out").iterdir()
        torch.testing.assert_close(torch.from_numpy(np.load(path)), x.softmax(1)[i])


@pytest.mark.parametrize("level", cuesta_run.LEVELS)
def test_every_level_is_recognised_and_gives_the_same(
    level: str, softmax: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = run(capsys, softmax, "--reference", "--seed", 3)
    lowered = tmp_path / "lowered.mlir"
    stages = () if level == "import" else ("--to", level)
    assert cuesta_opt.main([*stages, str(softmax), "-o", str(lowered)]) == 0
    assert run(capsys, lowered, "--seed", 3) == expected
    assert run(capsys, lowered, "--seed", 3, "--level", level) == expected


def test_compare_reference_sees_mutated_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "step.mlir").write_text(MUTATES)
    out = run(capsys, tmp_path / "step.mlir", "--compare-reference")
    assert out.splitlines()[0].startswith("result 0: i1[3]")
    assert "all results agree" in out


def test_a_difference_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert cuesta_run._compare([torch.ones(2), torch.ones(1)], [torch.zeros(2), torch.ones(1)], 1) == 1
    assert "result 0 differs from the reference: Tensor-likes are not close! Mismatched" in capsys.readouterr().out


def test_seed_and_range(softmax: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = [run(capsys, softmax, "--reference", "--seed", 7) for _ in range(2)]
    assert same[0] == same[1] != run(capsys, softmax, "--reference", "--seed", 8)
    assert "--int-range sets the range" in fail(capsys, softmax, "--int-range", "90:91")
    assert "takes LOW:HIGH" in fail(capsys, softmax, "--int-range", "5")
    assert "holds no number" in fail(capsys, softmax, "--int-range", "5:5")


def test_wrong_modules(softmax: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def module(text: str) -> Path:
        (tmp_path / "module.mlir").write_text(text, encoding="latin-1")
        return tmp_path / "module.mlir"

    assert "cannot read" in fail(capsys, tmp_path / "none.mlir")
    assert "module.mlir:1:17: error: expected" in fail(capsys, module("func.func @graph("))
    assert "only tensors of known sizes" in fail(capsys, module("func.func @f(%x: tensor<?xf32>) { return }"))
    assert "only tensors of known sizes" in fail(capsys, module("func.func @f(%x: index) { return }"))
    lowered = tmp_path / "kernels.mlir"
    assert cuesta_opt.main(["--to", "kernels", str(softmax), "-o", str(lowered)]) == 0
    unplanned = lowered.read_text().replace("cuesta.memory", "cuesta.memorised")
    assert "plan-memory's cuesta.memory" in fail(capsys, module(unplanned), lines=2)
    assert "torch has no dtype for i24" in fail(capsys, module("func.func @f(%x: tensor<2xi24>) { return }"))
    assert "module.mlir is empty" in fail(capsys, module(""))
    assert "it has none" in fail(capsys, module("module {}"))
    assert "module.mlir: error: attempting to parse a byte at the end" in fail(capsys, module("ML\xefR"))
    assert "level 'llvm'" in fail(capsys, module("llvm.func @f()"))
    assert "no function 'main'; it has 'graph'" in fail(capsys, softmax, "--function", "main")
    assert "--level loops does not fit" in fail(capsys, softmax, "--level", "loops")
    assert "invalid choice: 'deep'" in fail(capsys, softmax, "--level", "deep")
    broken = SOFTMAX.replace("dim = 1", "dim = 2")
    assert "'cuesta.softmax' op dim 2 is outside [0, 2)" in fail(capsys, module(broken))


def test_wrong_inputs(softmax: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 5), np.float32))
    (tmp_path / "text.npy").write_text("no array")
    assert "takes 2 tensors, 1 --input" in fail(capsys, softmax, "--input", tmp_path / "x.npy")
    wrong = fail(capsys, softmax, "--input", tmp_path / "x.npy", "--input", tmp_path / "x.npy")
    assert "x.npy holds f32[4, 5], argument 0 is f32[4, 6]" in wrong
    text = tmp_path / "text.npy"
    assert "cannot read" in fail(capsys, softmax, "--input", text, "--input", text)
    assert "cannot write to /dev/null" in fail_after_results(capsys, softmax, "-o", "/dev/null")


def fail_after_results(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert cuesta_run.main([str(a) for a in arguments]) == 1
    return capsys.readouterr().err


def test_only_the_top_level_has_a_reference(softmax: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lowered = tmp_path / "lowered.mlir"
    assert cuesta_opt.main(["--to", "linalg", str(softmax), "-o", str(lowered)]) == 0
    assert "this module is at level 'linalg'" in fail(capsys, lowered, "--reference")


SIZED = """
module attributes {cuesta.hints = {s0 = 6 : i64}} {
  func.func @graph(%x: tensor<?x4xf32, ["s0"]>) -> tensor<?xf32, ["s0"]> {
    %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 0 : i64} : (tensor<?x4xf32, ["s0"]>) -> tensor<?xf32, ["s0"]>
    return %0 : tensor<?xf32, ["s0"]>
  }
}
"""


def test_a_size_of_a_module_without_symbols(softmax: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--size q=3: the module has no symbol 'q'" in fail(capsys, softmax, "--size", "q=3")


def test_symbolic_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sized.mlir"
    path.write_text(SIZED)
    assert run(capsys, path).startswith("result 0: f32[6] ")
    x = torch.randn(9, 4)
    np.save(tmp_path / "x.npy", x.numpy())
    run(capsys, path, "--size", "s0=9", "--input", tmp_path / "x.npy", "-o", tmp_path)
    torch.testing.assert_close(torch.from_numpy(np.load(tmp_path / "result_0.npy")), x.sum(1))
    assert "--size takes NAME=NUMBER" in fail(capsys, path, "--size", "s0")
    said = fail(capsys, path, "--size", "q=3")
    assert "--size q=3: the module has no symbol 'q' in its sizes; the symbols are s0" in said
    assert "this module has s0" in fail(capsys, path, "--reference")
    path.write_text(SIZED.replace(" attributes {cuesta.hints = {s0 = 6 : i64}}", ""))
    assert "--size says what s0 is, as s0=8" in fail(capsys, path)
