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


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--target", "cuda:90"], "wants a module with kernels at stage tt"),
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
