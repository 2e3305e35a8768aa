"""Every core ATen overload is compiled, or somebody says why it is not."""

from __future__ import annotations

from pathlib import Path

from cuesta.tools.op_coverage.core import core_overloads, core_section, is_compiled, why_not

PAGE = Path(__file__).parents[2] / "docs" / "op_coverage.md"


def test_core_overloads() -> None:
    overloads = list(core_overloads())
    assert len(overloads) > 190
    assert not [op for op in overloads if not is_compiled(op) and why_not(op) is None]


def test_what_is_not_compiled() -> None:
    packets = {op._schema.name.removeprefix("aten::") for op in core_overloads() if not is_compiled(op)}
    assert packets == {
        *("_fft_c2r", "_fft_r2c", "convolution_backward", "rand", "randn", "randperm", "nonzero", "resize_"),
        *("_local_scalar_dense", "sym_is_contiguous", "sym_numel", "sym_size", "sym_storage_offset", "sym_stride"),
    }


def test_the_page_says_why() -> None:
    assert core_section() in PAGE.read_text()
