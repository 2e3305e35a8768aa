"""Makes the tables of measurements on a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from cuesta.tools.bench.reporting.columns import Cases, Columns, Part, median, parts_of, speedup, table_of, told
from cuesta.tools.bench.reporting.results import stage_seconds
from cuesta.tools.bench.reporting.table import NOTHING, Table, megabytes, ratio, seconds

MOST_KERNELS = 30
"""Rows of a table of kernels; a further row sums up the others."""

ABOUT_SPEEDUPS = (
    "the first contender's time, eager's if it was measured, and how many times faster the others are (medians over "
    "rounds); busy: by the time in kernels only."
)


def speedup_table(cases: Cases) -> Table:
    """A row for each case, a column for each contender: the time of eager, or else of the first one, and how many times
    faster each other is."""
    found = {name: case.get("contenders", {}) for name, case in cases.items()}
    contenders = dict.fromkeys(c for parts in found.values() for c in parts)
    first = "eager" if "eager" in contenders else next(iter(contenders), "eager")
    columns: Columns = (
        (first, lambda parts: told(median(parts.get(first, {}), "device"), seconds)),
        *((other, partial(_speedup_cell, other, first)) for other in contenders if other != first),
        ("cuesta, busy", _busy_cell),
    )
    return table_of("case", columns, [(name, None, parts) for name, parts in found.items()])


def _speedup_cell(contender: str, first: str, parts: Mapping[str, Mapping[str, Any]]) -> str | None:
    part = parts.get(contender, {})
    faster = speedup(part, parts.get(first, {}))
    return f"{faster.median:.2f}" if faster else "failed" if "failed" in part else None


def _busy_cell(parts: Mapping[str, Mapping[str, Any]]) -> str | None:
    eager, ours = (parts.get(name, {}).get("busy") for name in ("eager", "cuesta"))
    return f"{eager / ours:.2f}" if eager and ours else None


ABOUT_TIMES = """\
time: a call's mean time in a row of calls, between CUDA events, as the median of the rows; × eager: eager's time over
the contender's, round by round, with quartiles; host: the host's time for a call that waits for nothing; a kernel: the
host's time over the number of kernels; busy: time in kernels; first call: with compiling, and with the caches that
earlier contenders left (--compile measures cold and warm); memory: peak above weights and inputs; outputs, gradients:
the error against a wider dtype, over eager's (worst output; mean of the gradients, and the worst)."""

_TIMES: Columns = (
    ("time", lambda part: told(median(part.found, "device"), seconds)),
    ("× eager", lambda part: told(speedup(part.found, part.all.get("eager", {})), ratio)),
    ("host", lambda part: told(median(part.found, "host"), seconds)),
    ("a kernel", lambda part: told(part.found.get("kernels") or None, lambda n: seconds(_host(part) / n))),
    ("busy", lambda part: told(part.found.get("busy") or None, seconds)),
    ("kernels", lambda part: told(part.found.get("kernels"), str)),
    ("first call", lambda part: told(part.found.get("compile"), seconds)),
    ("memory", lambda part: told(part.found.get("memory"), megabytes)),
    ("outputs", lambda part: told(part.found.get("accuracy"), lambda error: f"{error['outputs']:.2f}")),
    ("gradients", lambda part: told(part.found.get("accuracy"), gradients_text)),
)


def times_table(cases: Cases) -> Table:
    """A row for each contender of each case."""

    def word(found: Mapping[str, Any]) -> str | None:
        return "failed" if "failed" in found else None if found.get("times") else "not timed"

    return table_of("case, contender", _TIMES, [(part.label, word(part.found), part) for part in parts_of(cases)])


def _host(part: Part) -> float:
    return median(part.found, "host") or 0.0


def gradients_text(accuracy: Mapping[str, Any]) -> str | None:
    """The mean error of the gradients and that of the worst; None without gradients."""
    return told(accuracy["gradients"], lambda mean: f"{mean:.2f} ({accuracy['worst']:.2f})")


def has_problem(cases: Cases) -> bool:
    """Whether anything failed or any result is wrong."""
    found = (part.found for part in parts_of(cases))
    return any("failed" in part or not (part.get("accuracy") or {"right": True})["right"] for part in found)


def notes(cases: Cases) -> list[str]:
    """A line for each failure, for each fact that the numbers hide, and for several samples of a compile time."""
    return [f"{part.label}: {note}" for part in parts_of(cases) for note in _notes(part.found)]


def _notes(found: Mapping[str, Any]) -> Iterator[str]:
    if "failed" in found:
        yield f"failed: {found['failed']}"
    elif several := {kind: totals for kind, totals in found.get("samples", {}).items() if len(totals) > 1}:
        yield "; ".join(f"{kind} {', '.join(f'{t:.2f}' for t in totals)} s" for kind, totals in several.items())
    accuracy = found.get("accuracy")
    if accuracy and not accuracy["right"]:
        yield (
            f"WRONG: outputs {accuracy['outputs']:.3g}, gradients {accuracy['gradients'] or 0:.3g} "
            f"times eager's error (outputs: {accuracy['error']:.1e}, eager's {accuracy['eager_error']:.1e})"
        )
    elif accuracy and accuracy["above"]:
        yield (
            f"{accuracy['above']} tensors above twice eager's error; the worst gradient is "
            f"{accuracy['worst_name']}'s, {accuracy['worst']:.3g} times"
        )
    for graph in found.get("graphs", ()):
        if graph["fallback"]:
            yield f"a {graph['name']} graph runs op by op in Python: {graph['fallback']}"
        if graph["cuda_graph"] and not graph["cuda_graph"].startswith("recorded"):
            yield f"{graph['name']}, CUDA graph: {graph['cuda_graph']}"


ABOUT_COMPILE = """\
From torch.compile to the end of the first call, in a fresh process. cold: every cache folder is empty; warm: a second
process. Of several samples, the median. aot_eager: Dynamo and AOTAutograd, then op by op. cuesta's stages: key, cache
and compiling."""

_COMPILE: Columns = (
    ("cold", lambda part: told(_total(part.found, "cold"), _two_digits)),
    ("warm", lambda part: told(_total(part.found, "warm"), _two_digits)),
    ("warm − aot_eager", lambda part: _above_tracing(part)),
    ("cuesta's stages, warm", lambda part: told(stage_seconds(part.found.get("warm", {})), _two_digits)),
    ("cold / inductor's", lambda part: _over_inductors(part)),
)


def compile_table(cases: Cases) -> Table:
    """A row for each contender of each case."""
    rows = [(part.label, "failed" if "failed" in part.found else None, part) for part in parts_of(cases)]
    return table_of("case, contender", _COMPILE, rows)


def _total(part: Mapping[str, Any], kind: str) -> float | None:
    total: float | None = part.get(kind, {}).get("total")
    return total


def _above_tracing(part: Part) -> str | None:
    warm, base = _total(part.found, "warm"), _total(part.all.get("aot_eager", {}), "cold")
    return _two_digits(warm - base) if warm is not None and base is not None else None


def _over_inductors(part: Part) -> str | None:
    cold, inductor = _total(part.found, "cold"), _total(part.all.get("inductor", {}), "cold")
    is_other = all(part.found is not part.all.get(name) for name in ("inductor", "aot_eager"))
    return f"{cold / inductor:.2f}" if cold is not None and inductor and is_other else None


def _two_digits(value: float) -> str:
    return f"{value:.2f} s"


ABOUT_KERNELS = """\
Of one call. bytes: those of each operand, once: of cuesta's kernels as the host program passes them (a table that is
gathered from counts whole), of library calls by their shapes. of bandwidth, of FLOP/s: share of the device's peak."""

_KERNEL: Columns = (
    ("kernel", lambda row: _kernel_name(row["name"])),
    ("time", lambda row: seconds(row["seconds"])),
    ("share", lambda row: f"{row['share']:.1%}"),
    ("count", lambda row: f"{row['count']:g}"),
)
_LAUNCHER: Columns = (*_KERNEL, ("from", lambda row: row.get("by")))
_COST: Columns = (
    *_KERNEL,
    ("bytes", lambda row: told(row["bytes"] or None, megabytes)),
    ("of bandwidth", lambda row: told(row.get("bandwidth_share"), "{:.0%}".format)),
    ("of FLOP/s", lambda row: told(row.get("operations_share"), "{:.0%}".format)),
    ("from", lambda row: told(row.get("about"), lambda about: _shortened(_launcher(row) + about, 70))),
)


def kernels_table(part: Mapping[str, Any]) -> Table:
    """A contender's kernels, longest time first."""
    rows = part["rows"]
    ours = [row for row in rows if row["by"] == "cuesta"]
    return _kernels(_COST, rows, {"others": rows[MOST_KERNELS:], "cuesta's": ours, "all": rows})


def by_kernel_table(part: Mapping[str, Any]) -> Table:
    """A contender's time by kernel name alone."""
    return _kernels(_LAUNCHER, part["by_kernel"], {"all": part["by_kernel"]})


ABOUT_FAR = """\
cuesta's kernels that take more than twice the time of their bytes at the memory's peak, plus 3 µs a launch. The kernel
that loses most time comes first. Some are bound by arithmetic: products, and sums over large windows."""

_LAUNCH = 3e-6
"""Seconds that a launch may take beside its bytes."""

_FAR: Columns = (
    ("time", lambda row: seconds(row["seconds"])),
    ("bound", lambda row: seconds(row["bound"])),
    ("times it", lambda row: f"{row['seconds'] / row['bound']:.1f}"),
    ("count", lambda row: f"{row['count']:g}"),
    ("kernel", lambda row: _kernel_name(row["name"])),
)


def far_from_bound(cases: Cases) -> Table:
    """The kernels of all cases that are far from their bound in memory; see `ABOUT_FAR`."""
    found = []
    for label, part, _ in parts_of(cases):
        for row in part.get("rows", ()):
            share = row.get("bandwidth_share")
            if row["by"] != "cuesta" or share is None:
                continue
            bound = row["seconds"] * share
            if row["seconds"] > 2 * bound + _LAUNCH * row["count"]:
                found.append((label, None, row | {"bound": bound + _LAUNCH * row["count"]}))
    found.sort(key=lambda entry: entry[2]["bound"] - entry[2]["seconds"])
    return table_of("case", _FAR, found)


def _kernels(
    columns: Columns, rows: Sequence[Mapping[str, Any]], sums: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Table:
    """The first rows, then a row for each of `sums`, by its label."""
    total = sum(row["seconds"] for row in rows) or 1.0
    named = [(row, NOTHING) for row in rows[:MOST_KERNELS]]
    for label, some in sums.items():
        if some:
            added = {key: sum(row.get(key, 0) for row in some) for key in ("seconds", "count", "bytes")}
            named.append((added | {"name": label}, ""))
    lines = [[cell({**row, "share": row["seconds"] / total}) or blank for _, cell in columns] for row, blank in named]
    return Table([header for header, _ in columns], lines)


def _launcher(row: Mapping[str, Any]) -> str:
    return "" if row["by"] == "cuesta" else f"{row['by'].removeprefix('aten::')} "


_PREFIXES = re.compile(r"\bvoid |\bat::native::|\(anonymous namespace\)::|\bc10::|\bat::|\bcutlass::|\bstd::")


def _kernel_name(name: str) -> str:
    """A kernel's name without common C++ prefixes, shortened."""
    return _shortened(_PREFIXES.sub("", name))


def _shortened(text: str, width: int = 60) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
