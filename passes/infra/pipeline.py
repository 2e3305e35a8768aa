"""Parses and runs pipelines that mix cuesta's passes with upstream MLIR's.

    Pipeline.parse("builtin.module(limit-stack{bytes=4096},func.func(canonicalize,cse))").run(module)

cuesta's passes run on the module; upstream's run where upstream's own PassManager puts them, and
neighbours among them share one PassManager.
"""

from __future__ import annotations

import difflib
import functools
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cuesta._mlir import PassManager, ir
from cuesta.dialects.top_module import HINTS, known_sizes
from cuesta.errors import CuestaError, PassFailed, PipelineError, VerifyError
from cuesta.passes.infra.diagnostics import Diagnostic
from cuesta.passes.infra.pipeline_text import Item, error_at, parse_text, split_options
from cuesta.passes.infra.registry import Pass, all_passes, find_pass, make_pass, spelled
from cuesta.sizes import hints

# Upstream names to suggest for a mistyped name; the bindings cannot list upstream's registry.
_FAMILIAR_UPSTREAM = (
    *("canonicalize", "cse", "inline", "symbol-dce", "sccp", "transform-interpreter", "loop-invariant-code-motion"),
    *("linalg-fuse-elementwise-ops", "linalg-generalize-named-ops", "linalg-fold-unit-extent-dims"),
    *("one-shot-bufferize", "eliminate-empty-tensors", "empty-tensor-to-alloc-tensor", "buffer-deallocation-pipeline"),
    *("convert-linalg-to-affine-loops", "convert-linalg-to-loops", "affine-loop-fusion", "affine-scalrep"),
    *("affine-loop-tile", "lower-affine", "convert-scf-to-cf", "convert-scf-to-openmp", "convert-vector-to-llvm"),
    *("convert-func-to-llvm", "convert-arith-to-llvm", "convert-math-to-llvm", "convert-cf-to-llvm"),
    *("finalize-memref-to-llvm", "expand-strided-metadata", "reconcile-unrealized-casts", "convert-math-to-libm"),
)

Observer = Callable[[str, ir.Module], None]
Listener = Callable[[Diagnostic], None]


@dataclass(frozen=True)
class OwnStep:
    """One pass of cuesta."""

    text: str
    own: Pass

    def named(self, name: str) -> bool:
        return self.own.name == name

    def apply(self, module: ir.Module, verify: bool) -> None:
        with module.context, ir.Location.unknown():
            self.own.run(module)
        if verify:
            try:
                module.operation.verify()
            except ir.MLIRError as error:
                raise _with_diagnostics(VerifyError, f"pass '{self.text}' left invalid IR behind", error, ()) from error


@dataclass(frozen=True)
class UpstreamStep:
    """Neighbouring upstream passes, run by one PassManager."""

    text: str  # without the anchor: "func.func(canonicalize,cse),one-shot-bufferize"

    def named(self, name: str) -> bool:
        return False

    def apply(self, module: ir.Module, verify: bool) -> None:
        manager = PassManager.parse(f"builtin.module({self.text})", module.context)
        manager.enable_verifier(verify)
        manager.run(module.operation)


Step = OwnStep | UpstreamStep


@dataclass(frozen=True)
class Pipeline:
    """A checked pipeline. Holds no context: one Pipeline serves every thread."""

    text: str
    passes: tuple[Step, ...]  # each pass by itself, nested anchors unrolled

    @staticmethod
    def parse(text: str) -> Pipeline:
        """Reads and checks pipeline text; the result is cached.

        Raises PipelineError, with the position, for text that does not parse, a name that is neither
        cuesta's nor upstream's, an option that its pass does not know, or a pass in the wrong place.
        """
        return _parse(text)

    @staticmethod
    def of(passes: Sequence[Step]) -> Pipeline:
        """The pipeline of passes that are checked already."""
        return Pipeline(f"builtin.module({','.join(step.text for step in passes)})", tuple(passes))

    def with_options(self, name: str, **options: object) -> Pipeline:
        """With other options for cuesta's pass `name`, wherever it stands: fields of the pass by their names."""
        if not options or not any(step.named(name) for step in self.passes):
            return self

        def changed(step: Step) -> Step:
            if not isinstance(step, OwnStep) or not step.named(name):
                return step
            own = replace(step.own, **options)
            return OwnStep(spelled(own), own)

        return Pipeline.of([changed(step) for step in self.passes])

    def without(self, names: Collection[str]) -> Pipeline:
        """Without cuesta's passes of these names."""
        kept = [step for step in self.passes if not any(map(step.named, names))]
        return self if len(kept) == len(self.passes) else Pipeline.of(kept)

    def with_pass(self, name: str, before: str | None) -> Pipeline:
        """With cuesta's pass `name`, by default options, before another one of cuesta's; at the end where that is
        None. Raises ValueError where the other one is not there."""
        own = make_pass(name, {})
        places = [i for i, step in enumerate(self.passes) if before is not None and step.named(before)]
        if before is not None and not places:
            raise ValueError(f"{name} goes before {before}, which is not in {self.text}")
        place = places[0] if places else len(self.passes)
        return Pipeline.of([*self.passes[:place], OwnStep(name, own), *self.passes[place:]])

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """The passes with neighbouring upstream ones joined."""
        joined: list[Step] = []
        for step in self.passes:
            if joined and isinstance(step, UpstreamStep) and isinstance(joined[-1], UpstreamStep):
                joined[-1] = UpstreamStep(f"{joined[-1].text},{step.text}")
            else:
                joined.append(step)
        return tuple(joined)

    def run(
        self,
        module: ir.Module,
        *,
        verify: bool = True,
        observe: Observer | None = None,
        on_diagnostic: Listener | None = None,
    ) -> None:
        """Runs every pass on `module`, in place.

        `verify` checks the module after each pass. `observe(pass text, module)` is called after each
        pass; upstream's passes then run one at a time. `on_diagnostic` hears every diagnostic;
        without it warnings and remarks go to the context's other handlers, and errors only into the
        exception.

        Raises PassFailed where a pass fails or raises a Python exception, VerifyError where a pass
        leaves invalid IR behind. A CuestaError of a pass propagates, with a note that names the pass.
        """
        for step in self.passes if observe else self.steps:
            run_step(step, module, verify=verify, on_diagnostic=on_diagnostic)
            if observe:
                observe(step.text, module)

    def __str__(self) -> str:
        return self.text


def hints_of(module: ir.Module) -> dict[str, int]:
    """Symbol of a module's sizes → its value in the traced call."""
    return HINTS.find(module.operation) or {}


def run_step(step: Step, module: ir.Module, *, verify: bool = True, on_diagnostic: Listener | None = None) -> None:
    """Runs one step of a pipeline; see Pipeline.run."""
    heard: list[Diagnostic] = []

    def hear(info: Any) -> bool:
        diagnostic = Diagnostic.from_mlir(info)
        if diagnostic.severity == "error":
            heard.append(diagnostic)
        if on_diagnostic:
            on_diagnostic(diagnostic)
        return diagnostic.severity == "error" or on_diagnostic is not None

    handler = module.context.attach_diagnostic_handler(hear)
    try:
        with hints(hints_of(module)), known_sizes(module):
            step.apply(module, verify)
    except CuestaError as error:
        if on_diagnostic and isinstance(error.__cause__, ir.MLIRError):
            _forward(error.__cause__, on_diagnostic)
        for note in [f"in pass '{step.text}'", *map(str, heard if on_diagnostic is None else ())]:
            error.add_note(note)
        raise
    except ir.MLIRError as error:
        if on_diagnostic:
            _forward(error, on_diagnostic)
        raise _with_diagnostics(PassFailed, f"pass '{step.text}' failed", error, tuple(heard)) from error
    except Exception as error:
        raise PassFailed(f"pass '{step.text}' raised {_describe(error)}") from error
    finally:
        handler.detach()


def _forward(error: ir.MLIRError, on_diagnostic: Listener) -> None:
    for info in error.error_diagnostics:
        on_diagnostic(Diagnostic.from_mlir(info))


def _with_diagnostics(
    kind: type[CuestaError], message: str, error: ir.MLIRError, heard: tuple[Diagnostic, ...]
) -> CuestaError:
    diagnostics = [*map(Diagnostic.from_mlir, error.error_diagnostics), *heard]
    # A silenceable transform failure arrives with no diagnostic at all.
    details = [str(d) for d in diagnostics] or ["MLIR gave no diagnostic"]
    return kind("\n  ".join([message, *details]))


def _describe(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


@functools.cache
def _parse(text: str) -> Pipeline:
    root = parse_text(text)
    if root.name != "builtin.module":
        raise error_at(text, root.position, f"a pipeline runs on 'builtin.module', not on {root.name!r}")
    return Pipeline(text, tuple(_unroll(text, root.children or (), ())))


def _unroll(text: str, items: tuple[Item, ...], anchors: tuple[str, ...]) -> list[Step]:
    steps: list[Step] = []
    for item in items:
        if item.children is not None:
            _check_anchor(text, item)
            steps += _unroll(text, item.children, (*anchors, item.name))
        elif find_pass(item.name) is not None:
            steps.append(_own_step(text, item, anchors))
        else:
            steps.append(_upstream_step(text, item, anchors))
    return steps


def _own_step(text: str, item: Item, anchors: tuple[str, ...]) -> OwnStep:
    if anchors:
        message = f"pass {item.name!r} is cuesta's and runs on the module: move it out of '{anchors[-1]}(…)'"
        raise error_at(text, item.position, message)
    try:
        return OwnStep(str(item), make_pass(item.name, split_options(item.options)))
    except (PipelineError, ValueError) as error:
        raise error_at(text, item.position, str(error)) from None


def _upstream_step(text: str, item: Item, anchors: tuple[str, ...]) -> UpstreamStep:
    nested = str(item)
    for anchor in reversed(anchors):
        nested = f"{anchor}({nested})"
    try:
        PassManager.parse(f"builtin.module({nested})", _scratch_context())
    except ValueError as error:
        where = anchors[-1] if anchors else "builtin.module"
        raise error_at(text, item.position, _explain(item, where, str(error))) from None
    return UpstreamStep(nested)


def _check_anchor(text: str, item: Item) -> None:
    context = _scratch_context()
    if item.name == "any":
        return
    try:
        context.get_dialect_descriptor(item.name.partition(".")[0])
        known = context.is_registered_operation(item.name)
    except ValueError:
        known = False
    if not known:
        raise error_at(text, item.position, f"passes cannot be nested in {item.name!r}, which is not an operation")


def _explain(item: Item, anchor: str, upstream: str) -> str:
    """Upstream's message about one pass, as one line that says what to do."""
    if "does not refer to a registered pass" in upstream:
        near = difflib.get_close_matches(item.name, [*all_passes(), *_FAMILIAR_UPSTREAM], n=3)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        ours = f"cuesta's (in {item.name.replace('-', '_')}.py in passes/ or lowering/)"
        return f"no pass named {item.name!r}, neither {ours} nor upstream MLIR's{hint}"
    if "no such option" in upstream:
        option = upstream.partition("no such option ")[2].partition("\n")[0]
        return f"upstream pass {item.name!r} has no option {option!r}"
    if "restricted to" in upstream:
        wanted = upstream.partition("restricted to ")[2].split("'")[1]
        hint = f": write {wanted}({item})" if anchor == "builtin.module" else ""
        return f"upstream pass {item.name!r} runs on {wanted!r}, not on {anchor!r}{hint}"
    if "with options" in upstream:
        return f"upstream pass {item.name!r} does not accept the options {item.options!r}"
    return " ".join(upstream.split())


@functools.cache
def _scratch_context() -> ir.Context:
    """A context that only checks names: no IR is ever made in it."""
    return ir.Context()
