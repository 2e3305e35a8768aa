"""Makes the tables of measurements on a GPU, as header and rows of text."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cuesta.tools.bench.measuring.timing import Spread, ratios
from cuesta.tools.bench.reporting.table import NOTHING, Table, megabytes, seconds

MOST_KERNELS = 30
"""Rows of a table of kernels; a further row sums up the others."""


def device_times(part: Mapping[str, Any]) -> list[float]:
    """A contender's seconds per call on the device, one value a round; empty if the contender failed."""
    return [sample["device"] for sample in part.get("times", ())]


def speedup(part: Mapping[str, Any], eager: Mapping[str, Any]) -> Spread | None:
    """Eager's time over the contender's, round by round."""
    own, base = device_times(part), device_times(eager)
    return ratios(base, own) if own and len(own) == len(base) else None


ABOUT_SPEEDUPS = (
    "eager's time, and how many times faster the others are (medians over rounds); busy: by the time in kernels only."
)


def speedup_table(cases: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each case, a column for each contender."""
    found = {name: case.get("contenders", {}) for name, case in cases.items()}
    others = list(dict.fromkeys(c for parts in found.values() for c in parts if c != "eager"))
    rows = []
    for name, parts in found.items():
        eager = parts.get("eager", {})
        times = device_times(eager)
        row = [name, seconds(statistics.median(times)) if times else NOTHING]
        for other in others:
            part = parts.get(other, {})
            faster = speedup(part, eager)
            row.append(f"{faster.median:.2f}" if faster else "failed" if "failed" in part else NOTHING)
        both = [parts.get(c, {}).get("busy") for c in ("eager", "cuesta")]
        row.append(f"{both[0] / both[1]:.2f}" if all(both) else NOTHING)
        rows.append(row)
    return Table(("case", "eager", *others, "cuesta, busy"), rows)


TIMES = (
    "case, contender",
    "time",
    "× eager",
    "host",
    "a kernel",
    "busy",
    "kernels",
    "first call",
    "memory",
    "outputs",
    "gradients",
)

ABOUT_TIMES = """\
time: a call's mean time in a row of calls, between CUDA events, as the median of the rows; × eager: eager's time over
the contender's, round by round, with quartiles; host: the host's time for a call that waits for nothing; a kernel: the
host's time over the number of kernels; busy: time in kernels; first call: with compiling, and with the caches that
earlier contenders left (--compile measures cold and warm); memory: peak above weights and inputs; outputs, gradients:
the error against a wider dtype, over eager's (worst output; mean of the gradients, and the worst)."""


def times_table(cases: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each contender of each case."""
    return Table(TIMES, [row for name, found in cases.items() for row in _times_rows(name, found)])


def _times_rows(name: str, found: Mapping[str, Any]) -> Iterator[list[str]]:
    blank = [NOTHING] * (len(TIMES) - 2)
    if "failed" in found:
        yield [name, "failed", *blank]
    contenders = found.get("contenders", {})
    eager = contenders.get("eager", {})
    for contender, part in contenders.items():
        label = f"{name}, {contender}"
        if "failed" in part or not part.get("times"):
            yield [label, "failed" if "failed" in part else "not timed", *blank]
            continue
        faster = speedup(part, eager)
        yield [
            label,
            seconds(statistics.median(device_times(part))),
            f"{faster.median:.2f} [{faster.lower:.2f} {faster.upper:.2f}]" if faster else NOTHING,
            seconds(host := statistics.median(sample["host"] for sample in part["times"])),
            seconds(host / part["kernels"]) if part.get("kernels") else NOTHING,
            seconds(part["busy"]) if part.get("busy") else NOTHING,
            str(part["kernels"]) if "kernels" in part else NOTHING,
            seconds(part["compile"]) if "compile" in part else NOTHING,
            megabytes(part["memory"]) if part.get("memory") is not None else NOTHING,
            *_accuracy_cells(part.get("accuracy")),
        ]


def _accuracy_cells(accuracy: Mapping[str, Any] | None) -> tuple[str, str]:
    if accuracy is None:
        return NOTHING, NOTHING
    outputs = f"{accuracy['outputs']:.2f}"
    if accuracy["gradients"] is None:
        return outputs, NOTHING
    return outputs, f"{accuracy['gradients']:.2f} ({accuracy['worst']:.2f})"


def notes(cases: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each failure, and for each fact that the table's numbers hide."""
    lines = []
    for name, found in cases.items():
        if "failed" in found:
            lines.append(f"{name}: failed: {found['failed']}")
        for contender, part in found.get("contenders", {}).items():
            label = f"{name}, {contender}"
            if "failed" in part:
                lines.append(f"{label}: failed: {part['failed']}")
            accuracy = part.get("accuracy")
            if accuracy and not accuracy["right"]:
                lines.append(
                    f"{label}: WRONG: outputs {accuracy['outputs']:.3g}, gradients {accuracy['gradients'] or 0:.3g} "
                    f"times eager's error (outputs: {accuracy['error']:.1e}, eager's {accuracy['eager_error']:.1e})"
                )
            elif accuracy and accuracy["above"]:
                lines.append(
                    f"{label}: {accuracy['above']} tensors above twice eager's error; the worst gradient is "
                    f"{accuracy['worst_name']}'s, {accuracy['worst']:.3g} times"
                )
            for graph in part.get("graphs", ()):
                if graph["fallback"]:
                    lines.append(f"{label}: a {graph['name']} graph runs op by op in Python: {graph['fallback']}")
                if graph["cuda_graph"] and not graph["cuda_graph"].startswith("recorded"):
                    lines.append(f"{label}: {graph['name']}, CUDA graph: {graph['cuda_graph']}")
    return lines


COMPILE = ("case, contender", "cold", "warm", "warm − aot_eager", "cuesta's stages, warm", "cold / inductor's")

ABOUT_COMPILE = """\
From torch.compile to the end of the first call, in a fresh process. cold: every cache folder is empty; warm: a second
process. Of several samples, the median. aot_eager: Dynamo and AOTAutograd, then op by op. cuesta's stages: key, cache
and compiling."""


def compile_table(cases: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each contender of each case."""
    rows = []
    for name, found in cases.items():
        base = found.get("aot_eager", {}).get("cold", {}).get("total")
        inductor = found.get("inductor", {}).get("cold", {}).get("total")
        for contender, part in found.items():
            label = f"{name}, {contender}"
            if "failed" in part:
                rows.append([label, "failed", *[NOTHING] * 4])
                continue
            cold, warm = part["cold"]["total"], part.get("warm", {}).get("total")
            graphs = part.get("warm", {}).get("graphs", ())
            rows.append(
                [
                    label,
                    f"{cold:.2f} s",
                    f"{warm:.2f} s" if warm is not None else NOTHING,
                    f"{warm - base:.2f} s" if warm is not None and base is not None else NOTHING,
                    f"{sum(sum(g['times'].values()) for g in graphs):.2f} s" if graphs else NOTHING,
                    f"{cold / inductor:.2f}" if inductor and contender not in ("inductor", "aot_eager") else NOTHING,
                ]
            )
    return Table(COMPILE, rows)


def compile_notes(cases: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each failure, and for each contender with several samples."""
    lines = []
    for name, found in cases.items():
        for contender, part in found.items():
            if "failed" in part:
                lines.append(f"{name}, {contender}: failed: {part['failed']}")
                continue
            several = {kind: totals for kind, totals in part.get("samples", {}).items() if len(totals) > 1}
            if several:
                told = [f"{kind} {', '.join(f'{t:.2f}' for t in totals)} s" for kind, totals in several.items()]
                lines.append(f"{name}, {contender}: {'; '.join(told)}")
    return lines


KERNELS = ("kernel", "time", "share", "count", "bytes", "of bandwidth", "of FLOP/s", "from")

ABOUT_KERNELS = """\
Of one call. bytes: those of each operand, once: of cuesta's kernels as the host program passes them (a table that is
gathered from counts whole), of library calls by their shapes. of bandwidth, of FLOP/s: share of the device's peak."""


def kernels_table(part: Mapping[str, Any]) -> Table:
    """A contender's kernels, longest time first."""
    return Table(KERNELS, list(_kernel_rows(part["rows"])))


def by_kernel_table(part: Mapping[str, Any]) -> Table:
    """A contender's time by kernel name alone."""
    total = sum(row["seconds"] for row in part["by_kernel"]) or 1.0
    rows = [
        [
            _kernel_name(row["name"]),
            seconds(row["seconds"]),
            f"{row['seconds'] / total:.1%}",
            f"{row['count']:g}",
            row["by"],
        ]
        for row in part["by_kernel"][:MOST_KERNELS]
    ]
    rows.append(["all", seconds(total), "100%", f"{sum(row['count'] for row in part['by_kernel']):g}", ""])
    return Table(("kernel", "time", "share", "count", "from"), rows)


def _kernel_rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    total = sum(row["seconds"] for row in rows) or 1.0
    for row in rows[:MOST_KERNELS]:
        about = row["about"] if row["by"] == "cuesta" else f"{row['by'].removeprefix('aten::')} {row['about']}"
        yield [
            _kernel_name(row["name"]),
            seconds(row["seconds"]),
            f"{row['seconds'] / total:.1%}",
            f"{row['count']:g}",
            megabytes(row["bytes"]) if row["bytes"] else NOTHING,
            _share(row.get("bandwidth_share")),
            _share(row.get("operations_share")),
            _shortened(about, 70),
        ]
    for label, some in (
        ("others", rows[MOST_KERNELS:]),
        ("cuesta's", [r for r in rows if r["by"] == "cuesta"]),
        ("all", rows),
    ):
        if some:
            spent, count = sum(r["seconds"] for r in some), sum(r["count"] for r in some)
            moved = sum(r["bytes"] for r in some)
            yield [label, seconds(spent), f"{spent / total:.1%}", f"{count:g}", megabytes(moved), "", "", ""]


def _share(value: float | None) -> str:
    return f"{value:.0%}" if value is not None else NOTHING


_PREFIXES = re.compile(r"\bvoid |\bat::native::|\(anonymous namespace\)::|\bc10::|\bat::|\bcutlass::|\bstd::")


def _kernel_name(name: str) -> str:
    """A kernel's name without common C++ prefixes, shortened."""
    return _shortened(_PREFIXES.sub("", name))


def _shortened(text: str, width: int = 60) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
