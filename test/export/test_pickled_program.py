"""Exported programs that are pickled, copied, and saved by torch."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuesta
from cuesta.errors import ArtefactError
from cuesta.export import pickled_program
from cuesta.export.exported_program import ExportedProgram
from cuesta.reports import compile_report


class Model(nn.Module):
    """Tied weights, two buffers that are views of one storage, one that it updates, keywords, containers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        table = torch.randn(3, 5)
        self.register_buffer("rows", table[:2])
        self.register_buffer("columns", table.T[1:3])
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor, pair: list[Tensor], *, scale: Tensor) -> dict[str, Tensor]:
        self.calls.add_(1)
        return {"y": self.second(self.first(x) + pair[0]) * scale, "z": self.rows.sum() + self.columns.sum()}


def through_torch(program: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(program, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda program: pickle.loads(pickle.dumps(program)),
    "oldest pickle": lambda program: pickle.loads(pickle.dumps(program, protocol=2)),
    "deepcopy": copy.deepcopy,
    "torch.save": through_torch,
}


@pytest.fixture
def program() -> Iterator[ExportedProgram]:
    rows = torch.export.Dim("rows", min=2)
    args, kwargs = arguments()
    shapes = {"x": {0: rows}, "pair": [{0: rows}], "scale": None}
    exported = torch.export.export(Model(), args, kwargs, dynamic_shapes=shapes)
    yield cuesta.compile(exported)
    compile_report.clear()


def arguments(rows: int = 3) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.randn(rows, 4), [torch.randn(rows, 4)]), {"scale": torch.randn(4)}


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_computes_the_same_with_weights_of_its_own(program: ExportedProgram, way: str) -> None:
    args, kwargs = arguments()
    program(*args, **kwargs)  # the buffer that it updates is copied as it is then
    made = COPIES[way](program)
    assert made.state_dict()["calls"] == 1
    for rows in (3, 8):
        args, kwargs = arguments(rows)
        torch.testing.assert_close(made(*args, **kwargs), program(*args, **kwargs), rtol=0, atol=0)
    theirs, ours = program.state_dict(), made.state_dict()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert {type(ours[name]) is type(value) for name, value in theirs.items()} == {True}
    ours["first.bias"].detach().zero_()
    assert made(*args, **kwargs)["y"].ne(program(*args, **kwargs)["y"]).any()


@pytest.mark.parametrize("way", COPIES)
def test_weights_that_share_memory_share_it_in_the_copy(program: ExportedProgram, way: str) -> None:
    state = COPIES[way](program).state_dict()
    assert state["first.weight"].data_ptr() == state["second.weight"].data_ptr()
    state["rows"][0, 1] = 7.0
    assert state["columns"][0, 0] == 7.0


def test_copy_shares_the_weights(program: ExportedProgram) -> None:
    state, other = program.state_dict(), copy.copy(program).state_dict()
    assert all(state[name].data_ptr() == other[name].data_ptr() for name in state)


def test_a_copy_within_something_that_has_the_weights_too(program: ExportedProgram) -> None:
    made = COPIES["torch.save"]({"program": program, "weights": program.state_dict()})
    state = made["program"].state_dict()
    assert all(state[name].data_ptr() == weight.data_ptr() for name, weight in made["weights"].items())


def test_a_copy_can_be_saved_and_loaded(program: ExportedProgram, tmp_path: Path) -> None:
    args, kwargs = arguments()
    expected = program(*args, **kwargs)
    loaded = cuesta.load(copy.deepcopy(program).save(tmp_path / "program"))
    torch.testing.assert_close(loaded(*args, **kwargs), expected)
    torch.testing.assert_close(COPIES["pickle"](loaded)(*args, **kwargs), expected)


ELSEWHERE = """
import pickle, sys
for name in ("torch_mlir", "triton"):
    sys.modules[name] = None
program, args, kwargs, expected = pickle.load(open(sys.argv[1], "rb"))
import torch
torch.testing.assert_close(program(*args, **kwargs), expected)
"""


def test_another_process_without_mlir_unpickles_it(program: ExportedProgram, tmp_path: Path) -> None:
    args, kwargs = arguments()
    (tmp_path / "pickle").write_bytes(pickle.dumps((program, args, kwargs, program(*args, **kwargs))))
    command = [sys.executable, "-W", "error::FutureWarning", "-c", ELSEWHERE, str(tmp_path / "pickle")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_torch_loads_no_program_where_weights_only_are_wanted(program: ExportedProgram) -> None:
    buffer = io.BytesIO()
    torch.save(program, buffer)
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="_rebuilt"):
        torch.load(buffer, weights_only=True)


def test_another_torch_or_cpu_is_refused(program: ExportedProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    here = pickled_program.origin()
    others = ({"torch": "2.4.0"}, "torch 2.4.0"), ({"instructions": ["avx9"]}, "a CPU that has avx9")
    for other, words in others:
        monkeypatch.setattr(pickled_program, "origin", lambda other=other: {**here, **other})
        data = pickle.dumps(program)
        with pytest.raises(ArtefactError, match=f"the pickled program was made .* {words}"):
            pickle.loads(data)
