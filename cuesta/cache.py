"""The on-disk cache of artefacts, addressed by content.

    cache = open_cache(default_root())
    key = content_key(environment_key(), graph_text, options_text)
    match cache.get(key):
        case Hit(payload): ...
        case Miss(reason): report(reason); cache.put(key, compiled)

A file an entry, `<root>/<two digits of the key>/<key>.entry`. Any number of processes may share a root: an entry
appears whole or not at all (written aside, then renamed), and what is damaged all the same is found by its checksum.
An entry is code: one that somebody else could have written is not used, nor is a folder where others may write
(trusted_files.py says who others are). A cache that cannot be used never stops a program: `get` says Miss, `put` says
False, each with the reason, and one warning is logged for a cache, however many graphs meet the problem.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
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
_YOUNG = 10.0  # seconds for which a temporary file may not be locked yet by the process that writes it
_ABANDONED_AFTER = 3600.0  # seconds after which it is nobody's, whatever the lock says


@dataclass(frozen=True)
class Hit:
    """An entry that was found whole."""

    payload: bytes


@dataclass(frozen=True)
class Miss:
    """Nothing usable, and why, in words for the report."""

    reason: str


NO_ENTRY = Miss("no entry: the graph is new, or cuesta, torch, the CPU or an option is another")


class Cache:
    """A folder of entries. Threads and processes may share it."""

    failure: str | None = None
    """Why the last `put` that failed did; None while none has."""

    def __init__(self, root: Path | None, limit: int = DEFAULT_LIMIT) -> None:
        """A cache in `root`, made when first written; None is a cache that is off. `limit` is in bytes."""
        self.root = root
        self.limit = limit
        self._warned: set[str] = set()
        self._estimate: int | None = None  # bytes held: what the last scan found, and what was put since

    def get(self, key: str) -> Hit | Miss:
        """The payload under `key`, or why there is none. A damaged entry is removed, so that it is made anew."""
        if self.root is None:
            return Miss("the cache is off")
        path = _path(self.root, key)
        try:
            _check_folders(path)
        except UnsafeFileError as error:
            return Miss(self._leave_out(error))
        except OSError:  # no such folder, or none that we may look into: reading says which
            pass
        try:
            data = read_trusted(path, self.limit)
        except UnsafeFileError as error:
            self._warn("damaged", f"a cached graph is compiled anew: {error}")
            _remove(path)
            return Miss(str(error))
        except (FileNotFoundError, NotADirectoryError):  # `put` says what is in the way of a folder
            return NO_ENTRY
        except OSError as error:
            self._warn("unusable", f"compiled graphs cannot be taken from the cache in {self.root}: {error}")
            return Miss(f"not readable: {error}")
        result = _decode(key, data)
        if isinstance(result, Hit):
            with contextlib.suppress(OSError):  # a folder that we may only read is still worth reading
                os.utime(path)  # by ourselves, because many file systems keep no access times
        elif result.reason.startswith("damaged"):
            self._warn("damaged", f"a cached graph is compiled anew: {path} is {result.reason}")
            _remove(path)
            return Miss(f"{path} is {result.reason}")
        return result

    def put(self, key: str, payload: bytes) -> bool:
        """Stores `payload` under `key`, over what was there. False where that failed: see `failure`."""
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
        """Bytes of all entries, and of those that were begun and not finished."""
        return sum(status.st_size for _, status in self._files())

    def clear(self) -> None:
        """Removes every entry, and nothing else that may be in the folder."""
        for path, _ in self._files():
            _remove(path)
        self._estimate = None

    def prune(self, limit: int) -> None:
        """Removes what dead processes left, and the entries used longest ago until the rest fits `limit` bytes."""
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
        # Scan at the first put, and where the limit seems reached: then a tenth goes, so that not every put scans.
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
        """Says that the whole cache is not used; the reason for the report."""
        reason = f"the cache is left out: {error}"
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
            with contextlib.suppress(OSError):  # a file that another process removes is a file less
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
    """A name for `parts`: 64 hexadecimal digits. Parts cut elsewhere, and text as bytes, give another name."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(b"s" if isinstance(part, str) else b"b")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def _path(root: Path, key: str) -> Path:
    if len(key) < 3 or not (key.isascii() and key.isalnum()):
        raise ValueError(f"not a cache key: {key!r}; content_key makes them, of letters and digits")
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
    """Writes a file that is there whole or not at all; leaves nothing behind where that fails.

    There is no fsync: what a loss of power cuts short is found by its checksum, and costs one compilation.
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
    """Raises UnsafeFileError where others may write a folder that the entry at `path` is in, OSError for none."""
    check_folder(path.parent.parent)
    check_folder(path.parent)


def _is_abandoned(path: str, age: float) -> bool:
    """Whether the process that wrote a temporary file, `age` seconds ago, is gone. While it lives, it has it locked."""
    if age < _YOUNG or age > _ABANDONED_AFTER:
        return age > _ABANDONED_AFTER
    try:
        with open_regular(Path(path)) as file:
            return _lock(file)
    except (OSError, UnsafeFileError):
        return False


def _lock(file: BinaryIO) -> bool:
    """Whether this process now has the file's lock, until the file is closed or the process is gone. False where
    another process has it, and where the system or the disk has no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _remove(path: str | Path) -> None:
    """Removes a file; one that is gone already, or that we may not remove, is left at that."""
    with contextlib.suppress(OSError):
        os.unlink(path)


@functools.cache
def environment_key() -> str:
    """A name for all that shapes compiled code besides the graph: CPU and memory, torch, bindings, Python, our sources.

    Worked out once per process.
    """
    return content_key(
        *_cpu(),
        torch.__version__,
        str(torch.version.git_version),
        _distribution_version("torch-mlir"),
        sys.version,
        _sources(Path(__file__).parent),
        f"gives free pages away: {gives_free_pages_away()}",
    )


def _cpu() -> tuple[str, ...]:
    """The machine's architecture, and what its first processor says that chooses instructions; elsewhere, platform's
    word."""
    fields = [value for name, value in first_processor().items() if name in _CPU_FIELDS]
    return (platform.machine(), *(fields or [platform.processor(), platform.platform()]))


def _distribution_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _sources(package: Path) -> str:
    """A name for the contents of all Python files below `package`; names and times would not tell checkouts apart."""
    parts: list[str | bytes] = []
    root = os.fspath(package)
    for folder, subfolders, files in os.walk(package, followlinks=True):
        subfolders[:] = sorted(name for name in subfolders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                # Editors leave links to nowhere beside a file that they have open (.#name.py): no module, no source.
                with contextlib.suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:
                    parts += [path[len(root) :], file.read()]  # os.path.relpath takes as long as reading does
    return content_key(*parts)
