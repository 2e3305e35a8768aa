"""cuesta-opt's command line, and what it says about bad input. Its work on IR is tested in opt/*.mlir."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cuesta.passes.infra.diagnostics import Diagnostic
from cuesta.tools import cuesta_opt
from cuesta.tools.command_line import Source
from cuesta.tools.opt_driver import render

GOOD = "func.func @good(%x: i32) -> i32 {\n  %0 = arith.addi %x, %x : i32\n  return %0 : i32\n}\n"
RELU = """func.func @graph(%x: tensor<3xf32> {cuesta.strides = [1]}) -> (tensor<3xf32> {cuesta.strides = [1]}) {
  %0 = "cuesta.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.mlir"
    path.write_text(GOOD)
    return path


def stages() -> list[str]:
    from cuesta.passes.pipelines import STAGES

    return list(STAGES)


def test_a_file_to_a_file(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cuesta_opt.main([str(good), "-o", str(tmp_path / "out.mlir")]) == 0
    assert "func.func @good" in (tmp_path / "out.mlir").read_text()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_stdin_to_stdout(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(GOOD.encode())))
    assert cuesta_opt.main(arguments) == 0
    assert "func.func @good" in capsys.readouterr().out


def test_the_result_reads_back(good: Path, tmp_path: Path) -> None:
    once, twice = tmp_path / "once.mlir", tmp_path / "twice.mlir"
    assert cuesta_opt.main([str(good), "--mlir-print-debuginfo", "-o", str(once)]) == 0
    assert cuesta_opt.main([str(once), "--mlir-print-debuginfo", "-o", str(twice)]) == 0
    assert once.read_text() == twice.read_text()


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    from cuesta.passes.infra.registry import all_passes

    assert cuesta_opt.main(["--list-passes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("{")[0] for line in lines[::2]] == list(all_passes())
    assert [line for line in lines[1::2] if not line.endswith(".")] == [], "a description is one line"
    assert all(line.startswith("    ") and line.strip() for line in lines[1::2]), "a pass without a docstring"
    assert cuesta_opt.main(["--list-stages"]) == 0
    listed = [line.partition(" (FX")[0] for line in capsys.readouterr().out.splitlines() if line[0] != " "]
    assert listed == ["dynamo", "joint", "saved", "aten", *stages()]


def test_from_a_stage_to_the_same_runs_nothing(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cuesta_opt.main([str(good), "--from", stages()[-1], "--to", stages()[-1], "--print-ir-after-all"]) == 0
    assert "IR Dump" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pass-pipeline=builtin.module(cse"], ["position 19", "expected ',' or ')'", "^"]),
        (["--pass-pipeline=builtin.module(canonicalise)"], ["'canonicalise'", "did you mean 'canonicalize'"]),
        (["--pass-pipeline="], ["expected the name of a pass"]),
        (["--from", "nowhere"], ["'nowhere'", "linalg"]),
        (["--to", "nowhere"], ["'nowhere'", "linalg"]),
        (["--from", "linalg", "--to", "graph"], ["--to graph comes before --from linalg", "→"]),
        (["--to", "linalg", "--pass-pipeline=builtin.module()"], ["exclude each other"]),
        (["--no-such-option"], ["--no-such-option", "--help"]),
        (["--from"], ["--from", "expected one argument"]),
        (["-o", "/no/such/folder/out.mlir"], ["cannot write /no/such/folder/out.mlir", "No such file"]),
    ],
)
def test_bad_arguments(arguments: list[str], words: list[str], good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_failure([str(good), *arguments], words, capsys)


@pytest.mark.parametrize("level", ["graph", "linalg", "kernels", "tiled", "buffers", "loops"])
def test_a_module_of_another_level(level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, lowered = tmp_path / "relu.mlir", tmp_path / "lowered.mlir"
    source.write_text(RELU)
    assert cuesta_opt.main(["--to", "linalg", str(source), "-o", str(lowered)]) == 0
    wrong = ["--to", "llvm", *(["--from", level] if level != "linalg" else [])]
    check_failure([str(lowered), *wrong], ["lowered.mlir", "error: ", "note: this looks like", "'linalg'"], capsys)


@pytest.mark.parametrize("arguments", [["--list-passes"], ["--list-stages"], ["%s"]])
def test_a_full_disk(arguments: list[str], good: Path) -> None:
    arguments = [word.replace("%s", str(good)) for word in arguments]
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "cuesta.tools.cuesta_opt", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "cuesta-opt: error: cannot write to stdout: No space left on device\n")


def check_failure(arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Status 1, one error that holds `words`, no traceback, nothing on stdout."""
    assert cuesta_opt.main(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("error:") == 1
    assert "Traceback" not in err
    for word in words:
        assert word in err


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_failure([str(tmp_path / "nope.mlir")], ["nope.mlir", "No such file"], capsys)


def test_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_failure([str(tmp_path)], [str(tmp_path), "Is a directory"], capsys)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"func.func @cut(%x: tensor<4xf", ["bad.mlir:1:2", "func.func @cut(%x: tensor<4xf", "^"]),
        (b"\n\n  func.func @open() {\n", ["bad.mlir:"]),
        (b"", ["bad.mlir is empty"]),
        (b"what is this", ["bad.mlir:1:1: error: custom op 'what' is unknown", "\nwhat is this\n^"]),
        (b"\x00\x00\x00\x00", ["neither MLIR text nor bytecode", "0x00 at offset 0"]),
        (b"\xff\xd8\xff\xe0 jpeg", ["bad.mlir is neither MLIR text nor bytecode", "0xff at offset 0"]),
        (b"func.func @f() // \xe9\n", ["0xe9 at offset 18"]),
        (b"ML\xefR\x06garbage", ["bad.mlir"]),
        (b'"cuesta.no_such_op"() : () -> ()', ["bad.mlir:1:1", "cuesta.no_such_op"]),
        (b'"cuesta.softmax"() : () -> ()', ["bad.mlir:1:1", "cuesta.softmax"]),
        (b'"unknown.op"() : () -> ()', ["bad.mlir:1:1", "'unknown.op' op belongs to no dialect"]),
    ],
)
def test_malformed_input(content: bytes, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.mlir"
    path.write_bytes(content)
    check_failure([str(path)], words, capsys)


def test_random_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "random.mlir"
    for seed in range(20):
        path.write_bytes(random.Random(seed).randbytes(2000))
        check_failure([str(path)], ["random.mlir"], capsys)


def test_good_text_with_bytes_knocked_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "knocked.mlir"
    for position in range(0, len(GOOD), 3):
        path.write_text(GOOD[:position] + GOOD[position + 2 :])
        status = cuesta_opt.main([str(path)])
        assert status in (0, 1)
        assert ("error:" in capsys.readouterr().err) == (status == 1)


def test_a_failing_part_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "parts.mlir"
    path.write_text(f"{GOOD}// -----\nbroken\n// -----\n{GOOD.replace('@good', '@also_good')}")
    assert cuesta_opt.main([str(path), "--split-input-file"]) == 1
    out, err = capsys.readouterr()
    assert "@good" in out
    assert "@also_good" in out
    assert "parts.mlir:6:1: error: custom op 'broken'" in err


def test_no_output_file_after_a_failure(tmp_path: Path) -> None:
    path, out = tmp_path / "bad.mlir", tmp_path / "out.mlir"
    path.write_text("broken")
    assert cuesta_opt.main([str(path), "-o", str(out)]) == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("broken", ["unexpected error: custom op 'broken'"]),
        ("// expected-error {{nothing}}", ['expected error "nothing" was not produced', ":1:1"]),
        ("broken // expected-error {{something else}}", ["unexpected error", '"something else" was not produced']),
        ("broken // expected-warning {{custom op}}", ["unexpected error", 'expected warning "custom op"']),
        ("// expected-error@-1 {{custom op}}\nbroken", ["unexpected error", "was not produced"]),
    ],
)
def test_diagnostics_that_differ(
    text: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "diagnostics.mlir"
    path.write_text(text)
    assert cuesta_opt.main([str(path), "--verify-diagnostics"]) == 1
    err = capsys.readouterr().err
    for word in words:
        assert word in err


def test_an_expectation_holds_once(tmp_path: Path) -> None:
    path = tmp_path / "once.mlir"
    path.write_text("// expected-error@below {{custom op}}\n// expected-error@below {{custom op}}\nbroken")
    assert cuesta_opt.main([str(path), "--verify-diagnostics"]) == 1


def test_the_caret_stands_under_its_character_after_tabs() -> None:
    source = Source("t.mlir", "\t\tx = y\n")
    text = render(Diagnostic("error", "no", "t.mlir", 1, 7), source)
    assert text == "t.mlir:1:7: error: no\n\t\tx = y\n\t\t    ^\n"


def test_an_error_in_another_file_shows_that_files_line(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text("x = 1\ny = relu(x)\n")
    text = render(Diagnostic("error", "no", str(model), 2, 5), Source("t.mlir", ""))
    assert text.endswith("error: no\ny = relu(x)\n    ^\n")
    assert render(Diagnostic("error", "no", "gone.py", 2, 5), Source("t.mlir", "")) == "gone.py:2:5: error: no\n"


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "long.mlir"
    path.write_text("".join(GOOD.replace("@good", f"@f{i}") for i in range(5000)))
    command = f"{sys.executable} -m cuesta.tools.cuesta_opt {path} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "module {\n"
    assert done.stderr == ""


def test_an_option_of_a_pass_that_has_no_such_value(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cuesta_opt.main(["--pass-pipeline=builtin.module(multiply-quantised{by=hand})", str(good)]) == 1
    errors = capsys.readouterr().err
    assert "by=hand is not one of plain, words, tables, pairs, host" in errors, errors
