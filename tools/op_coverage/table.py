"""Writes docs/op_coverage.md: a summary, a row for each operator, and the failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from cuesta.tools.op_coverage.core import core_section
from cuesta.tools.op_coverage.entries import LEFT_OUT, PAGE_DTYPES, entries, units
from cuesta.tools.op_coverage.survey import NO_ELEMENTS, Record

#: Reasons that do not depend on the overload → the table's words for them.
_GENERAL = {
    NO_ELEMENTS: "no elements",
    "complex numbers: kernels compute this op for real numbers only": "complex",
}
_SHORT = {"the cuesta dialect has no op for it": "no op"}
#: The most calls that a row names.
_MOST = 4


def render(records: Sequence[Record], most: int | None) -> str:
    """The page for the records of one survey of up to `most` samples of each unit."""
    records = [record for record in records if record.unit.layout == "given" and record.unit.dtype in PAGE_DTYPES]
    by_entry: dict[str, dict[str, Record]] = {}
    for record in records:
        by_entry.setdefault(record.unit.entry, {})[record.unit.dtype] = record
    head = [*_head(records, len(by_entry), most), ""]
    return "\n".join([*head, core_section(), "", *_rows(by_entry), "", *_failures(records), ""])


def _head(records: Sequence[Record], found: int, most: int | None) -> Iterator[str]:
    limit = "all" if most is None else f"at least {most} (evenly spread over torch's, or all that there are)"
    yield "# Operators\n"
    yield (
        f"PyTorch's own samples of its operators (OpInfo, `op_db`), {limit} for each operator and dtype, on a CPU: "
        'compiled by `torch.compile(backend="cuesta")` as one graph where Dynamo makes one, and compared with eager. '
        "Dtypes, shapes, strides (those of backend aot_eager), values, arguments that are written, and for f32 the "
        "gradients of the results times fixed random numbers. `make op-coverage` makes this page "
        "(`tools/op_coverage`).\n"
    )
    yield f"{found} entries{_commits(records)}.\n"
    yield "| | samples | right | wrong | raised | refused by torch |"
    yield "|---|---:|---:|---:|---:|---:|"
    for dtype in PAGE_DTYPES:
        chosen = [record for record in records if record.unit.dtype == dtype]
        yield _summary(dtype, sum((r.forward for r in chosen), Counter()))
        if dtype == "f32":
            yield _summary("f32 gradients", sum((r.gradient for r in chosen), Counter()))
    yield ""
    yield from _shares(records)
    yield (
        "\n- right: within torch.testing's tolerances of eager, or as close to the same in f64 as eager is, or "
        "as eager is on arguments moved within their last place.\n"
        "- refused by torch: eager or aot_eager raises as well, or aot_eager's values are not eager's. No share counts "
        "these.\n"
        "- compiled: samples whose graphs, forward and backward, call nothing in ATen but for empty tensors; "
        "+ those whose calls are only to libraries that cuesta prefers to kernels of its own (matrix products, "
        "convolutions, attention, Fourier transforms, LAPACK). The last column names what is called: that is right, or "
        "counted as wrong, like the rest. The column is of all dtypes but complex64, of which more is called. Samples "
        "that Dynamo leaves to eager altogether (a sparse result) are not traced.\n"
        "- `empty` and its kin: only the form of the results is compared."
    )
    yield "- left out: " + "; ".join(f"`{name}*` ({why})" for name, why in LEFT_OUT.items()) + "."
    missing = sorted(set(entries()) - {unit.entry for unit in units()})
    yield "- not run, as they take none of these dtypes on a CPU: " + ", ".join(f"`{name}`" for name in missing) + "."


def _commits(records: Sequence[Record]) -> str:
    """The commit of most entries, and the entries made at other commits."""
    entries_of: dict[str, set[str]] = {}
    for record in records:
        entries_of.setdefault(record.commit, set()).add(record.unit.entry)
    first, *others = sorted(entries_of, key=lambda commit: -len(entries_of[commit])) or [""]
    text = f", commit {first}" if first else ""
    for commit in others:
        rows = ", ".join(f"`{name}`" for name in sorted(entries_of[commit]))
        text += f"; of {commit or 'no commit'}: {rows}"
    return text


def _summary(name: str, counts: Counter[str]) -> str:
    judged = sum(counts.values()) - counts["refused"]
    share = f"{counts['right'] / judged:.2%}" if judged else "–"
    return f"| {name} | {judged} | {share} | {counts['wrong']} | {counts['raised']} | {counts['refused']} |"


def _shares(records: Sequence[Record]) -> Iterator[str]:
    yield "| | compiled | in a library | called otherwise | operators never called otherwise | not traced |"
    yield "|---|---:|---:|---:|---:|---:|"
    for dtype in PAGE_DTYPES:
        chosen = [r for r in records if r.unit.dtype == dtype]
        untraced, traced = sum(r.untraced for r in chosen), [r for r in chosen if _traced(r)]
        number = sum(map(_traced, traced))
        counts = (sum(r.compiled for r in traced), sum(r.library for r in traced))
        shares = [f"{count / max(number, 1):.0%}" for count in (*counts, number - sum(counts))]
        never = sum(r.compiled + r.library == _traced(r) for r in traced)
        yield f"| {dtype} | {' | '.join(shares)} | {never} of {len(traced)} | {untraced} of {number + untraced} |"


def _traced(record: Record) -> int:
    """The number of samples that reached cuesta."""
    return _judged(record) - record.untraced


def _judged(record: Record) -> int:
    return sum(record.forward.values()) - record.forward["refused"]


def _rows(by_entry: dict[str, dict[str, Record]]) -> Iterator[str]:
    yield "## All operators\n"
    yield f"| operator | f32 | gradients | {' | '.join(PAGE_DTYPES[1:])} | compiled | called in ATen |"
    yield "|---|" + "---:|" * (len(PAGE_DTYPES) + 2) + "---|"
    for name in sorted(by_entry, key=lambda name: (name.lstrip("_").lower(), name)):
        found = by_entry[name]
        share, calls = _compiled(found.values()), called_in_aten(list(found.values()))
        cells = [_cell(found[d].forward) if d in found else "" for d in PAGE_DTYPES]
        cells.insert(1, _cell(found["f32"].gradient) if "f32" in found else "")
        yield f"| `{name}` | {' | '.join(cells)} | {share} | {calls} |"


def _cell(counts: Counter[str]) -> str:
    judged = sum(counts.values()) - counts["refused"]
    if not judged:
        return "refused" if counts["refused"] else ""
    wrong = "".join(f", {counts[v]} {v}" for v in ("wrong", "raised") if counts[v])
    return f"**{counts['right']}/{judged}{wrong}**" if wrong else f"{judged}"


def _compiled(records: Iterable[Record]) -> str:
    every = list(records)
    chosen = [record for record in every if record.unit.dtype != "complex64"] or every
    traced = sum(map(_traced, chosen))
    if not traced:
        return "not traced" if any(_judged(r) for r in chosen) else ""
    library = sum(r.library for r in chosen) / traced
    compiled = sum(r.compiled for r in chosen) / traced
    return f"{compiled:.0%}" + (f" + {library:.0%}" if library else "")


def called_in_aten(records: Sequence[Record]) -> str:
    """The most frequent calls, each with its reason; empty where there are none."""
    general: Counter[str] = Counter()
    named: Counter[str] = Counter()
    for call, number in sum((r.calls for r in records), Counter[str]()).items():
        op, _, reason = call.partition(": ")
        if reason in _GENERAL:
            general[_GENERAL[reason]] += number
        else:
            name = op.removeprefix("aten.").removesuffix(".default")
            named[f"`{name}`: {_SHORT.get(reason, reason)}".replace("|", "/")] += number
    told = [call for call, _ in named.most_common(_MOST)] + (["…"] if len(named) > _MOST else [])
    return "; ".join(told + sorted(general))


def _failures(records: Sequence[Record]) -> Iterator[str]:
    for verdict in ("wrong", "raised", "refused"):
        lines = [
            f"- `{record.unit.entry}` {record.unit.dtype} {problem}"
            for record in records
            for problem in record.problems
            if verdict in problem.split(": ")[1]
        ]
        yield f"## {verdict.capitalize()}{' by torch' if verdict == 'refused' else ''}\n"
        yield from lines or ["None."]
        yield ""
