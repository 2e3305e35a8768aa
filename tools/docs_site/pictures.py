"""Draws the pictures of speed and of compile time: `python -m cuesta.tools.docs_site.pictures`.

Reads docs/benchmarks/default_mode.md, as cuesta-bench has written it. Writes speed.svg and compile_time.svg beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cuesta.tools.bench.reporting.plot import COLOURS

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
#: The last page of the suite that has default mode and compile times.
PAGE = FOLDER / "default_mode.md"
_BACKENDS = {"cuesta": "cuesta", "inductor": "Inductor"}


@dataclass(frozen=True)
class Case:
    """One model: times faster than eager in default mode, and seconds of the cold compile."""

    name: str
    speed: tuple[float, float]
    seconds: tuple[float, float]


def cases(page: str) -> list[Case]:
    """The right cases of the page's table. The first number of a pair is cuesta's, the second Inductor's.

    Raises ValueError if the page has no such table."""
    found = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[1] == "right" and (compiled := re.fullmatch(r"(\S+) s \((\S+) s\)", cells[7])):
            name = cells[0].rpartition("/")[2].removesuffix("_eval")
            speed = float(cells[3].split(" / ")[0]), float(cells[4].split(" / ")[0])
            found.append(Case(name, speed, (float(compiled[1]), float(compiled[2]))))
    if not found:
        raise ValueError("the page has no table of cases with speeds and cold compile times")
    return found


def machine(page: str) -> str:
    """The page's GPU and torch, for a title."""
    gpu = re.search(r"^- (NVIDIA [^,]+),", page, re.MULTILINE)
    torch = re.search(r"torch (\S+),", page)
    if not gpu or not torch:
        raise ValueError("the page does not name its GPU and torch")
    return f"{gpu[1]}, torch {torch[1]}"


def draw(path: Path, names: Sequence[str], pairs: Sequence[tuple[float, float]], title: str, axis: str) -> None:
    """Two bars for each name."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = path.stem  # the same picture, the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 0.9 + 0.42 * len(names)), layout="constrained")
    for k, (backend, name) in enumerate(_BACKENDS.items()):
        places = [i + (k - 0.5) * 0.4 for i in range(len(names))]
        bars = axes.barh(places, [pair[k] for pair in pairs], 0.38, color=COLOURS[backend], label=name)
        axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel(axis, loc="right")
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.08, y=0.02)
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    page = PAGE.read_text()
    shown, where = cases(page), machine(page)
    names = [case.name for case in shown]
    speed = "times faster than eager, evaluation in bf16 (more is better)"
    seconds = "seconds of the first compile, empty caches (less is better)"
    draw(FOLDER / "speed.svg", names, [case.speed for case in shown], f"Speed on an {where}", speed)
    draw(FOLDER / "compile_time.svg", names, [case.seconds for case in shown], f"Compile time on an {where}", seconds)


if __name__ == "__main__":
    main()
