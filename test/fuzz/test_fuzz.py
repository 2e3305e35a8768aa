"""A slice of the random graphs and programs, the same ones each time; `make fuzz N=10000` goes on from there.

What the fuzzer has found lies reduced in found/, each file run against its reference.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import functools
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.backends.registry import lookup_backend

from cuesta.dialects.cuesta import reduction
from cuesta.dialects.scalar import Scalar, Value
from cuesta.lowering.cuesta_to_linalg.reduction import lower_reduction
from cuesta.lowering.cuesta_to_linalg.rules import RULES
from cuesta.tools.fuzz.calls.call_outcome import _wrong
from cuesta.tools.fuzz.failure import Failure, Note, Unjudged
from cuesta.tools.fuzz.files.check_file import check_file, make_file, smaller_files
from cuesta.tools.fuzz.files.file_changes import FOREIGN, MARK
from cuesta.tools.fuzz.files.specimens import specimen
from cuesta.tools.fuzz.graphs.check_graph import check_graph
from cuesta.tools.fuzz.graphs.random_graphs import make_blocks_graph, make_graph
from cuesta.tools.fuzz.graphs.smaller_graphs import smaller_graphs
from cuesta.tools.fuzz.hunt import KINDS, Hunt, Kind
from cuesta.tools.fuzz.judge import Judge
from cuesta.tools.fuzz.programs.check_program import Wanted, check_program
from cuesta.tools.fuzz.programs.program import Program, Run, program_text, smaller_programs
from cuesta.tools.fuzz.programs.random_programs import make_program, make_sized_program
from cuesta.tools.fuzz.rounding import DisturbedRounding, compare
from cuesta.tools.fuzz.shrink import shrink

#: A graph takes 0.2 s, a program 0.7 s, one for several sizes 2 s.
GRAPHS, BLOCKS, PROGRAMS, SIZED = range(15), range(25, 33), range(4), range(2)
#: A changed file takes 0.03 s, the programs that are changed some seconds each.
FILES = range(0, 200, 50)

SUM = """
func.func @graph(%x: tensor<4x9xf32> {cuesta.strides = [9, 1]})
    -> (tensor<4xf32> {cuesta.storage = 1 : i64, cuesta.strides = [1]}) {
  %0 = "cuesta.sum"(%x) {dims = [1], keepdim = 0 : i64} : (tensor<4x9xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize("seed", GRAPHS)
def test_graph(seed: int) -> None:
    assert check_graph(make_graph(seed)) is None


@pytest.mark.parametrize("seed", BLOCKS)
def test_graph_in_blocks(seed: int) -> None:
    assert check_graph(make_blocks_graph(seed)) is None


@pytest.mark.parametrize("seed", PROGRAMS)
def test_program(seed: int) -> None:
    assert check_program(make_program(seed)) is None


@pytest.mark.parametrize("seed", SIZED)
def test_program_for_several_sizes(seed: int) -> None:
    assert isinstance(check_program(make_sized_program(seed)), Note)


@pytest.mark.parametrize("first", FILES)
def test_changed_files(first: int) -> None:
    """A file is refused or right, by hundreds."""
    verdicts = {seed: check_file(make_file(seed)) for seed in range(first, first + 50)}
    assert {seed: verdict for seed, verdict in verdicts.items() if not isinstance(verdict, Note)} == {}


def test_a_file_of_foreign_code_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a text of a file run, imported or let through, the judge would see it."""
    entry = specimen("views")
    changes = [{"part": "json", "path": ["metadata", "report", "launches"], "do": "set", "value": 2}]
    text = json.dumps({"specimen": "views", "restated": False, "changes": changes})
    assert check_file(text) == Note("right")
    reads = {
        "foreign code ran": lambda: setattr(builtins, MARK, 1),
        "a module was imported": lambda: monkeypatch.setitem(sys.modules, FOREIGN[0], sys),
        "wrong answer": lambda: torch.zeros(3),
        "loading raises KeyError: 'sizes'": lambda: {}["sizes"],
    }
    for kind, read in reads.items():
        with monkeypatch.context() as patch:
            load = entry.load
            patch.setattr(entry, "load", lambda data, load=load, read=read: (read(), load(data))[1])
            if kind == "wrong answer":
                patch.setattr(entry, "load", lambda data, read=read: read)
            failure = check_file(text)
        sys.modules.pop(FOREIGN[0], None)
        assert isinstance(failure, Failure) and failure.kind == kind


def test_changes_of_a_file_are_reduced() -> None:
    text = next(text for seed in range(100) if len(json.loads(text := make_file(seed))["changes"]) > 1)
    last = json.loads(text)["changes"][-1]

    def has_last(smaller: str) -> Failure | None:
        return Failure("found", "") if last in json.loads(smaller)["changes"] else None

    reduced = shrink(text, Failure("found", ""), has_last, smaller_files)
    assert json.loads(reduced)["changes"] == [last]
    assert check_file(f"# python -m cuesta.tools.fuzz --replay FILE\n\n# found\n{reduced}") is not None


def test_seeds_are_repeatable() -> None:
    for seed in (3, 4):
        assert make_file(seed) == make_file(seed)
        assert make_graph(seed) == make_graph(seed)
        assert make_program(seed) == make_program(seed)
        assert make_sized_program(seed) == make_sized_program(seed)


def _has_tanh(text: str) -> Failure | None:
    return Failure("found", "a tanh") if "tanh" in text else None


def test_graphs_are_reduced() -> None:
    text = next(text for seed in range(100) if (text := make_graph(seed)).count("cuesta.tanh") > 1)
    reduced = shrink(text, Failure("found", ""), _has_tanh, smaller_graphs)
    assert reduced.count('= "') == 1
    assert "cuesta.tanh" in reduced
    assert check_graph(reduced) is None


@pytest.mark.parametrize("make", [make_program, make_sized_program])
def test_programs_are_reduced(make: Callable[[int], str]) -> None:
    text = next(text for seed in range(100) if "tanh" in (text := make(seed)))
    reduced = shrink(text, Failure("found", ""), _has_tanh, smaller_programs)
    assert "tanh" in reduced
    assert reduced.count("\n    t") + reduced.count("\n    x") == 1
    assert "OTHERS.append" not in reduced


def test_wrong_values_are_seen() -> None:
    x = torch.tensor([1.0, 2.0, float("nan"), float("inf")])
    around = [x * (1 + 1e-6)] * 2
    assert compare("x", x * (1 + 1e-6), [x, *around]) is None
    for wrong in ([1.0, 2.1, float("nan"), float("inf")], [1.0, 2.0, 3.0, float("inf")], [1.0, 2.0, float("nan"), 4.0]):
        failure = compare("x", torch.tensor(wrong), [x, *around])
        assert failure is not None
        assert failure.kind == "wrong value"


def test_what_hangs_on_rounding_passes() -> None:
    yes, no = torch.tensor([True]), torch.tensor([False])
    assert compare("x", yes, [no, no, yes]) is None
    assert compare("x", yes, [no, no, no]) is not None


def test_what_was_rounded_is_disturbed_and_nothing_else() -> None:
    x, few = torch.tensor([0.1, 0.7, -0.3]), torch.tensor([3.0, -1.0, 2.5])
    equal = torch.full((7,), 2.0)
    with DisturbedRounding(0):
        assert torch.equal(x.clone().flip(0).neg(), -x.flip(0))
        assert torch.equal(few * 2 - few, few)
        assert few.sum() == 4.5
        assert not torch.equal(x.sin(), x.sin())
        assert float(equal.var()) == 0  # computed without any error
        assert 0 < float(equal.sigmoid().var()) < 1e-12  # eager happens to have none
        for y in (x, x.bfloat16()):
            assert {bool(y.sqrt()[2].signbit()) for _ in range(20)} == {True, False}  # NaN
            assert {bool(y.sqrt()[2].half().signbit()) for _ in range(20)} == {True, False}
        assert {float((x[:1] * 0).sum().reciprocal()) for _ in range(20)} == {torch.inf, -torch.inf}


def test_rounding_is_known_where_nothing_shows_it() -> None:
    x = torch.tensor([[0.1, 0.7, -0.3]], dtype=torch.float64)
    with DisturbedRounding(0):
        assert torch.equal(x.sort().values.take_along_dim(torch.tensor([[2, 0]]), 1), x[:, [1, 2]])  # moved only
        assert not torch.equal(x.softmax(1), x.softmax(1))
        tiny = x[:, :1] * 1e-7  # less than a last place of 1
        ones = torch.full((1120,), 0.1)
        norms = {float(torch.layer_norm(ones, (1120,))[7]) for _ in range(20)}
        assert 1e-6 < max(norms) - min(norms) < 1e-4  # of a mean that eager happens to have exactly
        rests = {float(torch._log_softmax_backward_data(tiny, tiny, 1, x.dtype)) for _ in range(20)}
        assert 1e-11 < (max(rests) - min(rests)) / abs(max(rests)) < 1e-7
        root = torch.tensor([1.4616321449683622], dtype=torch.float64)  # what is left of logarithms and reciprocals
        assert 1e-16 < max(abs(float(root.digamma() - torch.digamma(root))) for _ in range(20)) < 1e-14


def test_what_overflows_in_eager_alone_may_be_a_number() -> None:
    """Of the numbers just below the largest that f32 holds, the cosh that eager has for vectors gives infinities."""
    x = torch.full((64,), 89.2)
    if not x.cosh().isinf().all():
        pytest.skip("the cosh of this torch, 2.15 or later, gives numbers")
    with DisturbedRounding(0):
        found = x.cosh()
        assert found.isinf().any()
        assert found.isfinite().any()
        assert (x * 4).cosh().isinf().all()


def test_what_hangs_on_a_rounding_in_between_passes() -> None:
    """The logit of the sigmoid of 1 is 1 or a little less, which the cut makes 1 or 0."""
    lines = ["t0 = torch.ones_like(x0)", "t1 = torch.logit(t0.sigmoid()).long()"]
    text = program_text([[((3,), (1,), "float32")]], False, "no", lines, ["t1", "t0"])
    wanted = Wanted.of(Program.read(text), text, [((3,), (1,), "float32")])
    found = wanted.expected.tensors
    for number in (0, 1):
        assert wanted.compare(Run(found | {"output 0": torch.full_like(found["output 0"], number)}, [])) is None
    assert wanted.compare(Run(found | {"output 1": found["output 1"] * 2}, [])) is not None


@pytest.mark.parametrize("factor", [1.0, 1.0001])
def test_a_broken_lowering_is_found(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum whose steps are a little off, in a graph and in a program; unbroken, both are right."""
    sum_row = reduction.BY_NAME["sum"]

    def combine(s: Scalar, total: Value, x: Value) -> Value:
        return sum_row.combine(s, total, s.mul(x, s.const(x, factor)))

    monkeypatch.setenv("CUESTA_CACHE_DIR", "")
    broken = dataclasses.replace(sum_row, combine=combine)
    monkeypatch.setitem(RULES, "cuesta.sum", functools.partial(lower_reduction, broken))
    lines = ["t0 = x0.sin()", "t1 = t0.sum(-1)", "t2 = x0 - x0.mean(-1, keepdim=True)"]
    program = program_text([[((5, 8), (8, 1), "float32")]], True, "no", lines, ["t1", "t2"])
    for failure in (check_graph(SUM), check_program(program)):
        assert (failure is None) == (factor == 1)
        assert failure is None or (isinstance(failure, Failure) and failure.kind == "wrong value")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge[Any]]:
    """A text is Python here. Several tests share a process as long as it lives: one takes six seconds to start."""
    with Judge[Any](exec) as judge:
        yield judge


def test_a_crash_is_a_failure_and_the_next_text_is_judged(judge: Judge[Any]) -> None:
    crash = judge("import os; os.abort()")
    assert crash is not None
    assert crash.kind == "crashes"
    assert crash.message == "the process ended with SIGABRT"
    assert judge("1 + 1") is None
    with pytest.raises(Unjudged, match="no such graph"):
        judge("raise RuntimeError('no such graph')")


def test_control_c_ends_a_hunt(tmp_path: Path) -> None:
    def seeds() -> Iterator[int]:
        yield from range(3)
        os.kill(os.getpid(), signal.SIGINT)  # to the process: a thread's own would not wake the one that waits
        yield from range(3, 40)

    hunt = Hunt(KINDS["graphs"], tmp_path, print)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs behind others ignores it
    try:
        hunt.run(seeds(), processes=2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert hunt.interrupted
    assert 3 <= hunt.judged + sum(hunt.unjudged.values()) <= 6


@pytest.mark.parametrize(
    "told, fresh",
    [("no such graph", False), ("CUDA error: device-side assert triggered", True)],
)
def test_a_process_that_has_lost_its_gpu_is_followed_by_a_fresh_one(told: str, fresh: bool, judge: Judge[Any]) -> None:
    with pytest.raises(Unjudged, match=told):
        judge(f"import builtins; builtins.lost = True; raise RuntimeError({told!r})")
    with pytest.raises(Unjudged, match="AssertionError: " + ("False" if fresh else "True")):
        judge("import builtins; assert False, hasattr(builtins, 'lost')")


def test_a_process_that_ends_between_two_texts_is_followed_by_a_fresh_one(judge: Judge[Any]) -> None:
    assert judge("import os, threading; threading.Timer(0.1, os.abort).start()") is None
    assert judge._process is not None
    judge._process.join(30)
    assert judge("1 + 1") is None


#: What a GPU does to a process: after an assertion every call fails.
_GPU = "import builtins; assert not hasattr(builtins, 'lost'), 'CUDA error: device-side assert'\n"
_TEXTS = [
    "1",
    _GPU + "builtins.lost = True; raise RuntimeError('CUDA error: device-side assert triggered')",
    _GPU,
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    _GPU,
]


@pytest.mark.slow
def test_a_hunt_goes_on_where_eager_takes_its_process_along(tmp_path: Path) -> None:
    kind = Kind("texts", _TEXTS.__getitem__, exec, exec, iter, ".py", "#")
    hunt = Hunt(kind, tmp_path, print)
    hunt.run(range(len(_TEXTS)))
    assert hunt.judged == 3 and hunt.failures == 0
    assert hunt.unjudged == {"RuntimeError": 1, "eager crashes": 1}


@pytest.mark.slow
def test_a_hunt_goes_on_where_the_compiled_program_takes_its_process_along(tmp_path: Path) -> None:
    kind = Kind("texts", _TEXTS.__getitem__, exec, len, iter, ".py", "#")
    hunt = Hunt(kind, tmp_path, print)
    hunt.run(range(len(_TEXTS)))
    assert hunt.judged == 4 and hunt.failures == 1
    assert "crashes: the process ended with SIGSEGV" in (tmp_path / "text_3.py").read_text()


def test_what_eager_raises_is_told() -> None:
    text = program_text([[((3,), (1,), "float32")]], False, "no", ["t0 = x0[torch.tensor([5])]"], ["t0"])
    with pytest.raises(Unjudged, match="eager raised IndexError: index 5 is out of bounds"):
        check_program(text)


def _copying(gm: torch.fx.GraphModule, inputs: object) -> Callable[..., object]:
    return lambda *arguments: [x.clone() for x in gm(*arguments)]


@pytest.mark.parametrize("backend, kind", [("cuesta", None), (_copying, "memory apart")])
def test_results_that_share_memory_in_eager_do_here(
    backend: object, kind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["t0 = x0.sin()", "t1 = t0.reshape(-1, 1)", "t2 = x0[1:]"]
    text = program_text([[((3, 4), (4, 1), "float32")]], False, "no", lines, ["t1", "t0", "t2"])

    def lookup(name: object) -> object:
        return lookup_backend(backend if name == "cuesta" else name)  # type: ignore[arg-type]

    monkeypatch.setattr("cuesta.tools.fuzz.compiling.lookup_backend", lookup)
    failure = check_program(text)
    assert (failure.kind if isinstance(failure, Failure) else failure) == kind


def _any_graph(text: str) -> Failure | None:
    return Failure("found", "a graph")


def test_a_hunt_keeps_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unasked(answer: Callable[..., object], *_: object) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext(answer)  # in this process

    monkeypatch.setattr("cuesta.tools.fuzz.hunt.Judge", unasked)
    lines: list[str] = []
    hunt = Hunt(dataclasses.replace(KINDS["graphs"], check=_any_graph), tmp_path, lines.append)
    hunt.run([5])
    assert hunt.failures == 1
    text = (tmp_path / "graph_5.mlir").read_text()
    assert text.startswith("// RUN: cuesta-run --compare-reference")
    assert check_graph(text) is None
    assert "seed 5: found" in lines[0]


@pytest.mark.parametrize("found, wrong", [(complex(math.nan, 1), False), (complex(1, 1), True), (complex(1, 2), True)])
def test_a_complex_number_is_nan_where_one_of_its_parts_is(found: complex, wrong: bool) -> None:
    wanted = torch.tensor([complex(math.nan, math.nan) if found != complex(1, 2) else complex(1, 1)])
    assert bool(_wrong(wanted, torch.tensor([found]), "")) == wrong
