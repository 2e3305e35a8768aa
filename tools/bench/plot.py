"""Grouped bars: the time of each backend relative to eager's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cuesta.tools.bench.timing import Spread

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
        errors = [
            [spread.median - spread.lower for _, spread in spreads],
            [spread.upper - spread.median for _, spread in spreads],
        ]
        bars = axes.barh(places, medians, height * 0.9, xerr=errors, label=backend, color=COLOURS.get(backend))
        axes.bar_label(bars, [f"{median:.2f}" for median in medians], padding=3, fontsize=8)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(cases)), list(cases))
    axes.invert_yaxis()
    axes.set_xlabel("time relative to eager (median of rounds, bars at the quartiles; less is faster)")
    axes.set_title(title, fontsize=9)
    axes.legend(loc="best")
    axes.margins(x=0.12)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
