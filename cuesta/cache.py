"""Keeps artefacts on disk in a cache addressed by content.

    cache = open_cache(default_root())
    key = content_key(environment_key(), graph_text, options_text)
    match cache.get(key):
        case Hit(payload): ...
        case Miss(reason): report(reason); cache.put(key, compiled)

Each entry is a file, `<root>/<two digits of the key>/<key>.entry`. Any number of processes may share a root: an entry
appears whole or not at all (written to a temporary file, then renamed), and a checksum finds entries that are damaged
all the same. An entry is code: an entry or a folder that others may write is not used (trusted_files.py says who others
are). A cache that cannot be used never stops a program: `get` returns Miss, `put` returns False, each with the reason,
and a cache logs one warning, however many graphs meet the problem.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import platform
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch

from cuesta.distributions import version_of
from cuesta.errors import OptionError, UnsafeFileError
from cuesta.huge_pages import gives_free_pages_away
from cuesta.runtime.machine import first_processor
from cuesta.trusted_files import check_folder, open_regular, read_trusted

_log = logging.getLogger("cuesta.cache")

DEFAULT_LIMIT = 2 << 30
"""Bytes of entries a cache keeps unless told otherwise."""

_MAGIC = b"cuestaC\n"
_VERSION = 1
_HEADER = struct.Struct("<8sIQ32s")  # magic, version, bytes of payload, SHA-256 of key and payload
_ENTRY, _TEMPORARY = ".entry", ".tmp"
_CPU_FIELDS = {
    *("vendor_id", "cpu family", "model", "flags"),  # x86
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),  # Arm
}
_YOUNG = 10.0  # seconds for which the writing process may not have locked a temporary file yet
_ABANDONED_AFTER = 3600.0  # seconds after which a temporary file is abandoned, even if it is locked


@dataclass(frozen=True)
class Hit:
    """A valid entry."""

    payload: bytes


@dataclass(frozen=True)
class Miss:
    """No usable entry, and the reason, in words for the report."""

    reason: str


NO_ENTRY = Miss("no entry: the graph is new, or cuesta, torch, the CPU or an option has changed")


class Cache:
    """A folder of entries. Threads and processes may share it."""

    failure: str | None = None
    """Why the last `put` that failed did; None while none has."""

    def __init__(self, root: Path | None, limit: int = DEFAULT_LIMIT) -> None:
        """A cache in `root`, which is created when first written. None turns the cache off. `limit` is in bytes."""
        self.root = root
        self.limit = limit
        self._warned: set[str] = set()
        self._estimate: int | None = None  # bytes held: those of the last scan, plus those put since

    def get(self, key: str) -> Hit | Miss:
        """The payload under `key`, or why there is none. A damaged entry is removed, so that it is made anew."""
        if self.root is None:
            return Miss("the cache is off")
        path = _path(self.root, key)
        try:
            _check_folders(path)
        except UnsafeFileError as error:
            return Miss(self._leave_out(error))
        except OSError:  # the folder is missing or unreadable: reading below says which
            pass
        try:
            data = read_trusted(path, self.limit)
        except UnsafeFileError as error:
            self._warn("damaged", f"a cached graph is compiled again: {error}")
            _remove(path)
            return Miss(str(error))
        except (FileNotFoundError, NotADirectoryError):  # `put` says what is in the way of a folder
            return NO_ENTRY
        except OSError as error:
            self._warn("unusable", f"the cache in {self.root} cannot be read: {error}")
            return Miss(f"not readable: {error}")
        result = _decode(key, data)
        if isinstance(result, Hit):
            with contextlib.suppress(OSError):  # a folder that we may only read is still worth reading
                os.utime(path)  # set by us, because many file systems keep no access times
        elif result.reason.startswith("damaged"):
            self._warn("damaged", f"a cached graph is compiled again: {path} is {result.reason}")
            _remove(path)
            return Miss(f"{path} is {result.reason}")
        return result

    def put(self, key: str, payload: bytes) -> bool:
        """Stores `payload` under `key`, over an old entry. Returns False if that failed; `failure` says why."""
        if self.root is None:
            return False
        path = _path(self.root, key)
        data = _encode(key, payload)
        if len(data) > self.limit:
            return self._fail(f"an entry of {len(data)} bytes is above the cache's limit of {self.limit}")
        try:
            _write(path, data)
            self._make_room(len(data))
        except UnsafeFileError as error:
            self.failure = self._leave_out(error)
            return False
        except FileExistsError as error:
            return self._fail(f"{error.filename} is a file, not a folder")
        except OSError as error:
            return self._fail(f"{self.root} cannot be written: {error}")
        return True

    def size(self) -> int:
        """The bytes of all entries and temporary files."""
        return sum(status.st_size for _, status in self._files())

    def clear(self) -> None:
        """Removes every entry, and nothing else that may be in the folder."""
        for path, _ in self._files():
            _remove(path)
        self._estimate = None

    def prune(self, limit: int) -> None:
        """Removes files that dead processes left, and the least recently used entries until the rest fits `limit`
        bytes."""
        now = time.time()
        entries = []
        held = 0
        for path, status in self._files():
            if path.endswith(_TEMPORARY) and _is_abandoned(path, now - status.st_mtime):
                _remove(path)
                continue
            held += status.st_size
            if path.endswith(_ENTRY):
                entries.append((status.st_mtime_ns, status.st_size, path))
        for _, nbytes, path in sorted(entries):
            if held <= limit:
                break
            _remove(path)
            held -= nbytes
        self._estimate = held

    def _make_room(self, nbytes: int) -> None:
        # Scan at the first put, and when the estimate exceeds the limit. Then a tenth is freed, so that not every put
        # scans.
        if self._estimate is None:
            self.prune(self.limit)
            return
        self._estimate += nbytes
        if self._estimate > self.limit:
            self.prune(self.limit - self.limit // 10)

    def _fail(self, reason: str) -> bool:
        self.failure = reason
        self._warn("unusable", f"compiled graphs are not cached: {reason}")
        return False

    def _leave_out(self, error: UnsafeFileError) -> str:
        """Warns that the cache is not used, and returns the reason for the report."""
        reason = f"the cache is not used: {error}"
        self._warn("unusable", f"{reason}. CUESTA_CACHE_DIR may name another folder")
        return reason

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            _log.warning("%s", message)

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        """The files that a cache wrote, entries and temporary ones, with their status."""
        if self.root is None:
            return
        try:
            found = [entry for entry in os.scandir(self.root) if len(entry.name) == 2]
            folders = [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for folder in folders:
            with contextlib.suppress(OSError):  # another process may remove a file meanwhile
                for entry in os.scandir(folder):
                    if entry.name.endswith((_ENTRY, _TEMPORARY)):
                        yield entry.path, entry.stat(follow_symlinks=False)


@functools.cache
def open_cache(root: Path | None) -> Cache:
    """The one Cache that all compiles of this process share for `root`, so that it warns and scans once."""
    return Cache(root)


def default_root(environment: Mapping[str, str] = os.environ) -> Path | None:
    """CUESTA_CACHE_DIR (empty: None, the cache is off), else cuesta/ in $XDG_CACHE_HOME or in ~/.cache.

    Raises OptionError where CUESTA_CACHE_DIR begins with the home of a user who does not exist.
    """
    chosen = environment.get("CUESTA_CACHE_DIR")
    if chosen == "":
        return None
    if chosen is not None:
        try:
            return Path(chosen).expanduser().absolute()
        except RuntimeError as error:
            raise OptionError(f"CUESTA_CACHE_DIR names no folder: {chosen!r}: {error}") from None
    parent = environment.get("XDG_CACHE_HOME", "")
    try:
        if os.path.isabs(parent):  # the XDG specification has relative paths ignored
            return Path(parent) / "cuesta"
        return Path.home() / ".cache" / "cuesta"
    except RuntimeError:  # a user without a home, as in some containers
        return None


def content_key(*parts: str | bytes) -> str:
    """A name for `parts`: 64 hexadecimal digits. The same characters in other parts, or as bytes instead of text, give
    another name."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(b"s" if isinstance(part, str) else b"b")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def _path(root: Path, key: str) -> Path:
    if len(key) < 3 or not (key.isascii() and key.isalnum()):
        raise ValueError(
            f"not a cache key: {key!r}; a key is 3 or more ASCII letters and digits, such as content_key makes"
        )
    return root / key[:2] / f"{key}{_ENTRY}"


def _encode(key: str, payload: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, _VERSION, len(payload), _digest(key, payload)) + payload


def _decode(key: str, data: bytes) -> Hit | Miss:
    if len(data) < _HEADER.size or not data.startswith(_MAGIC):
        return Miss("damaged: no header")
    _, version, nbytes, digest = _HEADER.unpack_from(data)
    if version != _VERSION:
        return Miss(f"made by another version: format {version}, not {_VERSION}")
    payload = data[_HEADER.size :]
    if len(payload) != nbytes:
        return Miss(f"damaged: {len(payload)} bytes instead of {nbytes}")
    if _digest(key, payload) != digest:
        return Miss("damaged: checksum differs")
    return Hit(payload)


def _digest(key: str, payload: bytes) -> bytes:
    digest = hashlib.sha256(key.encode())
    digest.update(payload)
    return digest.digest()


def _write(path: Path, data: bytes) -> None:
    """Writes a file that appears whole or not at all; leaves nothing behind on failure.

    There is no fsync: a file that a power loss cuts short fails its checksum, and costs one compilation.
    """
    # For the user alone: whoever can write an entry decides what code runs.
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    _check_folders(path)
    descriptor, temporary = tempfile.mkstemp(suffix=_TEMPORARY, dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            _lock(file)
            file.write(data)
            file.flush()
            os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


def _check_folders(path: Path) -> None:
    """Raises UnsafeFileError if others may write a folder of the entry at `path`, OSError if a folder is missing."""
    check_folder(path.parent.parent)
    check_folder(path.parent)


def _is_abandoned(path: str, age: float) -> bool:
    """Whether the process that wrote a temporary file, `age` seconds ago, is gone. A living process holds the file's
    lock."""
    if age < _YOUNG or age > _ABANDONED_AFTER:
        return age > _ABANDONED_AFTER
    try:
        with open_regular(Path(path)) as file:
            return _lock(file)
    except (OSError, UnsafeFileError):
        return False


def _lock(file: BinaryIO) -> bool:
    """Tries to lock a file until it is closed or the process ends; returns whether that succeeded. It fails if another
    process holds the lock, or if the system or the disk has no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _remove(path: str | Path) -> None:
    """Removes a file; ignores a file that is gone already or that we may not remove."""
    with contextlib.suppress(OSError):
        os.unlink(path)


@functools.cache
def environment_key() -> str:
    """A name for all that affects compiled code besides the graph: CPU and memory, torch, bindings, Python, our
    sources.

    Computed once per process.
    """
    return content_key(
        *_cpu(),
        torch.__version__,
        str(torch.version.git_version),
        version_of("torch-mlir") or "none",
        sys.version,
        _sources(Path(__file__).parent),
        f"gives free pages away: {gives_free_pages_away()}",
    )


def _cpu() -> tuple[str, ...]:
    """The machine's architecture, and the fields of its first processor that select instructions; if there are none,
    Python's `platform` describes it."""
    fields = [value for name, value in first_processor().items() if name in _CPU_FIELDS]
    return (platform.machine(), *(fields or [platform.processor(), platform.platform()]))


def _sources(package: Path) -> str:
    """A name for the contents of all Python files below `package`. Names and times alone would not tell checkouts
    apart."""
    parts: list[str | bytes] = []
    root = os.fspath(package)
    for folder, subfolders, files in os.walk(package, followlinks=True):
        subfolders[:] = sorted(name for name in subfolders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                # Editors leave dangling links beside an open file (.#name.py), which are no sources.
                with contextlib.suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:
                    parts += [path[len(root) :], file.read()]  # os.path.relpath takes as long as reading does
    return content_key(*parts)
