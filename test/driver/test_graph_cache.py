"""An entry of the cache is used only for a graph that it fits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cuesta.cache import Hit, open_cache
from cuesta.driver.cache.graph_cache import check_calls_graph
from cuesta.driver.calling import bind
from cuesta.driver.make_program import make_program
from cuesta.options import Options
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.artefact import framed, unframed
from cuesta.tools.fuzz.files.specimens import Entry, Refused, specimen


def graph(first: str, second: str) -> torch.fx.GraphModule:
    """x * first - second, of two tensors that the module holds."""
    root = torch.nn.Module()
    for i, name in enumerate(("a", "b")):
        root.register_buffer(name, torch.tensor([1.0, 2.0]) + 10 * i)
    made = torch.fx.Graph()
    x = made.placeholder("x")
    x.meta["val"] = torch.empty(2)
    values = [made.get_attr(name) for name in (first, second)]
    product = made.call_function(torch.ops.aten.mul.Tensor, (x, values[0]))
    result = made.call_function(torch.ops.aten.sub.Tensor, (product, values[1]))
    for node in (*values, product, result):
        node.meta["val"] = torch.empty(2)
    made.output((result,))
    return torch.fx.GraphModule(root, made)


def test_equal_graphs_hold_their_tensors_under_other_names(tmp_path: Path) -> None:
    """A graph was given those that the first graph of its kind holds under these names."""
    x = torch.tensor([3.0, 4.0])
    for names in (("a", "b"), ("b", "a")):
        gm, report = graph(*names), GraphReport("inference")
        made = make_program(gm, "inference", Options(cache_dir=tmp_path), report)
        made.artefact()
        (result,) = bind(made.executable, made.convention, gm)([x])
        torch.testing.assert_close(result, gm(x)[0])
    assert report.cache["hit"]


def changed(name: str, change: Callable[[dict[str, Any]], None]) -> tuple[Entry, bytes]:
    """A specimen, and its entry with another convention and every checksum redone."""
    entry = specimen(name)
    assert isinstance(entry, Entry)
    parts = entry.parts()
    document = json.loads(parts["json"])
    change(document["metadata"]["convention"])
    return entry, entry.put_together({**parts, "json": json.dumps(document).encode()})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c["tensor_arguments"].reverse(), "convention.tensor_arguments: a list of 2; "),
        (lambda c: c["sources"].reverse() or c["sources"][0].update(name="s99"), "s99"),
        (lambda c: c["outputs"].append({"kind": "argument", "index": 99, "value": None}), "the call has 5 arguments"),
    ],
)
def test_tensors_in_another_order_are_refused(change: Callable[[dict[str, Any]], None], told: str) -> None:
    """The code would read past the end of the smaller one."""
    entry, data = changed("sized", change)
    with pytest.raises(Refused) as refusal:
        entry.load(data)
    assert "the entry does not load: " in str(refusal.value) and told in str(refusal.value)


def test_symbols_are_read_where_the_graph_has_them() -> None:
    def exchange(convention: dict[str, Any]) -> None:
        first, second = convention["sources"][:2]
        first["argument"], second["argument"] = second["argument"], first["argument"]

    entry, data = changed("sized", exchange)
    with pytest.raises(Refused, match=r"convention.sources\[0\].name: 's\d+'; the graph has s\d+ there"):
        entry.load(data)


def test_a_refused_entry_is_compiled_anew(tmp_path: Path) -> None:
    gm, x = graph("a", "b"), torch.tensor([3.0, 4.0])
    options = Options(cache_dir=tmp_path)
    made = make_program(gm, "inference", options, GraphReport("inference"))
    made.artefact()
    cache = open_cache(tmp_path)
    found = cache.get(made.key)
    assert isinstance(found, Hit)
    text, objects, kernels = unframed(found.payload)
    cache.put(made.key, framed(text.replace(b'"arena":', b'"arenas":'), objects, kernels))
    report = GraphReport("inference")
    again = make_program(gm, "inference", options, report)
    assert not report.cache["hit"]
    assert report.cache["reason"].startswith("the entry does not load: program: 'arenas'; an unknown key")
    (result,) = bind(again.executable, again.convention, gm)([x])
    torch.testing.assert_close(result, gm(x)[0])
    check_calls_graph(again.artefact().metadata["convention"], gm)
