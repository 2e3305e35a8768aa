"""The programs in examples/, as a user runs them: each compares itself with eager, and raises where it differs."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cuesta.tools.bench.backends import fallbacks

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["checkpoint_resume", "hf_trainer", "threaded_server"])
def test_in_this_process(name: str) -> None:
    torch._dynamo.reset()
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    fell_back = fallbacks()
    torch._dynamo.reset()
    assert not fell_back, fell_back


def test_in_two_processes() -> None:
    # Where a signal ends a process of the two, its stacks say at what: one was by SIGABRT, once in some fifty runs.
    environment = os.environ | {"PYTHONFAULTHANDLER": "1"}
    command = [sys.executable, EXAMPLES / "distributed.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"{name}: 2 processes trained as one does" for name in ("DDP", "FSDP2")]


def test_every_example_is_run() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {"checkpoint_resume", "distributed", "hf_trainer", "threaded_server"}
