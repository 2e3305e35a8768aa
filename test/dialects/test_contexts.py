"""Contexts with cuesta's dialects: each knows every op, and threads may make them at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cuesta import dialects
from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.dialects.cuesta.dialect import Operation

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


def test_each_context_knows_every_op() -> None:
    """The first one describes the dialect to MLIR, those after it read that description."""
    for _ in range(3):
        with make_context() as context:
            assert context.is_registered_operation("cuesta.exp")
            module = ir.Module.parse(_MODULE)
            dialects.verify(module, "test")
            (function,) = module.body.operations
            assert isinstance(function.regions[0].blocks[0].operations[0], Operation)
            with pytest.raises(ir.MLIRError):
                ir.Module.parse(_MODULE.replace("cuesta.exp", "cuesta.no_such_op"))


def test_threads_make_them_at_once() -> None:
    """In a process of its own: it ended with a signal, as each thread loaded what another was about to load."""
    done = subprocess.run([sys.executable, "-c", _THREADS], capture_output=True, text=True)
    assert done.stdout == "80\n", f"code {done.returncode}: {done.stderr}"
