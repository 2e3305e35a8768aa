"""Every core ATen overload is compiled, or somebody says why it is not."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from cuesta.tools.op_coverage.core import core_section, is_compiled, overloads, why_not
from cuesta.torch_private.ops import overload_name, schema_of

PAGE = Path(__file__).parents[2] / "docs" / "op_coverage.md"


def test_core_overloads() -> None:
    every = list(overloads(torch.Tag.core))
    assert len(every) > 190
    assert not [op for op in every if not is_compiled(op) and why_not(op) is None]


def test_what_is_not_compiled() -> None:
    packets = {op._schema.name.removeprefix("aten::") for op in overloads(torch.Tag.core) if not is_compiled(op)}
    assert packets == {
        *("_fft_c2r", "_fft_r2c", "convolution_backward", "rand", "randn", "randperm", "nonzero", "resize_"),
        *("_local_scalar_dense", "sym_is_contiguous", "sym_numel", "sym_size", "sym_storage_offset", "sym_stride"),
    }


def test_the_page_says_why() -> None:
    assert core_section() in PAGE.read_text()


def test_the_page_says_which_pointwise_ops_are_called() -> None:
    """Where a row or a rule has gone, `python -m cuesta.tools.op_coverage --page docs/op_coverage.md` tells anew."""
    calls = dict(re.findall(r"^\| `([\w.]+)` \|.*%[^|]* \| ([^|]*) \|$", PAGE.read_text(), re.MULTILINE))
    called = [op for op in overloads(torch.Tag.pointwise) if overload_name(op) == "default" and not is_compiled(op)]
    packets = [schema_of(op).name.removeprefix("aten::") for op in called]
    names = {packet: packet.replace("special_", "special.", 1) for packet in packets}
    assert len(names) > 10
    assert [p for p, name in names.items() if name in calls and f"`{p}`:" not in calls[name]] == []
