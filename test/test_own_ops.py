"""Custom ops of ours: defined when they are asked for, not before."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch

import cuesta
from cuesta.own_ops import DEFINED_IN

_ROOT = Path(cuesta.__file__).parent


def test_each_op_is_found_where_it_is_defined() -> None:
    named = re.compile(r'@torch\.library\.custom_op\(\s*"cuesta::(\w+)"')
    defined = {
        name: ".".join(("cuesta", *path.relative_to(_ROOT).with_suffix("").parts))
        for room in ("frontend", "driver")
        for path in (_ROOT / room).rglob("*.py")
        for name in named.findall(path.read_text())
    }
    assert defined == DEFINED_IN


def test_every_op_is_defined_by_its_name() -> None:
    for name in DEFINED_IN:
        assert str(getattr(torch.ops.cuesta, name).default) == f"cuesta.{name}.default"
    with pytest.raises(AttributeError):
        _ = torch.ops.cuesta.no_such_op


def test_a_graph_with_one_of_them_can_be_kept() -> None:
    """AOTAutograd's cache pickles graphs, whose text names the ops."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.ops.cuesta.packed_mm.default, (x, x)))
    again = pickle.loads(pickle.dumps(torch.fx.GraphModule({}, graph)))
    assert [n.target for n in again.graph.nodes if n.op == "call_function"] == [torch.ops.cuesta.packed_mm.default]


def test_the_backend_defines_none(forked: Callable[..., CompletedProcess[str]]) -> None:
    code = (
        "import torch, cuesta.driver.backend\n"
        "assert not [s for s in torch._C._jit_get_all_schemas() if s.name.startswith('cuesta::')]\n"
        "torch.ops.cuesta.packed_mm\n"
        "print([s.name for s in torch._C._jit_get_all_schemas() if s.name.startswith('cuesta::')])\n"
    )
    done = forked(code)
    assert done.stdout.strip() == "['cuesta::packed_mm']", done.stderr
