"""The picture of a graph: steps, repeats, coordinates and the SVG itself."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.driver.dump.picture.layout import Picture, place
from cuesta.driver.dump.picture.repeats import collapse
from cuesta.driver.dump.picture.steps import Step, Steps, read_steps


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.down(nn.functional.gelu(self.up(x))) + x)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The dump of four equal layers and a softmax."""
    root = tmp_path_factory.mktemp("dump")
    torch._dynamo.reset()
    model = nn.Sequential(*(Layer() for _ in range(4)), nn.Softmax(-1))
    options = {"trace.graph_diagram": True, "dump": root, "gemm": "library"}
    with torch.no_grad():
        torch.compile(model, backend="cuesta", options=options)(torch.randn(3, 8))
    (folder,) = (path for path in root.iterdir() if path.is_dir())
    yield folder
    torch._dynamo.reset()


@pytest.fixture
def steps(dumped: Path) -> Iterator[Steps]:
    with make_context():
        (path,) = dumped.glob("*_kernels.mlir")
        yield read_steps(ir.Module.parse(path.read_text()))


def test_a_launch_and_a_call_are_steps_with_their_values(steps: Steps) -> None:
    first, gelu, second = steps.steps[:3]
    assert (first.kind, first.name, first.sources) == ("aten", "aten.mm", [])
    assert (gelu.kind, gelu.ops) == ("kernel", ("addmm", "gelu"))
    assert [source for source, _ in gelu.sources] == [0]
    assert second.sources == [(1, "3x16 f32, 192 B")]
    assert "argument 0: 8x16 f32, 512 B" in first.arguments and "argument 1: 16 f32, 64 B" in gelu.arguments
    norm = steps.steps[3]
    assert norm.arguments[-1] == "and 2 more" and len(norm.arguments) == 3
    assert [step.results for step in steps.steps if step.results] == [[0]] and steps.steps[-1].results


def test_equal_layers_are_one(steps: Steps) -> None:
    count = len(steps.steps)
    drawn = collapse(steps)
    (repeat,) = drawn.repeats
    length = repeat.last - repeat.first + 1
    assert repeat.count == 2 and len(drawn.steps) == count - length * (repeat.count - 1)
    assert all(source < number for number, step in enumerate(drawn.steps) for source, _ in step.sources)
    assert all((step.count == repeat.count) == (repeat.first <= n <= repeat.last) for n, step in enumerate(drawn.steps))


def chain(names: str) -> Steps:
    """A step for each letter, each of which reads the one before."""
    return Steps([Step("kernel", name, sources=[(n - 1, "")] if n else []) for n, name in enumerate(names)])


@pytest.mark.parametrize(
    ("names", "drawn", "counts"),
    [
        ("xabcabcabc", "xabc", [3]),
        ("aaaaaaab", "aaaab", [2]),
        ("abababc", "abababc", []),
        ("abcabd", "abcabd", []),
        ("abcabcdefdef", "abcdef", [2, 2]),
        ("x", "x", []),
        ("", "", []),
    ],
)
def test_runs(names: str, drawn: str, counts: list[int]) -> None:
    kept = collapse(chain("s" + names))  # a first step reads nothing, and so equals none that does
    assert "".join(step.name for step in kept.steps) == "s" + drawn
    assert [repeat.count for repeat in kept.repeats] == counts


def overlaps(picture: Picture) -> list[tuple[str, str]]:
    def apart(a: tuple[float, float], b: tuple[float, float]) -> bool:
        return a[0] + a[1] <= b[0] or b[0] + b[1] <= a[0]

    return [
        (a.step.name, b.step.name)
        for a, b in combinations(picture.boxes, 2)
        if a.step
        and b.step
        and not apart((a.x, a.width), (b.x, b.width))
        and not apart((a.y, a.height), (b.y, b.height))
    ]


def test_boxes_do_not_overlap_and_edges_lead_down(steps: Steps) -> None:
    for program in (steps, collapse(steps)):
        picture = place(program)
        assert overlaps(picture) == []
        assert all(box.x >= 0 and box.x + box.width <= picture.width for box in picture.boxes)
        assert all(box.y + box.height <= picture.height for box in picture.boxes)
        for edge in picture.edges:
            rows = [box.row for box in edge.path]
            assert rows == list(range(rows[0], rows[-1] + 1)) and len(rows) > 1


def test_a_dump_has_the_picture_and_the_kernels(dumped: Path) -> None:
    root = ElementTree.parse(dumped / "graph.svg").getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"aten.mm", "addmm_gelu", "result 0"} <= set(texts)
    assert any(text and text.startswith("inference: ") for text in texts)
    assert "2 times" in texts
    names = {path.stem for path in (dumped / "kernels").iterdir()}
    assert "addmm_gelu" in names
    with make_context():
        for path in (dumped / "kernels").iterdir():
            assert ir.Module.parse(path.read_text()).operation.verify()
    assert "graph.svg" in (dumped.parent / "index.md").read_text()
