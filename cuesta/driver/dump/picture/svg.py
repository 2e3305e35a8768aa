"""Writes a placed picture as SVG: kernels blue with their ops inside, ATen orange, results in green letters."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from cuesta.driver.dump.picture.layout import FONT, LINE, OP_GAP, Box, Edge, Frame, Picture, notes, op_rows

#: Kind of a box → its fill and its border.
_COLOURS = {"kernel": ("#dbe9fb", "#2a6fc9"), "aten": ("#fde5c8", "#c26a00")}
_RESULT = "#1d7a1d"
_LEGEND = {"kernel": "kernel, with the ops it fuses", "aten": "call into ATen"}
_FRAME = 14.0


def write_svg(picture: Picture, title: str) -> str:
    """The text of an SVG file."""
    width = max(picture.width, len(title) * FONT + 80, 640.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{picture.height:.0f}" '
        f'viewBox="0 0 {width:.0f} {picture.height:.0f}" font-family="monospace" font-size="11">',
        '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#666"/></marker>',
        f'<rect width="{width:.0f}" height="{picture.height:.0f}" fill="white"/>',
        _text(20, 22, title, "bold"),
    ]
    x = 20.0
    for kind, meaning in _LEGEND.items():
        parts += [_rectangle(x, 32, 12, 12, *_COLOURS[kind]), _text(x + 18, 42, meaning)]
        x += 40 + len(meaning) * FONT
    parts += [_frame(frame) for frame in picture.frames]
    parts += [_edge(edge) for edge in picture.edges]
    parts += [_box(box) for box in picture.boxes]
    parts += _labels(picture.edges)
    return "\n".join([*parts, "</svg>", ""])


def _box(box: Box) -> str:
    step = box.step
    assert step is not None
    fill, border = _COLOURS[step.kind]
    y = box.y + LINE
    parts = [_rectangle(box.x, box.y, box.width, box.height, fill, border), _text(box.x + 10, y, step.name, "bold")]
    for row in op_rows(step):
        y += OP_GAP
        x = box.x + 10
        for op in row:
            width = len(op) * FONT + 2 * OP_GAP
            parts += [_rectangle(x, y, width, LINE + 2, "white", border), _text(x + OP_GAP, y + LINE - 3, op)]
            x += width + OP_GAP
        y += LINE + 4
    for line in step.arguments:
        y += LINE
        parts.append(_text(box.x + 10, y - (3 if step.ops else 0), line, colour="#666"))
    for number, line in enumerate(reversed(notes(step))):
        colour = _RESULT if step.results and number == 0 else border
        parts.append(_text(box.x + 10, box.y + box.height - 6 - number * LINE, line, "bold", colour))
    return f"<g><title>{escape(step.name)}</title>{''.join(parts)}</g>"


def _edge(edge: Edge) -> str:
    """A line from box to box: straight through the rows that it crosses, curved between them."""
    start = edge.path[0]
    text = f"M{start.middle:.1f} {start.y + start.height:.1f}"
    for upper, lower in pairwise(edge.path):
        y0, y1 = upper.y + upper.height, lower.y
        bend = (y1 - y0) / 2
        x0, x1 = upper.middle, lower.middle
        text += f" C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}"
        if lower.step is None:
            text += f" L{x1:.1f} {lower.y + lower.height:.1f}"
    return f'<path d="{text}" fill="none" stroke="#888" stroke-width="1.2" marker-end="url(#arrow)"/>'


def _labels(edges: list[Edge]) -> list[str]:
    """The size of each value that a box computes, right below the box: once, whatever the number of readers."""
    texts: dict[tuple[float, float], dict[str, None]] = {}
    for edge in edges:
        box = edge.path[0]
        texts.setdefault((box.middle, box.y + box.height), {})[edge.text] = None
    return [
        _text(x + 5, y + 12 + 12 * number, text, colour="#333", halo=True)
        for (x, y), found in texts.items()
        for number, text in enumerate(found)
    ]


def _frame(frame: Frame) -> str:
    left, top = min(b.x for b in frame.boxes) - _FRAME, min(b.y for b in frame.boxes) - _FRAME - 8
    right = max(b.x + b.width for b in frame.boxes) + _FRAME
    bottom = max(b.y + b.height for b in frame.boxes) + _FRAME + 4
    title = f"{frame.count} times"
    box = (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" rx="8" '
        'fill="#f6f6f6" stroke="#999" stroke-dasharray="5 4"/>'
    )
    return box + _text(left + 8, top + 14, title, "bold", "#555")


def _rectangle(x: float, y: float, width: float, height: float, fill: str, border: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" '
        f'fill="{fill}" stroke="{border}"/>'
    )


def _text(x: float, y: float, text: str, weight: str = "normal", colour: str = "#111", halo: bool = False) -> str:
    outline = ' stroke="white" stroke-width="3" paint-order="stroke"' if halo else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-weight="{weight}" fill="{colour}"{outline}>{escape(text)}</text>'
