"""Processes one input of cuesta-opt: splits it, parses it, runs passes, and prints the result or the diagnostics."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from cuesta._mlir import ir
from cuesta.dialects import problem_of, walk
from cuesta.dialects.open_op import OPEN_OPS
from cuesta.dialects.top_module import known_sizes
from cuesta.errors import CuestaError
from cuesta.passes.infra.diagnostics import Diagnostic
from cuesta.passes.infra.pipeline import Listener, Step, run_step
from cuesta.sizes import assumptions
from cuesta.tools.command_line import SPLIT_MARKER, Source
from cuesta.tools.expected_diagnostics import mismatches, read_expectations


@dataclass(frozen=True)
class Settings:
    """The options of cuesta-opt's command line, without its input, output and passes."""

    split_input: bool = False
    verify_diagnostics: bool = False
    allow_unregistered: bool = False
    verify_each: bool = True
    print_before: bool = False
    print_after: bool = False
    debug_info: bool = False
    timing: bool = False


@dataclass
class Driver:
    """Runs `steps` over every part of `source`. `err` takes diagnostics, IR dumps and timings."""

    context: ir.Context
    source: Source
    steps: Sequence[Step]
    settings: Settings
    err: TextIO = field(default_factory=lambda: sys.stderr)
    seconds: dict[str, float] = field(default_factory=dict)  # by a step's text

    def run(self) -> tuple[str, bool]:
        """The printed result, and whether no step failed (with verify_diagnostics: diagnostics are as expected)."""
        outputs, good = [], True
        for first_line, chunk in self.source.chunks(self.settings.split_input):
            output, diagnostics = self._process(first_line, chunk)
            if self.settings.verify_diagnostics and isinstance(chunk, str):
                wrong = mismatches(self.source.name, read_expectations(chunk, first_line), diagnostics)
                good &= not wrong
                self._print_diagnostics(wrong)
            else:
                self._print_diagnostics(diagnostics)
                if output is None:
                    good = False
                else:
                    outputs.append(output)
        if self.settings.timing:
            self._print_timing()
        return f"\n{SPLIT_MARKER}\n\n".join(outputs), good

    def _process(self, first_line: int, chunk: str | bytes) -> tuple[str | None, list[Diagnostic]]:
        """The module's text after all steps, or None after a failure, and the diagnostics of all steps."""
        heard: list[Diagnostic] = []

        def hear(diagnostic: Diagnostic) -> None:
            heard.append(diagnostic.renamed("-", self.source.name))

        module = self._parse(first_line, chunk, hear)
        if module is None or not self._keeps_rules(module, hear):
            return None, heard
        for step in self.steps:
            if self.settings.print_before:
                self._dump("Before", step.text, module)
            start = time.perf_counter()
            try:
                with assumptions():  # collects the guards that a compile would record and check
                    run_step(step, module, verify=self.settings.verify_each, on_diagnostic=hear)
            except CuestaError as error:
                self._explain(error, heard)
                return None, heard
            self.seconds[step.text] = self.seconds.get(step.text, 0.0) + time.perf_counter() - start
            if self.settings.verify_each and not self._keeps_rules(module, hear):
                heard.append(Diagnostic("note", f"pass '{step.text}' left it so"))
                return None, heard
            if self.settings.print_after:
                self._dump("After", step.text, module)
        return self._text(module), heard

    def _parse(self, first_line: int, chunk: str | bytes, hear: Listener) -> ir.Module | None:
        def hear_warning(info: Any) -> bool:
            hear(Diagnostic.from_mlir(info))
            return True

        handler = self.context.attach_diagnostic_handler(hear_warning)
        try:
            # Empty lines in front make the parser count lines from the start of the whole file.
            padded = "\n" * (first_line - 1) + chunk if isinstance(chunk, str) else chunk
            return ir.Module.parse(padded, self.context)
        except ir.MLIRError as error:
            for info in error.error_diagnostics:
                hear(Diagnostic.from_mlir(info))
            return None
        finally:
            handler.detach()

    def _keeps_rules(self, module: ir.Module, hear: Listener) -> bool:
        """Whether all ops satisfy cuesta's own op rules, which MLIR's verifier does not check. Reports violations."""
        with known_sizes(module):
            given = walk(module.operation)
            ops = [op for op in given if not (self.settings.allow_unregistered and _is_unregistered(op))]
            problems = [(op, problem) for op in ops if (problem := problem_of(op))]
        for op, problem in problems:
            hear(Diagnostic.at(str(op.location), "error", f"'{op.name}' op {problem}"))
        return not problems

    def _explain(self, error: CuestaError, heard: list[Diagnostic]) -> None:
        """Adds a step's exception to `heard`: as a note if an error was already reported, else as an error."""
        headline, _, rest = str(error).partition("\n")
        notes = tuple(Diagnostic("note", note) for note in getattr(error, "__notes__", ()))
        if any(d.severity == "error" for d in heard):
            heard.append(Diagnostic("note", headline, notes=notes))
            return
        # Errors of lowerings end with the op's location, "… at loc(…)".
        message, _, location = f"{headline}\n{rest}".rstrip().partition(" at loc(")
        message = message.rstrip(",")
        heard.append(Diagnostic.at(location, "error", message, notes).renamed("-", self.source.name))

    def _text(self, module: ir.Module) -> str:
        return str(module.operation.get_asm(enable_debug_info=self.settings.debug_info)).rstrip("\n") + "\n"

    def _dump(self, when: str, step: str, module: ir.Module) -> None:
        self.err.write(f"// -----// IR Dump {when} {step} //----- //\n{self._text(module)}\n")

    def _print_diagnostics(self, diagnostics: Sequence[Diagnostic]) -> None:
        for diagnostic in diagnostics:
            self.err.write(render(diagnostic, self.source))
            for note in diagnostic.notes:
                # Notes such as "see current operation" have their error's location: show the source line once.
                here = (note.file, note.line, note.col) == (diagnostic.file, diagnostic.line, diagnostic.col)
                self.err.write(f"  note: {note.message}\n" if here else render(note, self.source))

    def _print_timing(self) -> None:
        total = sum(self.seconds.values())
        self.err.write(f"{'time (ms)':>10}  {'share':>6}  pass\n")
        for name, seconds in self.seconds.items():
            self.err.write(f"{seconds * 1e3:10.3f}  {seconds / total:6.1%}  {name}\n")
        self.err.write(f"{total * 1e3:10.3f}  {1:6.1%}  total\n")


def _is_unregistered(op: ir.Operation) -> bool:
    return op.name not in OPEN_OPS and not op.context.is_registered_operation(op.name)


def render(diagnostic: Diagnostic, source: Source) -> str:
    """`file:line:col: error: message`, the source line and a caret, as MLIR's tools print them."""
    if not diagnostic.line:
        place = f"{source.name}: " if diagnostic.severity == "error" else ""
        return f"{place}{diagnostic.severity}: {diagnostic.message}\n"
    head = f"{diagnostic.file}:{diagnostic.line}:{diagnostic.col}: {diagnostic.severity}: {diagnostic.message}\n"
    line = source.line(diagnostic)
    if not line.strip():
        return head
    # Tabs stay tabs in the caret's line, so that the caret is below its character for any tab width.
    indent = "".join("\t" if char == "\t" else " " for char in line[: max(diagnostic.col - 1, 0)])
    return f"{head}{line}\n{indent}^\n"
