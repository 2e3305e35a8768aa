"""Renders the suite's results as a page of the docs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from cuesta.tools.bench.machine import describe
from cuesta.tools.model_suite.check import Verdict
from cuesta.tools.models import SuiteCase

_HEAD = """# Models

Small models of real architectures with random weights, compiled on a CPU and compared with eager: two calls in eval,
one forward and backward in training (outputs, gradients, buffers), and both at batches of 3, 7 and 2. A value is right
where it is no further from float64 than eager's own, by a small factor (tools/accuracy.py). `python -m
cuesta.tools.model_suite --page docs/models.md` (or `make model-suite`) made this page.

Kernels count each text once, calls into ATen each call; "in Python" are those of them that go through Python. Seconds
are those of the first call with an empty cache, Dynamo's included. Matrix products and attention are kernels where the
machine was measured to be faster with those, so that the counts differ from machine to machine.

The last four columns are the graphs that Dynamo asked for at the three batch sizes, where all of them were right. Left
to itself it compiles one for the first size and one for all others. Where the program marks the batch's dim
(`torch._dynamo.mark_dynamic`), one graph is for all sizes of two or more. A program of cuesta's serves each graph at all
its sizes; where it does not, a line below says so.

| model | eval | kernels | ATen calls (in Python) | breaks | s | training | kernels | ATen calls (in Python) | s | graphs, eval | marked | graphs, training | marked |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""  # noqa: E501  a row of a table is a line


def render(results: Sequence[tuple[SuiteCase, dict[str, Verdict]]], left_out: Sequence[str] = ()) -> str:
    """The page, in Markdown; `left_out` are models that were not run."""
    rows = "\n".join(_row(case, verdicts) for case, verdicts in results)
    notes = "\n".join(f"- {note}" for case, verdicts in results for note in _notes(case, verdicts))
    missing = f"Not run for this page: {', '.join(left_out)}.\n\n" if left_out else ""
    made_on = f"torch {torch.__version__}, {describe(torch.get_num_threads())['cpu']}"
    return f"{_HEAD}{rows}\n\n{notes}\n\n{missing}{made_on}.\n"


def _row(case: SuiteCase, verdicts: dict[str, Verdict]) -> str:
    one, step, *sizes = verdicts.values()
    cells = [case.name]
    for verdict in (one, step):
        counts = verdict.counts
        cells += [_word(verdict), str(counts.kernels), f"{counts.aten_calls} ({counts.python_calls})"]
        cells += [str(counts.breaks)] if verdict is one else []
        cells += [f"{counts.seconds:.1f}"]
    cells += ["**wrong**" if verdict.wrong else str(verdict.counts.graphs) for verdict in sizes]
    return f"| {' | '.join(cells)} |"


def _word(verdict: Verdict) -> str:
    return "**wrong**" if verdict.wrong else "right"


def _notes(case: SuiteCase, verdicts: dict[str, Verdict]) -> Iterator[str]:
    if case.breaks:
        yield f"{case.name}: {case.breaks}."
    for way, verdict in verdicts.items():
        if verdict.wrong:
            yield f"{case.name}, {way}: {verdict.wrong}"
        for reason in dict.fromkeys(verdict.counts.fallbacks):
            yield f"{case.name}, {way}: a graph ran op by op in Python: {reason}"
        for reason in dict.fromkeys(verdict.counts.specialised):
            yield f"{case.name}, {way}: a graph was compiled for each set of sizes: {reason}"
