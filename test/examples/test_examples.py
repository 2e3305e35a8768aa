"""The programs in examples/, as a user runs them: each compares itself with eager, and raises where it differs."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cuesta
from cuesta.tools.bench.backends import fallbacks
from cuesta.torch_versions import OLDEST, installed

EXAMPLES = Path(__file__).parents[2] / "examples"

PRODUCTS = {"aten.mm.default", "aten.addmm.default", "aten.bmm.default"}
ATTENTION = {
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
}

RANDOM = {"aten.bernoulli.p"}  # dropout, drawn from torch's generator

#: Example → the ops that it may call in ATen. All of the others are kernels. Products and attention are the library's
#: where that is the faster on this machine.
IN_ATEN = {
    "accelerate_loop": PRODUCTS,
    "checkpoint_resume": PRODUCTS | RANDOM,
    "flex_attention_mask": PRODUCTS,
    "graph_networks": PRODUCTS,
    "hf_trainer": PRODUCTS | ATTENTION,
    "int4_weights": PRODUCTS | ATTENTION,
    "lightning_trainer": PRODUCTS,
    "sentence_embeddings": PRODUCTS | ATTENTION,
    "text_generation": PRODUCTS | ATTENTION,
    "threaded_server": PRODUCTS,
    "transformers_pipeline": PRODUCTS | ATTENTION,
}

#: Example → what it is given, so that it is small and needs no C++ compiler.
SMALL = ["--hidden", "64", "--layers", "1", "--backends", "cuesta"]
ARGUMENTS = {
    "flex_attention_mask": ["--length", "160", "--backends", "cuesta"],
    "int4_weights": SMALL,
    "text_generation": SMALL,
}

#: Each example that runs in one process, and what it is given.
RUNS = [*((name, ARGUMENTS.get(name, [])) for name in IN_ATEN), ("int4_weights", [*SMALL, "--bits", "8"])]

#: Example → the first torch that runs it, and what an earlier one does.
NEEDS = {
    # With the backend aot_eager as well. In 2.12 a thread that compiles makes calls in the others fail.
    "threaded_server": ((2, 13), "threads that compile at once end torch 2.11 with SIGSEGV, and fail in 2.12"),
}


def parameters(name: str, arguments: list[str]) -> Any:
    """What `test_in_this_process` takes, with a mark where this torch cannot run the example."""
    first, reason = NEEDS.get(name, (OLDEST, ""))
    marks = pytest.mark.skipif(installed() < first, reason=reason)
    return pytest.param(name, arguments, marks=marks, id=" ".join([name, *arguments]))


#: Those that run in two processes.
DISTRIBUTED = {"distributed"}


@pytest.fixture
def environment() -> Iterator[None]:
    """Puts back the variables that Lightning, scikit-learn and transformers set for processes to come."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


@pytest.mark.parametrize(("name", "arguments"), [parameters(*run) for run in RUNS])
def test_in_this_process(name: str, arguments: list[str], environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    graphs = cuesta.report().graphs
    assert graphs and not fallbacks()
    assert [graph.specialised for graph in graphs if graph.specialised] == []
    assert {call["op"] for graph in graphs for call in graph.aten_calls} <= IN_ATEN[name]


#: What the C++ library says of a thread that nobody joined.
_AT_THE_END = "terminate called without an active exception"


def launched(command: list[str | Path]) -> list[str]:
    """The lines that a command prints."""
    # A thread of torch's that still runs when a process ends aborts the process, once its work is done: with the
    # backend aot_eager in one of six runs. So a run that ended this way is made again. Others show their stacks.
    environment = os.environ | {"PYTHONFAULTHANDLER": "1"}
    for _ in range(5):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode == 0 or _AT_THE_END not in done.stderr:
            break
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


TORCHRUN: list[str | Path] = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


@pytest.mark.parametrize("command", [[sys.executable], [*TORCHRUN]], ids=["alone", "torchrun"])
def test_in_two_processes(command: list[str | Path]) -> None:
    lines = launched([*command, EXAMPLES / "distributed.py"])
    assert lines == [f"{name}: 2 processes trained as one does" for name in ("DDP", "FSDP2")]


def test_accelerate_in_two_processes() -> None:
    (line,) = launched([*TORCHRUN, EXAMPLES / "accelerate_loop.py"])
    assert line.startswith("8 batches a process")


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == IN_ATEN.keys() | DISTRIBUTED
