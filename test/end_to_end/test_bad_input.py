"""What a user can get wrong, and what a pass can: each gives one clear error, and torch goes on."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import cuesta
from cuesta.errors import CuestaError, OptionError, PassFailed, Unsupported, VerifyError
from cuesta.passes.infra.registry import find_pass
from cuesta.tools import cuesta_opt

pytestmark = pytest.mark.usefixtures("cuesta_only")

# Options ---------------------------------------------------------------------------------------------------------


def double(x: torch.Tensor) -> torch.Tensor:
    return x + x


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mode": "max_autotune"}, ["unknown mode 'max_autotune'", "did you mean 'max-autotune'", "reduce-overhead"]),
        ({"mode": "fastest"}, ["unknown mode 'fastest'", "default"]),
        ({"options": {"fuse": False}}, ["unknown option 'fuse'", "did you mean 'fusion'", "opt_level"]),
        ({"options": {"fusion": "no"}}, ["'fusion' takes a bool, got 'no' (str)"]),
        ({"options": {"opt_level": 9}}, ["'opt_level' takes an int from 0 to 3, got 9 (int)"]),
        ({"options": {"cache_dir": 7}}, ["'cache_dir' takes a folder or None, got 7 (int)"]),
        ({"options": {"dump": "~nobody-of-this-name/ir"}}, ["'dump'", "names no folder"]),
    ],
)
def test_a_wrong_option_leaves_torch_as_it_was(arguments: dict[str, Any], words: list[str]) -> None:
    x = torch.randn(4)
    wrong = torch.compile(double, backend="cuesta", **arguments)
    for _ in range(2):  # it does not turn into eager in silence
        with pytest.raises(BackendCompilerFailed) as caught:
            wrong(x)
        assert isinstance(caught.value.inner_exception, OptionError)
        for word in words:
            assert word in str(caught.value)
    torch.testing.assert_close(double(x), x * 2)
    torch.testing.assert_close(torch.compile(double, backend="cuesta")(x), x * 2)


def test_a_wrong_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4)
    monkeypatch.setenv("CUESTA_DUMP", "~nobody-of-this-name/ir")
    with pytest.raises(BackendCompilerFailed, match="CUESTA_DUMP names no folder"):
        torch.compile(double, backend="cuesta")(x)
    monkeypatch.delenv("CUESTA_DUMP")
    torch.testing.assert_close(torch.compile(double, backend="cuesta")(x), x * 2)


# A compile that fails --------------------------------------------------------------------------------------------


def _raise(self: object, module: Any) -> None:
    raise KeyError("lost")


def _corrupt(self: object, module: Any) -> None:
    from cuesta._mlir import ir

    (function,) = (op for op in module.body.operations if op.operation.name == "func.func")
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], []))


def _give_up(self: object, module: Any) -> None:
    raise VerifyError("two kernels are one")


def broken(monkeypatch: pytest.MonkeyPatch, run: Callable[[object, Any], None]) -> None:
    """Makes the pass form-kernels fail."""
    cls = find_pass("form-kernels")
    assert cls is not None
    monkeypatch.setattr(cls, "run", run)


def failure(x: torch.Tensor, **options: Any) -> CuestaError:
    """The error of a compile that fails."""
    compiled = torch.compile(double, backend="cuesta", options={"cache": False, **options})
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(x)
    error = caught.value.inner_exception
    assert isinstance(error, CuestaError) and str(error) in str(caught.value)
    return error


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        (_raise, PassFailed, "pass 'form-kernels' raised KeyError: 'lost'"),
        (_corrupt, VerifyError, "pass 'form-kernels' left invalid IR behind"),
        (_give_up, VerifyError, "two kernels are one"),
    ],
)
@pytest.mark.parametrize("dumps", [True, False], ids=["dump", "no dump"])
def test_a_failing_pass_says_how_to_repeat_it(
    run: Callable[[object, Any], None],
    kind: type[CuestaError],
    words: str,
    dumps: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    x = torch.randn(4)
    with monkeypatch.context() as patch:
        broken(patch, run)
        error = failure(x, dump=tmp_path / "ir" if dumps else None)
        assert type(error) is kind and words in str(error)
        head, _, last = str(error).rpartition("\n  to reproduce: cuesta-opt ")
        assert head.startswith(words)
        file = Path(shlex.split(last)[-1])
        assert file.is_relative_to(tmp_path / "ir") == dumps
        assert cuesta_opt.main(shlex.split(last)) == 1
        assert words in capsys.readouterr().err
    if dumps:
        assert file.name == "03_before_form-kernels.mlir"
        assert file.name in (tmp_path / "ir" / "index.md").read_text()
        assert str(error) in (file.parent / "report.txt").read_text()
    assert cuesta_opt.main([*shlex.split(last), "-o", os.devnull]) == 0  # the pass works again
    torch.testing.assert_close(torch.compile(double, backend="cuesta")(x), x * 2)


def test_options_of_the_failing_pass_are_in_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broken(monkeypatch, _raise)
    assert "--pass-pipeline='builtin.module(form-kernels{fuse=false})' " in str(failure(torch.randn(4), fusion=False))


def test_a_failure_that_cannot_be_written_is_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/none")
    broken(monkeypatch, _raise)
    lines = str(failure(torch.randn(4), dump="/proc/none")).splitlines()
    assert lines[0].startswith("pass 'form-kernels' raised KeyError")
    assert lines[1].startswith("  the module before it could not be written: [Errno 2]")


def _refuse(self: object, module: Any) -> None:
    raise Unsupported("cuesta.add has no kernel")


@pytest.mark.may_fall_back("the test makes a pass refuse it")
def test_what_a_level_cannot_express_runs_op_by_op(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr("cuesta.driver.compile_graph.log.warning", lambda text, *values: warnings.append(text % values))
    broken(monkeypatch, _refuse)
    x = torch.randn(4)
    torch.testing.assert_close(torch.compile(double, backend="cuesta", options={"cache": False})(x), x * 2)
    assert warnings == ["the inference graph runs op by op: cuesta.add has no kernel"]
    (graph,) = cuesta.report().graphs
    assert graph.fallback == "cuesta.add has no kernel"


def test_a_failing_compile_can_fall_back_to_eager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broken(monkeypatch, _raise)
    x = torch.randn(4)
    with torch._dynamo.config.patch(suppress_errors=True):
        torch.testing.assert_close(torch.compile(double, backend="cuesta", options={"cache": False})(x), x * 2)
