"""cuesta-opt --kernels: a module's kernels, compiled for a target, in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuesta.tools import cuesta_opt

GELU = """func.func @graph(%x: tensor<999xf32> {cuesta.strides = [1]}) -> (tensor<999xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.tanh"(%x) : (tensor<999xf32>) -> tensor<999xf32>
  return %0 : tensor<999xf32>
}
"""


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "graph.mlir"
    path.write_text(GELU)
    return str(path)


@pytest.mark.parametrize(("target", "files"), [("cuda:90", ["cubin", "ptx"]), ("hip:gfx1100", ["hsaco", "s"])])
def test_a_graphs_kernels_are_written(graph: str, tmp_path: Path, target: str, files: list[str]) -> None:
    folder = tmp_path / "out"
    arguments = [graph, "-o", str(tmp_path / "tt.mlir"), "--target", target, "--to", "tt", "--kernels", str(folder)]
    assert cuesta_opt.main(arguments) == 0
    assert sorted(path.name for path in folder.glob("0/*")) == sorted(["kernel.mlir", *(f"kernel.{f}" for f in files)])
    assert (folder / "0" / f"kernel.{files[0]}").read_bytes()[:4] == b"\x7fELF"
    listed = json.loads((folder / "kernels.json").read_text())
    assert listed["target"] == target
    (kernel,) = listed["kernels"]
    assert kernel["symbol"] == "kernel" and kernel["file"] == f"0/kernel.{files[0]}"
    assert (tmp_path / "tt.mlir").read_text().count('"tt.func"') == 1


def test_a_graph_dumped_on_a_cpu_is_made_for_the_target(tmp_path: Path) -> None:
    """A product of few rows, which a CPU's kernels compute in panels."""
    text = """module attributes {cuesta.products = {across = "kernel"}} {
  func.func @graph(%x: tensor<8x64xf32> {cuesta.strides = [64, 1]}, %w: tensor<64x64xf32> {cuesta.strides = [64, 1]})
      -> (tensor<8x64xf32> {cuesta.strides = [64, 1]}) {
    %0 = "cuesta.mm"(%x, %w) : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    %1 = "cuesta.tanh"(%0) : (tensor<8x64xf32>) -> tensor<8x64xf32>
    return %1 : tensor<8x64xf32>
  }
}
"""
    graph, output = tmp_path / "graph.mlir", tmp_path / "tt.mlir"
    graph.write_text(text)
    assert cuesta_opt.main([str(graph), "-o", str(output), "--target", "cuda:90", "--to", "tt"]) == 0
    lowered = output.read_text()
    assert 'cuesta.target = "cuda:90"' in lowered and "cuesta.products" not in lowered
    assert "aten.mm" in lowered and '"tt.func"' in lowered


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--target", "cuda:90"], "stage tt"),
        (["--target", "tt", "--to", "tt"], "not for target tt"),
        ([], "not for target cpu"),
    ],
)
def test_what_has_no_kernels_is_refused(
    graph: str, tmp_path: Path, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cuesta_opt.main([graph, "--kernels", str(tmp_path / "out"), *more]) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_named(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cuesta_opt.main([graph, "--target", "cuda:90", "--to", "tt", "--kernels", graph]) == 1
    assert f"cannot write to {graph}" in capsys.readouterr().err
