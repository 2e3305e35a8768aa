"""Finds the smallest command that reproduces a failed compile: one pass, on the module before that pass.

    pass 'form-kernels' raised KeyError: 'lost' (grouping.py:31)
      to reproduce: cuesta-opt --pass-pipeline='builtin.module(form-kernels)' ir/03_before_form-kernels.mlir

A successful compile pays only for one clone of the imported module (1 ms for 2,000 ops). Passes rewrite in place, so
after a failure the module before the failing pass is computed again from the clone. A failure that is worked around
leaves no file.
"""

from __future__ import annotations

import io
import re
import shlex
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import cuesta.dialects as dialects
from cuesta._mlir import ir
from cuesta.driver.dump.stages import Dump
from cuesta.errors import CompileError, CuestaError
from cuesta.passes.infra.pipeline import Pipeline, run_step
from cuesta.sizes import assumptions


class LoweringFailed(CompileError):
    """A pass or LLVM fails on IR that cuesta made: an error of cuesta's, not of the user's graph.

    A caller may work around it. A caller that lets it reach the user raises the result of `told` instead, which names
    the command that reproduces the failure and leaves a file for it.
    """

    def __init__(self, error: CompileError, original: ir.Operation, pipelines: Mapping[str, Pipeline], stage: str):
        """`original` is the module before `pipelines`, which are by stage name. `stage` is the stage that failed, or
        "machine code" if all stages succeeded."""
        super().__init__(str(error))
        self.error, self.original, self.pipelines, self.stage = error, original, pipelines, stage
        self._told: CuestaError | None = None

    @property
    def first_line(self) -> str:
        """The first line: what failed, without the diagnostics."""
        return str(self).partition("\n")[0]

    def told(self, dump: Dump | None = None) -> CuestaError:
        """The error for the user. The module before the failing pass is written to `dump`, else to a temporary
        folder."""
        if self._told is None:
            with self.original.context, ir.Location.unknown(), assumptions():
                self._told = reproduced(self.error, as_text(self.original), self.pipelines.values(), dump)
        return self._told


def reproduced(error: CompileError, start: str, pipelines: Iterable[Pipeline], dump: Dump | None) -> CuestaError:
    """The error to raise in place of `error`: that of the failing pass, ending in the command that reproduces it.

    Runs `pipelines` on `start`, a module's text, one pass at a time, and verifies after each. The module before the
    failing pass is written to `dump`, or to a temporary folder that stays. If every pass succeeds by itself, the result
    is `error` with a command that runs the whole pipeline.
    """
    try:
        module = ir.Module.parse(start)
    except ir.MLIRError:  # the IR was built but does not verify: the level above is at fault
        return _with_command(error, "cuesta-opt", "whole", start, dump)
    for step in (step for pipeline in pipelines for step in pipeline.passes):
        before = as_text(module.operation)
        try:
            run_step(step, module)
            dialects.verify(module, f"pass '{step.text}'")
        except CuestaError as again:
            name = re.sub(r"[^A-Za-z0-9-]+", "_", f"before_{step.text}")[:60].rstrip("_")
            option = shlex.quote(f"builtin.module({step.text})")
            return _with_command(again, f"cuesta-opt --pass-pipeline={option}", name, before, dump)
    return _with_command(error, "cuesta-run", "whole", start, dump)


def _with_command(error: CuestaError, command: str, name: str, text: str, dump: Dump | None) -> CuestaError:
    path = dump.write_text(name, text) if dump is not None else None
    try:
        if path is None:
            path = Path(tempfile.mkdtemp(prefix="cuesta_failed_")) / f"{name}.mlir"
            path.write_text(text)
        advice = f"to reproduce: {command} {shlex.quote(str(path))}"
    except OSError as problem:
        advice = f"the module before it could not be written: {problem}"
    error.args = (f"{error}\n  {advice}",)
    return error


def as_bytecode(module: ir.Module) -> bytes:
    """A module as MLIR's bytecode, which parses faster than text."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def as_text(module: ir.Operation) -> str:
    """A module's text for files: with locations."""
    return str(module.get_asm(enable_debug_info=True))
