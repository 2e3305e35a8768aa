"""--version of each command."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cuesta
from cuesta.tools import cuesta_bench, cuesta_demo, cuesta_opt, cuesta_run, entry_points


@pytest.mark.parametrize("command", ["opt", "run", "bench", "demo"])
def test_it_loads_neither_torch_nor_mlir(command: str) -> None:
    program = (
        f"import sys; from cuesta.tools import entry_points; sys.argv = ['cuesta-{command}', '--version']; "
        f"status = entry_points.{command}(); sys.exit(status or bool({{'torch', 'torch_mlir'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == entry_points.versions() + "\n"


def test_what_is_named() -> None:
    lines = entry_points.versions().splitlines()
    assert lines[0] == f"cuesta {cuesta.__version__}"
    assert [line.rpartition(" ")[0] for line in lines] == [
        *("cuesta", "Python", "torch", "MLIR bindings torch-mlir", "Triton")
    ]
    assert all(line[-1].isalnum() and line.rpartition(" ")[2][0].isdigit() for line in lines)


@pytest.mark.parametrize("main", [cuesta_opt.main, cuesta_run.main, cuesta_bench.main, cuesta_demo.main])
def test_among_other_options(main: object, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])  # type: ignore[operator]
    assert ended.value.code == 0 and capsys.readouterr().out == entry_points.versions() + "\n"
