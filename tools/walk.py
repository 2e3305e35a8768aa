"""Renews docs/walk.md, a graph at each of its levels: `python -m cuesta.tools.walk [--page docs/walk.md]`.

The graph is the softmax of BERT's attention. The text of each level is what the stages make of it; the sentences beside
it are kept.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from cuesta.dialects import make_context
from cuesta.export.compile_for import levels, trace
from cuesta.frontend.fx_passes.fx_pipeline import readable
from cuesta.options import Options
from cuesta.targets import CPU, Target, parse_target

#: Lines of a level, and characters of a line, that the page shows.
_LINES, _WIDTH = 44, 180
#: Attributes of a function's arguments: devices and strides as traced.
_ATTRIBUTES = re.compile(r"(?<=>) \{cuesta\.[^{}]*\}")
#: A level on the page: its heading, what is said of it, and its text.
_LEVEL = re.compile(r"^(### (\S+)\n.*?^```\w+\n).*?^```\n", re.MULTILINE | re.DOTALL)
_GPU = "cuda:90"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "walk.md"


def attention_probabilities(scores: Tensor, mask: Tensor) -> Tensor:
    """[2, 12, 128, 128] scores and a [2, 1, 1, 128] mask → the probabilities of BERT's attention."""
    return torch.softmax(scores / 8.0 + mask, -1)


def texts_of(target: Target) -> Iterator[tuple[str, str]]:
    """The name and the whole text of each level on the way to a target."""
    shapes = ((2, 12, 128, 128), (2, 1, 1, 128))
    (graph,) = trace(attention_probabilities, tuple(torch.empty(shape) for shape in shapes), target)
    yield "aten", _without_comments(readable(graph.module))
    with make_context():
        for name, module in levels(graph, target, Options(target=target)):
            yield name, str(module)


def _without_comments(code: str) -> str:
    """Python code without empty lines and without comments, which name files of this machine."""
    return "\n".join(line for line in code.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def shortened(text: str) -> str:
    """A level's text as the page shows it."""
    lines = _ATTRIBUTES.sub("", text).rstrip().splitlines()
    shown = [line if len(line) <= _WIDTH else f"{line[:_WIDTH]} …" for line in lines[:_LINES]]
    return "\n".join([*shown, *([f"… {len(lines) - _LINES} more lines"] if len(lines) > _LINES else [])])


def renewed(text: str) -> str:
    """The page with the text of each level made anew, below the level's heading and what is said of it."""
    head, *ways = re.split(r"^(?=## To a )", text, flags=re.MULTILINE)
    for way, target in zip(ways, (CPU, parse_target(_GPU)), strict=True):
        texts = dict(texts_of(target))
        head += _LEVEL.sub(lambda level, texts=texts: f"{level[1]}{shortened(texts[level[2]])}\n```\n", way)
    return head


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(prog="python -m cuesta.tools.walk", description="a graph at each of its levels")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page to this file, not to stdout")
    arguments = parser.parse_args(argv)
    text = renewed(PAGE.read_text())
    if arguments.page is None:
        print(text, end="")
    else:
        arguments.page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
