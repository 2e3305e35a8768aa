"""Whose program is loaded: signatures, owners and modes; zips that we did not write; where a program is saved."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import cuesta
from cuesta.errors import ArtefactError, InputError, SignatureError, UnsafeFileError
from cuesta.export import program_archive
from cuesta.reports import compile_report

KEY = b"a key of the tests, which is no secret"


class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.by = torch.nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


@pytest.fixture(scope="module")
def program() -> Iterator[Any]:
    yield cuesta.compile(torch.export.export(Scale(), (torch.ones(3),)))
    compile_report.clear()


@pytest.fixture
def signed(program: Any, tmp_path: Path) -> Path:
    path: Path = program.save(tmp_path / "signed.cuesta", key=KEY)
    return path


@pytest.fixture
def unsigned(program: Any, tmp_path: Path) -> Path:
    path: Path = program.save(tmp_path / "unsigned.cuesta")
    return path


def check(program: Any) -> None:
    assert program(torch.ones(3)).tolist() == [2.0] * 3


# Signatures ------------------------------------------------------------------------------------------------------


def test_a_signed_program_loads_with_its_key_and_without(signed: Path) -> None:
    for key in (KEY, bytearray(KEY), memoryview(KEY), None):
        check(cuesta.load(signed, key=key))
    assert zipfile.ZipFile(signed).testzip() is None


def test_another_key_is_refused(signed: Path) -> None:
    with pytest.raises(SignatureError, match=f"{signed} was signed with another key"):
        cuesta.load(signed, key=KEY + b".")


def test_an_unsigned_program_is_refused_where_a_key_is_given(unsigned: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    for path in (unsigned, tmp_path / "empty"):
        with pytest.raises(SignatureError, match=f"{path} is not signed"):
            cuesta.load(path, key=KEY)
    check(cuesta.load(unsigned))


@pytest.mark.parametrize("key", ["text", 3, [1], b"", bytearray()])
def test_what_is_no_key(program: Any, signed: Path, tmp_path: Path, key: Any) -> None:
    with pytest.raises(InputError, match=r"key .*secrets\.token_bytes\(32\)"):
        cuesta.load(signed, key=key)
    with pytest.raises(InputError, match=r"key .*secrets\.token_bytes\(32\)"):
        program.save(tmp_path / "new", key=key)
    assert not (tmp_path / "new").exists()


def test_every_changed_byte_is_found_before_anything_is_read(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*arguments: object) -> None:
        raise AssertionError("the zip was read")

    monkeypatch.setattr(zipfile, "ZipFile", read)
    data = signed.read_bytes()
    for position in [*range(0, len(data), 97), *range(len(data) - 300, len(data))]:
        changed = bytearray(data)
        changed[position] ^= 1
        signed.write_bytes(changed)
        with pytest.raises(SignatureError):
            cuesta.load(signed, key=KEY)
    for cut in (data[:-1], data[1:], data + b"\0", data[: len(data) // 2], data + data):
        signed.write_bytes(cut)
        with pytest.raises(SignatureError):
            cuesta.load(signed, key=KEY)


def test_names_and_order_of_members_are_signed(signed: Path, tmp_path: Path) -> None:
    """A zip that is packed anew, with the comment of the one that was signed."""
    with zipfile.ZipFile(signed) as archive:
        members, comment = [(name, archive.read(name)) for name in archive.namelist()], archive.comment
    for number, changed in enumerate(([*members, ("storage/9", b"")], members[::-1], members)):
        with zipfile.ZipFile(tmp_path / str(number), "w") as archive:
            for name, content in changed:
                archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content)
            archive.comment = comment
        with pytest.raises(SignatureError, match="was changed after it was signed"):
            cuesta.load(tmp_path / str(number), key=KEY)


# Owners and modes ------------------------------------------------------------------------------------------------


def test_a_program_is_written_by_its_owner_alone_whatever_the_umask(program: Any, tmp_path: Path) -> None:
    for mask, mode in ((0o000, 0o644), (0o002, 0o644), (0o077, 0o600)):
        before = os.umask(mask)
        try:
            path = program.save(tmp_path / "program")
        finally:
            os.umask(before)
        assert path.stat().st_mode & 0o777 == mode
        check(cuesta.load(path))


def test_a_program_that_others_may_write_wants_a_key(signed: Path) -> None:
    signed.chmod(0o666)
    with pytest.raises(UnsafeFileError, match=rf"{signed} may be written by everybody.*`chmod go-w`.*key=…"):
        cuesta.load(signed)
    check(cuesta.load(signed, key=KEY))


def test_so_does_one_in_a_folder_that_others_may_write(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(signed.parent)
    for name in (signed, signed.name):
        signed.parent.chmod(0o777)
        with pytest.raises(UnsafeFileError, match=rf"{signed.parent} may be written by everybody"):
            cuesta.load(name)
        check(cuesta.load(name, key=KEY))
        signed.parent.chmod(0o1777)  # as /tmp
        check(cuesta.load(name))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that another user owns")
def test_so_does_one_of_another_user(signed: Path) -> None:
    os.chown(signed, 54321, -1)
    with pytest.raises(UnsafeFileError, match="belongs to user 54321, who could put any code there"):
        cuesta.load(signed)
    check(cuesta.load(signed, key=KEY))


def test_what_is_no_regular_file_is_not_opened(signed: Path, tmp_path: Path) -> None:
    link, fifo = tmp_path / "link", tmp_path / "fifo"
    link.symlink_to(signed)
    os.mkfifo(fifo)
    for path in (link, fifo, tmp_path, Path("/dev/zero")):
        for key in (None, KEY):
            with pytest.raises(UnsafeFileError, match=f"{path} is a .*; only a regular file is read"):
                cuesta.load(path, key=key)


# Zips ------------------------------------------------------------------------------------------------------------


def repacked(path: Path, pack: Callable[[zipfile.ZipFile, str, bytes], None]) -> Path:
    """The program with each member packed by `pack`."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            pack(archive, name, content)
    return path


def test_compressed_members_are_refused(unsigned: Path) -> None:
    """A gigabyte of zeros fits into a megabyte of them."""
    repacked(unsigned, lambda archive, name, data: archive.writestr(name, data, zipfile.ZIP_DEFLATED))
    with pytest.raises(ArtefactError, match="its members are"):
        cuesta.load(unsigned)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice_is_refused(unsigned: Path) -> None:
    with zipfile.ZipFile(unsigned, "a") as archive:
        archive.writestr("code", b"other")
    with pytest.raises(ArtefactError, match="its members are"):
        cuesta.load(unsigned)


def test_members_that_share_their_bytes_are_refused(unsigned: Path) -> None:
    with zipfile.ZipFile(unsigned, "a") as archive:
        (code,) = [member for member in archive.infolist() if member.filename == "code"]
        for number in range(2000):
            again = zipfile.ZipInfo(f"code{number}")
            for field in ("header_offset", "file_size", "compress_size", "CRC"):
                setattr(again, field, getattr(code, field))
            archive.filelist.append(again)
        archive._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(ArtefactError, match="its members are"):
        cuesta.load(unsigned)


def test_a_member_larger_than_the_memory_is_refused(unsigned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_archive, "_memory", lambda: 100)
    with pytest.raises(UnsafeFileError, match=r"program\.json of \d+ bytes; at most 100"):
        cuesta.load(unsigned)


def test_a_signed_program_larger_than_the_memory_is_refused(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.truncate(signed, 1 << 40)
    monkeypatch.setattr(program_archive, "_memory", lambda: 1 << 30)
    with pytest.raises(UnsafeFileError, match=f"holds {1 << 40} bytes; at most {1 << 30} are read"):
        cuesta.load(signed, key=KEY)


# Paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [None, 3, "", "a\0b", b"bytes", ["list"]])
def test_what_is_no_path(program: Any, path: Any) -> None:
    with pytest.raises(InputError, match="save takes the path of a file, got"):
        program.save(path)
    with pytest.raises(InputError, match=r"cuesta\.load takes the path of a file, got"):
        cuesta.load(path)


@pytest.mark.parametrize("weights", [[1], "text", {"by": 3}, {7: torch.ones(3)}])
def test_what_are_no_weights(unsigned: Path, weights: Any) -> None:
    with pytest.raises(InputError, match="weights takes a dict"):
        cuesta.load(unsigned, weights)


def test_where_no_program_can_be_saved(program: Any, tmp_path: Path) -> None:
    fifo = tmp_path / "folder" / "fifo"
    fifo.parent.mkdir()
    os.mkfifo(fifo)
    with pytest.raises(FileNotFoundError, match=f"no such folder: '{tmp_path / 'none'}'"):
        program.save(tmp_path / "none" / "program")
    with pytest.raises(IsADirectoryError, match=f"this is a folder: '{fifo.parent}'"):
        program.save(fifo.parent)
    with pytest.raises(FileExistsError, match=f"not a regular file: '{fifo}'"):
        program.save(fifo)
    with pytest.raises(NotADirectoryError, match=f"not a folder: '{cuesta.__file__}'"):
        program.save(cuesta.__file__ + "/program")
    assert [p.name for p in tmp_path.rglob("*")] == ["folder", "fifo"]


def test_an_error_of_the_disk_names_the_file(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device", "temporary")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path / 'program'}'"):
        program.save(tmp_path / "program")
    assert list(tmp_path.iterdir()) == []


def test_a_program_is_saved_over_another(unsigned: Path, program: Any) -> None:
    shutil.copy(unsigned, unsigned.parent / "copy")
    program.save(unsigned, key=KEY)
    check(cuesta.load(unsigned, key=KEY))
    check(cuesta.load(unsigned.parent / "copy"))
