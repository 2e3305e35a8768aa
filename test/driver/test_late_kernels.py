"""Kernels whose texts stand for their code until sizes need them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuesta.driver.late import late_kernels
from cuesta.driver.late.late_kernels import make_all, make_late
from cuesta.lowering.tt_to_binary.kernel import KernelText
from cuesta.runtime.artefact import Artefact

SAMPLE = Path(__file__).parents[1] / "lowering" / "tt_to_binary" / "kernels" / "pointwise.mlir"


def artefact() -> Artefact:
    """A program for a GPU of two kernels, the second of which is late; read back as from a file."""
    text = KernelText("pointwise", SAMPLE.read_text(), 4, 3)
    rows = [
        {"name": "first", "late": False, "made": True, "warps": 4, "shared": 0, "symbol": "first"},
        {"name": "pointwise__any", "late": True, "made": False, "warps": 4, "shared": 0, "symbol": "pointwise"},
    ]
    metadata = {"program": {"target": "cuda:90", "kernels": rows}}
    return Artefact.from_bytes(
        Artefact(b"", "main", metadata, {"first": b"code", "pointwise__any": text.to_bytes()}).to_bytes()
    )


def test_one_is_made_when_it_is_asked_for() -> None:
    made = artefact()
    (row,) = make_late(made, [1])
    assert made.kernels["pointwise__any"][:4] == b"\x7fELF" and made.kernels["first"] == b"code"
    assert (row["made"], row["symbol"], row["warps"]) == (True, "pointwise", 4) and row["registers"] > 0
    # It is still loaded only when sizes need it, by whoever loaded the program before.
    assert row["late"] and make_late(made, [1]) == [row]


def test_all_are_made_before_a_program_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    made = artefact()
    make_all(made)
    assert made.kernels["pointwise__any"][:4] == b"\x7fELF"
    code = dict(made.kernels)
    monkeypatch.setattr(late_kernels, "compile_kernels", lambda *_: pytest.fail("a process may have no compiler"))
    read = Artefact.from_bytes(made.to_bytes())
    make_late(read, [1])
    make_all(read)
    assert read.kernels == code
