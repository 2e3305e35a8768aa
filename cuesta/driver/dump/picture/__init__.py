"""Draws the picture of a compiled graph: `trace.graph_diagram` writes it into the dump, as graph.svg.

`steps.py` reads the host function into boxes and edges, `repeats.py` finds equal layers and keeps one of them,
`layout.py` places the boxes, `svg.py` writes them.
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.driver.dump.picture.layout import place
from cuesta.driver.dump.picture.repeats import collapse
from cuesta.driver.dump.picture.steps import read_steps
from cuesta.driver.dump.picture.svg import write_svg


def draw(module: ir.Module, title: str) -> str:
    """The text of an SVG of a module whose host function is separate from its kernels and whose memory is planned."""
    return write_svg(place(collapse(read_steps(module))), title)
