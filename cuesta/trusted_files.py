"""Opens the files that decide what code runs, entries of the cache and programs; no other module does.

A file is checked before it is opened: a symbolic link is not followed, and only a regular file is opened, because a
FIFO would block for ever and a device may have no end. A file and its folder are trusted if both hold:

- They belong to the user of this process, or to root.
- Nobody else may write them. A folder with the sticky bit, such as /tmp, may be writable by others all the same: they
  can add files there, and cannot replace or rename ours.

ssh and git check the same. They differ in a group that may write: a umask of 002, the default on many systems, gives
each new folder of a user such a mode, with a group that nobody else is in. ssh refuses such a folder, which is a
nuisance there; git accepts any group, which is not safe. Here the group has to be the owner's private one: the primary
group of the owner, of the owner's name, with no other members, and without an access control list, whose entries hide
behind the group's permissions.

The folders above a file's own are not checked: whoever can replace those cannot make files that belong to us. Systems
without user ids (Windows) have no such check; the other checks hold there too.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from cuesta.errors import UnsafeFileError

#: O_NONBLOCK and O_NOFOLLOW, in case the file has become a FIFO or a link since it was checked.
_FLAGS = os.O_RDONLY
for _name in ("NOFOLLOW", "NONBLOCK", "CLOEXEC", "NOCTTY", "BINARY"):
    _FLAGS |= getattr(os, f"O_{_name}", 0)  # some systems lack some flags
_KINDS = {
    stat.S_IFLNK: "a symbolic link, which is not followed",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_ACCESS_LIST = "system.posix_acl_access"


def read_trusted(path: Path, limit: int) -> bytes:
    """The bytes of a trusted file. The caller checks its folder.

    Raises UnsafeFileError for a file that is not trusted, is no regular file, or holds more than `limit` bytes; OSError
    where it cannot be read.
    """
    with open_regular(path) as file:
        check_owner(path, os.fstat(file.fileno()))
        return read_open(path, file, limit)


def read_open(path: Path, file: BinaryIO, limit: int) -> bytes:
    """The bytes of a file that `open_regular` opened. Raises UnsafeFileError for more than `limit` bytes."""
    nbytes = os.fstat(file.fileno()).st_size
    if nbytes > limit:
        raise UnsafeFileError(f"{path} holds {nbytes} bytes; at most {limit} are read")
    return file.read(nbytes)


def open_regular(path: Path) -> BinaryIO:
    """Opens a regular file for reading, whoever owns it.

    Raises UnsafeFileError for a link, a FIFO or anything else that is no regular file; OSError where it cannot be
    opened.
    """
    _check_kind(path, os.lstat(path))
    descriptor = os.open(path, _FLAGS)
    try:
        _check_kind(path, os.fstat(descriptor))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def check_folder(path: Path) -> None:
    """Raises UnsafeFileError for a folder that is not trusted, OSError for one that is missing.

    The path may be a link that this user or root owns.
    """
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        _refuse(path, _foreign(status))
        status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    check_owner(path, status)


def check_owner(path: Path, status: os.stat_result) -> None:
    """Raises UnsafeFileError if the file or folder at `path` with this `status` is not trusted."""
    _refuse(path, _foreign(status) or _open_to_others(path, status))


def _refuse(path: Path, fault: str | None) -> None:
    if fault is not None:
        raise UnsafeFileError(f"{path} {fault}")


def _check_kind(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "of no known kind")
        raise UnsafeFileError(f"{path} is {kind}; only a regular file is read")


def _foreign(status: os.stat_result) -> str | None:
    """The reason why the owner is not trusted; None if the owner is."""
    if not hasattr(os, "geteuid") or status.st_uid in (0, os.geteuid()):
        return None
    return (
        f"belongs to user {_user_name(status.st_uid)}, who could put any code there; this process runs as "
        f"{_user_name(os.geteuid())}, and uses what belongs to that user or to root (chown gives it away)"
    )


def _open_to_others(path: Path, status: os.stat_result) -> str | None:
    """Who besides the owner may write, in words; None if nobody may."""
    mode = stat.S_IMODE(status.st_mode)
    sticky = stat.S_ISDIR(status.st_mode) and mode & stat.S_ISVTX
    if not hasattr(os, "geteuid") or sticky:
        return None
    if mode & stat.S_IWOTH:
        who = "everybody"
    elif mode & stat.S_IWGRP and not _is_private_group(path, status):
        who = f"group {_group_name(status.st_gid)}"
    else:
        return None
    return f"may be written by {who}, who could put any code there (mode {mode:04o}; `chmod go-w` mends it)"


def _is_private_group(path: Path, status: os.stat_result) -> bool:
    """Whether the owner is the only member of the file's group, as far as the system's lists of users say."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    alone = owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name and set(group.gr_mem) <= {owner.pw_name}
    return alone and not _has_access_list(path)


def _has_access_list(path: Path) -> bool:
    try:
        return _ACCESS_LIST in os.listxattr(path)
    except (OSError, AttributeError):  # a file system, or a system, that has none
        return False


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group_name(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
