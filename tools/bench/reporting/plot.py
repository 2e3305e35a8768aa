"""Draws pictures: each backend's time relative to eager's as grouped bars, and a history's ratios from run to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cuesta.tools.bench.measuring.timing import Spread
from cuesta.tools.bench.reporting.history import History, title_of

COLOURS = {
    "eager": "#8c8c8c",
    "inductor": "#e08a2e",
    "inductor:reduce-overhead": "#b3631a",
    "cuesta": "#2f6fb3",
    "cuesta:reduce-overhead": "#1d4a7d",
}


def plot_ratios(path: Path, backends: Sequence[str], cases: Mapping[str, Mapping[str, Spread]], title: str) -> None:
    """Writes a picture. `cases` maps case → backend → time relative to eager; a missing backend leaves a gap."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    height = 0.8 / len(backends)
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.3 * len(cases) * len(backends)), layout="constrained")
    for index, backend in enumerate(backends):
        spreads = [(row, ratios[backend]) for row, ratios in enumerate(cases.values()) if backend in ratios]
        places = [row + (index - (len(backends) - 1) / 2) * height for row, _ in spreads]
        medians = [spread.median for _, spread in spreads]
        # A mean may lie outside the quartiles; matplotlib refuses errors below 0.
        errors = [
            [max(spread.median - spread.lower, 0) for _, spread in spreads],
            [max(spread.upper - spread.median, 0) for _, spread in spreads],
        ]
        bars = axes.barh(places, medians, height * 0.9, xerr=errors, label=backend, color=COLOURS.get(backend))
        axes.bar_label(bars, [f"{median:.2f}" for median in medians], padding=3, fontsize=8)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(cases)), list(cases))
    axes.invert_yaxis()
    axes.set_xlabel("time relative to eager (median of rounds, bars at the quartiles; less is faster)")
    axes.set_title(title, fontsize=9)
    figure.legend(loc="outside lower center", ncols=len(backends))
    axes.margins(x=0.12)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def plot_history(path: Path, history: History) -> None:
    """Writes a picture: each case's ratios over the runs of the history, with the quartiles as a band."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    cases = sorted({case for run in history.runs for case in run["ratios"]})
    columns = min(4, max(1, len(cases)))
    rows = max(1, -(-len(cases) // columns))
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(3.2 * columns, 2.2 * rows + 0.6), layout="constrained", squeeze=False, sharex=True
    )
    pairs = sorted({pair for run in history.runs for kept in run["ratios"].values() for pair in kept})
    for axes in grid.flat[len(cases) :]:
        axes.set_axis_off()
    for axes, case in zip(grid.flat, cases, strict=False):
        for index, pair in enumerate(pairs):
            found = [(i, spread) for i, spread in enumerate(history.series(case, pair)) if spread is not None]
            runs = [i for i, _ in found]
            axes.plot(runs, [s.median for _, s in found], marker=".", label=pair, color=f"C{index}")
            bands = [s.lower for _, s in found], [s.upper for _, s in found]
            axes.fill_between(runs, *bands, alpha=0.25, color=f"C{index}", linewidth=0)
        axes.axhline(1, color="black", linewidth=0.6)
        axes.set_title(case, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.set_xticks(range(len(history.runs)), [str(run["commit"]) for run in history.runs], rotation=90)
    figure.legend(*grid.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(title_of(history.about), fontsize=9)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
