"""Archives of objects: what is packed comes back, binutils read it, damage is told."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cuesta.errors import ArtefactError
from cuesta.runtime.archive import members, pack


def test_members_come_back_in_order() -> None:
    parts = [b"odd", b"", b"even", b"\n`"]
    assert members(pack(parts)) == parts


def test_what_is_no_archive_is_its_own_member() -> None:
    assert members(b"\x7fELF") == [b"\x7fELF"]


@pytest.mark.parametrize("cut", [9, 40, 69])
def test_a_cut_archive_is_refused(cut: int) -> None:
    with pytest.raises(ArtefactError, match="no whole member at byte 8"):
        members(pack([b"content"])[:cut])


@pytest.mark.skipif(shutil.which("ar") is None, reason="needs binutils")
def test_ar_reads_it(tmp_path: Path) -> None:
    (tmp_path / "x.a").write_bytes(pack([b"one", b"four"]))
    assert subprocess.run(["ar", "p", tmp_path / "x.a"], capture_output=True, check=True).stdout == b"onefour"
