"""Opens, writes and signs the zip that holds a program.

    members, stored | central directory | comment: "cuesta HMAC-SHA256 <name of the key> <signature>"

The signature is the HMAC-SHA256 of all bytes of the file before the signature: every member with its name, and the
tables of the zip. It is checked before any of them is read. It is stored in the zip's comment, which other tools
ignore.

A program is code. Without a key, a file is read only if nobody else could have written it (trusted_files.py). With a
key, the file may be anywhere: the signature says who wrote it. Such a file is read into memory as a whole, so that
nobody can change it between the check and its use.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import io
import os
import secrets
import struct
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from cuesta.errors import ArtefactError, InputError, SignatureError, UnsafeFileError
from cuesta.trusted_files import check_folder, check_owner, open_regular, read_open

_MARK = b"cuesta HMAC-SHA256 "
_KEY_NAME = 16  # hexadecimal digits that tell keys apart
_SIGNATURE = 64  # hexadecimal digits
_CHUNK = 1 << 20
#: The only flag that our members have: the name is UTF-8.
_UTF8_NAME = 1 << 11


def as_path(path: Any, what: str) -> Path:
    """The path that the function `what` was given. Raises InputError if it is no path of a file."""
    given = os.fspath(path) if isinstance(path, (str, os.PathLike)) else path
    if not isinstance(given, str) or not given or "\0" in given:
        raise InputError(f"{what} takes the path of a file, got {path!r} ({type(path).__name__})")
    return Path(given)


def as_key(key: Any) -> bytes | None:
    """The key to sign or to check with. Raises InputError for an invalid key."""
    if key is None:
        return None
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise InputError(f"key takes bytes, such as secrets.token_bytes(32) gives, got a {type(key).__name__}")
    if not len(key):
        raise InputError("key is empty; bytes such as secrets.token_bytes(32) gives are a key")
    return bytes(key)


@contextlib.contextmanager
def open_archive(path: Path, key: bytes | None) -> Iterator[zipfile.ZipFile]:
    """Opens a program's zip for reading.

    Raises SignatureError if `key` is given and the file was not signed with it, UnsafeFileError if no key is given and
    others could have written the file, ArtefactError if the file is no zip of ours, OSError if it cannot be read.
    """
    with open_regular(path) as file:
        nbytes = os.fstat(file.fileno()).st_size
        if key is None:
            _check_whose(path, file)
            content = file
        else:
            data = read_open(path, file, _memory())
            _check_signature(path, data, key)
            content = io.BytesIO(data)
        with _unpacked(path, content, nbytes) as archive:
            yield archive


def write_archive(path: Path, members: Iterable[tuple[str, Any]], key: bytes | None) -> None:
    """Writes members, pairs of name and content, into a file that appears whole or not at all; signs it if there is a
    key.

    Only the owner may write the file, whatever the umask is. Raises OSError, which names `path` or the missing folder.
    """
    _check_place(path)
    temporary = path.with_name(f".cuesta-{secrets.token_hex(8)}.tmp")
    try:
        # The umask may remove further permissions.
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            with open(descriptor, "w+b") as file:
                _write(file, members, key)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def _write(file: BinaryIO, members: Iterable[tuple[str, Any]], key: bytes | None) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        if key is not None:
            archive.comment = _MARK + _key_name(key) + b" " + b"0" * _SIGNATURE
        for name, content in members:
            archive.writestr(name, content)
    if key is None:
        return
    signed = file.seek(-_SIGNATURE, os.SEEK_END)
    file.seek(0)
    signature = hmac.new(key, digestmod=hashlib.sha256)
    while signed > 0:
        chunk = file.read(min(_CHUNK, signed))
        signature.update(chunk)
        signed -= len(chunk)
    file.seek(-_SIGNATURE, os.SEEK_END)
    file.write(signature.hexdigest().encode())


def _check_place(path: Path) -> None:
    """Raises an OSError, before anything is written, if no file can be written at this path."""
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "no program can be saved here: this is not a folder", str(path.parent))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no program can be saved here: there is no such folder", str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "no program can be saved under this name: this is a folder", str(path))
    if path.exists() and not path.is_file():
        raise FileExistsError(
            errno.EEXIST, "no program can be saved under this name: this is not a regular file", str(path)
        )


def _check_whose(path: Path, file: BinaryIO) -> None:
    place = path.absolute()
    try:
        check_folder(place.parent)
        check_owner(place, os.fstat(file.fileno()))
    except UnsafeFileError as error:
        raise UnsafeFileError(
            f"{error}. A program is code: it is loaded from files and folders that nobody else can write, or with the "
            "key that it was signed with: program.save(path, key=…), cuesta.load(path, key=…)"
        ) from None


def _check_signature(path: Path, data: bytes, key: bytes) -> None:
    comment = data[-(len(_MARK) + _KEY_NAME + 1 + _SIGNATURE) :]
    if not comment.startswith(_MARK):
        raise SignatureError(f"{path} is not signed; program.save(path, key=…) signs a program")
    name = comment[len(_MARK) : len(_MARK) + _KEY_NAME]
    if not hmac.compare_digest(name, _key_name(key)):
        raise SignatureError(f"{path} was signed with another key")
    signature = hmac.new(key, digestmod=hashlib.sha256)
    signed = memoryview(data)[:-_SIGNATURE]
    for start in range(0, len(signed), _CHUNK):
        signature.update(signed[start : start + _CHUNK])
    if not hmac.compare_digest(comment[-_SIGNATURE:], signature.hexdigest().encode()):
        raise SignatureError(f"{path} was changed after it was signed")


def _key_name(key: bytes) -> bytes:
    """A name of a key, which tells keys apart and does not help to find the key."""
    return hmac.new(key, b"cuesta: name of a key", hashlib.sha256).hexdigest()[:_KEY_NAME].encode()


def _unpacked(path: Path, file: BinaryIO, nbytes: int) -> zipfile.ZipFile:
    """Opens the zip in a file of `nbytes` bytes. Raises ArtefactError for a zip that we would not have written."""
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, ArithmeticError, NotImplementedError, struct.error, EOFError) as error:
        raise ArtefactError(f"{path} is damaged, or not a program that cuesta saved: {error}") from error
    members = archive.infolist()
    plain = all(
        m.compress_type == zipfile.ZIP_STORED
        and m.file_size == m.compress_size
        and not m.flag_bits & ~_UTF8_NAME
        and 0 <= m.header_offset < nbytes
        for m in members
    )
    # Members that share bytes would take more memory than the file has bytes.
    if not plain or sum(m.file_size for m in members) > nbytes or len({m.filename for m in members}) < len(members):
        raise ArtefactError(
            f"{path} is damaged, or not a program that cuesta saved: "
            "its members are compressed, encrypted, overlapping or repeated"
        )
    most = _memory()
    for member in members:
        if member.file_size > most:
            raise UnsafeFileError(
                f"{path} holds {member.filename} of {member.file_size} bytes; at most {most}, the memory, are read"
            )
    return archive


def _memory() -> int:
    """The bytes of this machine's memory: no more is read at once."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that does not say
        return 1 << 40
