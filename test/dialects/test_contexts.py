"""Contexts with cuesta's dialects: one that is given back is the next, and threads may make them at once."""

from __future__ import annotations

import subprocess
import sys

from cuesta import dialects
from cuesta._mlir import ir
from cuesta.dialects import give_back, make_context

_MODULE = """
func.func @graph(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "cuesta.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""

_THREADS = """
from concurrent.futures import ThreadPoolExecutor

from cuesta.dialects import make_context

with ThreadPoolExecutor(4) as pool:
    contexts = list(pool.map(lambda _: make_context(), range(80)))
print(len(contexts))
"""


def test_one_that_is_given_back_serves_once_more(monkeypatch) -> None:
    monkeypatch.setattr(dialects, "_SPARE", [])
    first = make_context()
    for _ in range(2):
        with first:
            dialects.verify(ir.Module.parse(_MODULE), "test")
        give_back(first)
        assert make_context() is first
    assert make_context() is not first


def test_threads_make_them_at_once() -> None:
    """In a process of its own: it ended with a signal, as each thread loaded what another was about to load."""
    done = subprocess.run([sys.executable, "-c", _THREADS], capture_output=True, text=True)
    assert done.stdout == "80\n", f"code {done.returncode}: {done.stderr}"
