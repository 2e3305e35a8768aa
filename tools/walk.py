"""Writes docs/walk.md, a graph at each of its levels: `python -m cuesta.tools.walk [--page docs/walk.md]`.

The graph is the softmax of BERT's attention. The text of each level is what the stages make of it; the sentences beside
it are in `LEVELS`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
_GPU = "cuda:90"


@dataclass(frozen=True)
class Level:
    """A level of the page: the folder that makes it, and what has changed since the level before."""

    name: str
    folder: str
    text: str


LEVELS = {
    "cpu": (
        Level("aten", "frontend/capture", "AOTAutograd has traced the function: a functional graph of ATen ops in FX."),
        Level("import", "frontend", "A rule for each ATen op has made ops of the cuesta dialect. Softmax stays whole."),
        Level(
            "graph",
            "passes/graph, passes/libraries",
            "Whole ops are decomposed, so that fusion sees reductions and pointwise ops only. Here nothing called for "
            "a library, a cut of a long reduction or another layout.",
        ),
        Level(
            "linalg", "lowering/cuesta_to_linalg", "Each op is a `linalg.generic`: loops, and a body for an element."
        ),
        Level(
            "kernels",
            "passes/form_kernels, passes/plan_memory",
            "Ops that share loops are one kernel, a function of its own: here all of them. The host function `graph`, "
            "below the kernels, launches kernels and calls ATen; its memory is planned.",
        ),
        Level(
            "tiled",
            "passes/tiles",
            "The kernel is a parallel loop over tiles that fit the cache: here a tile is one row of the softmax. Each "
            "op computes its part of the tile; pointwise ops that follow each other are one.",
        ),
        Level(
            "buffers",
            "passes/tiles, upstream's one-shot-bufferize",
            "Tensors are memrefs. The loop over tiles is a function of its own that computes a range of tiles, so that "
            "threads can share them. What lies between the ops of a tile is on the stack.",
        ),
        Level(
            "loops",
            "lowering/linalg_to_loops",
            "Each linalg op is a loop over its part of the tile, which LLVM will vectorise.",
        ),
        Level(
            "llvm",
            "lowering/loops_to_llvm, lowering/host_to_llvm",
            "Kernels and host function are in the LLVM dialect, from which LLVM makes one artefact. `exp` is "
            "arithmetic here: LLVM cannot vectorise a call.",
        ),
    ),
    _GPU: (
        Level(
            "blocks",
            "passes/gpu",
            "This goes on from `kernels`: each kernel has the block that a program of the grid computes.",
        ),
        Level(
            "tt", "lowering/linalg_to_tt", "The kernel is a function of Triton's IR; the host function is as it was."
        ),
    ),
}


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


def page() -> str:
    """The page's text."""
    parts = [
        "# A graph on its way through the rooms",
        "BERT's attention makes probabilities of its scores: `torch.softmax(scores / 8.0 + mask, -1)`, with scores of "
        "[2, 12, 128, 128] and a mask of [2, 1, 1, 128]. This page shows the function at each level, on the way to a "
        "CPU and then to a GPU, and names the [room](architecture.md) that has made it.",
        f"`python -m cuesta.tools.walk --page docs/walk.md` writes the page, and a test compares it with what the "
        f"stages make. A level's text ends after {_LINES} lines, and a line after {_WIDTH} characters; "
        "attributes of a function's arguments (devices, strides) are left out. "
        f'`options={{"dump": folder}}` writes the whole levels of any model ([debugging](debugging.md)).',
    ]
    for name, target in (("cpu", CPU), (_GPU, parse_target(_GPU))):
        texts = dict(texts_of(target))
        parts.append(f"## To {'a CPU' if name == 'cpu' else 'a GPU'}")
        for level in LEVELS[name]:
            language = "python" if level.name == "aten" else "mlir"
            parts.append(f"### {level.name}\n{level.folder}: {level.text}")
            parts.append(f"```{language}\n{shortened(texts[level.name])}\n```")
    return "\n\n".join(parts) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(prog="python -m cuesta.tools.walk", description="a graph at each of its levels")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page to this file, not to stdout")
    arguments = parser.parse_args(argv)
    if arguments.page is None:
        print(page(), end="")
    else:
        arguments.page.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
