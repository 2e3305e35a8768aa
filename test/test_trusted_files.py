"""What is opened as code, and what is left alone: kinds of files, owners, modes, sizes."""

from __future__ import annotations

import grp
import os
import pwd
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from cuesta import trusted_files
from cuesta.errors import ArtefactError, UnsafeFileError
from cuesta.trusted_files import check_folder, open_regular, read_trusted

GiveAway = Callable[[Path], None]
OTHER = 54321


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> GiveAway:
    """Makes a file or folder another user's; where this process may not, all are another user's from then on."""

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, OTHER, -1, follow_symlinks=False)
        else:
            mine = os.geteuid()
            monkeypatch.setattr(os, "geteuid", lambda: mine + 1)

    return give


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "code"
    path.write_bytes(b"code")
    path.chmod(0o644)
    return path


def private_group(monkeypatch: pytest.MonkeyPatch, name: str = "me", members: tuple[str, ...] = ()) -> None:
    """The system's lists say that whoever owns a file is "me", whose primary group is that of the file."""
    gid = os.getegid()
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="me", pw_gid=gid))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=name, gr_gid=gid, gr_mem=list(members)))


def test_a_file_of_ours_is_read(file: Path) -> None:
    check_folder(file.parent)
    assert read_trusted(file, 4) == b"code"


def test_what_is_missing_is_an_error_of_the_system(tmp_path: Path, file: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trusted(tmp_path / "none", 4)
    with pytest.raises(FileNotFoundError):
        check_folder(tmp_path / "none")
    with pytest.raises(NotADirectoryError):
        check_folder(file)


def test_only_a_regular_file_is_opened(tmp_path: Path, file: Path) -> None:
    link, fifo, folder, plug = (tmp_path / name for name in ("link", "fifo", "folder", "plug"))
    link.symlink_to(file)
    os.mkfifo(fifo)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(plug))
    kinds = {
        link: "a symbolic link, which is not followed",
        fifo: "a FIFO",
        folder: "a folder",
        plug: "a socket",
        Path("/dev/zero"): "a device",
    }
    for path, kind in kinds.items():
        with pytest.raises(UnsafeFileError, match=f"{path} is {kind}; only a regular file is read"):
            open_regular(path)


def test_what_takes_the_place_of_a_file_after_the_first_look(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """os.lstat says what was there; a FIFO and a link are there when the file is opened."""
    before = os.lstat(file)
    monkeypatch.setattr(os, "lstat", lambda path: before)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(UnsafeFileError, match="is a FIFO"):
        open_regular(file)
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(file)


def test_a_file_of_too_many_bytes_is_not_read(file: Path) -> None:
    os.truncate(file, 1 << 40)  # sparse: as many zeros as nobody has memory for
    with pytest.raises(UnsafeFileError, match=f"holds {1 << 40} bytes; at most 1000 are read"):
        read_trusted(file, 1000)


def test_what_another_user_owns_is_not_read(file: Path, give_away: GiveAway) -> None:
    give_away(file)
    with pytest.raises(UnsafeFileError, match=r"code belongs to user .*, who could put any code there"):
        read_trusted(file, 4)


def test_a_folder_of_another_user_is_refused(file: Path, give_away: GiveAway) -> None:
    give_away(file.parent)
    with pytest.raises(ArtefactError, match="belongs to user"):
        check_folder(file.parent)


def test_what_root_owns_is_used() -> None:
    check_folder(Path("/"))


@pytest.mark.parametrize(("mode", "who"), [(0o646, "everybody"), (0o666, "everybody"), (0o664, "group")])
def test_what_others_may_write_is_not_read(file: Path, mode: int, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    private_group(monkeypatch, "team")
    file.chmod(mode)
    with pytest.raises(UnsafeFileError, match=rf"may be written by {who}.*mode 0{mode:o}; `chmod go-w` mends it"):
        read_trusted(file, 4)


def test_a_folder_that_others_may_write_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UnsafeFileError, match="may be written by everybody"):
        check_folder(tmp_path)
    tmp_path.chmod(0o1777)
    check_folder(tmp_path)


def test_a_umask_of_002_with_a_private_group(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0o664)
    for name, members in (("me", ()), ("me", ("me",))):
        private_group(monkeypatch, name, members)
        assert read_trusted(file, 4) == b"code"
    for name, members in (("staff", ()), ("me", ("me", "you"))):
        private_group(monkeypatch, name, members)
        with pytest.raises(UnsafeFileError, match="may be written by group"):
            read_trusted(file, 4)


def test_an_access_list_hides_others_behind_the_group(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private_group(monkeypatch)
    file.chmod(0o664)
    monkeypatch.setattr(os, "listxattr", lambda path: ["system.posix_acl_access"])
    with pytest.raises(UnsafeFileError, match="may be written by group"):
        read_trusted(file, 4)


def test_users_without_a_name_are_numbers(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(grp, "getgrgid", unknown)
    file.chmod(0o664)
    with pytest.raises(UnsafeFileError, match=f"may be written by group {os.stat(file).st_gid},"):
        read_trusted(file, 4)


def test_a_link_to_a_folder_is_its_owners(tmp_path: Path, give_away: GiveAway) -> None:
    (tmp_path / "real").mkdir(mode=0o755)
    link = tmp_path / "link"
    link.symlink_to("real")
    check_folder(link)
    give_away(link)
    with pytest.raises(UnsafeFileError, match="link belongs to user"):
        check_folder(link)


def test_a_system_without_user_ids(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "geteuid")
    file.chmod(0o666)
    check_folder(file.parent)
    assert trusted_files.read_trusted(file, 4) == b"code"
