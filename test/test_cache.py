"""The cache gives back what was put, says why it does not, and never stops a program."""

from __future__ import annotations

import errno
import importlib.metadata
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cuesta.cache
from cuesta.cache import NO_ENTRY, Cache, Hit, Miss, content_key, default_root, environment_key, open_cache
from cuesta.errors import OptionError

KEY = content_key("graph", "options")
PAYLOAD = bytes(range(256)) * 40


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


class Kept(logging.Handler):
    """A handler that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def logged() -> Iterator[Kept]:
    """What the cache says."""
    handler = Kept()
    logging.getLogger("cuesta.cache").addHandler(handler)
    yield handler
    logging.getLogger("cuesta.cache").removeHandler(handler)


def files(cache: Cache) -> list[Path]:
    assert cache.root is not None
    return sorted(path for path in cache.root.rglob("*") if path.is_file())


def entry(cache: Cache) -> Path:
    (path,) = files(cache)
    return path


def test_gives_back_what_was_put(cache: Cache) -> None:
    assert cache.get(KEY) == NO_ENTRY
    assert cache.put(KEY, b"first") and cache.put(KEY, PAYLOAD)
    assert cache.get(KEY) == Hit(PAYLOAD)
    assert cache.get(content_key("other")) == NO_ENTRY
    assert cache.put(content_key("nothing"), b"")
    assert cache.get(content_key("nothing")) == Hit(b"")
    assert cache.failure is None


def test_off(logged: Kept) -> None:
    cache = Cache(None)
    assert cache.get(KEY) == Miss("the cache is off")
    assert not cache.put(KEY, PAYLOAD)
    cache.clear()
    assert cache.size() == 0 and logged.records == []


@pytest.mark.parametrize("key", ["", "ab", "../../etc/passwd", "ab/cd", "ab.d", "größe"])
def test_a_key_is_never_a_path(cache: Cache, key: str) -> None:
    with pytest.raises(ValueError, match="not a cache key"):
        cache.get(key)


def test_entries_are_for_the_user_alone(cache: Cache) -> None:
    cache.put(KEY, PAYLOAD)
    assert entry(cache).stat().st_mode & 0o077 == 0
    assert entry(cache).parent.stat().st_mode & 0o077 == 0


def test_every_truncation_is_damage_and_is_removed(cache: Cache) -> None:
    for length in range(0, len(PAYLOAD), 97):
        cache.put(KEY, PAYLOAD)
        os.truncate(entry(cache), length)
        result = cache.get(KEY)
        assert isinstance(result, Miss) and "is damaged: " in result.reason
        assert files(cache) == [] and cache.get(KEY) == NO_ENTRY


def test_every_flipped_byte_is_found(cache: Cache) -> None:
    payload = PAYLOAD[:200]
    cache.put(KEY, payload)
    path = entry(cache)
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x20
        path.write_bytes(damaged)
        result = cache.get(KEY)
        assert isinstance(result, Miss)
        assert ("made by another version" if 8 <= position < 12 else f"{path} is damaged: ") in result.reason


def test_damage_is_warned_of_once(cache: Cache, logged: Kept) -> None:
    for number in range(3):
        cache.put(content_key(str(number)), PAYLOAD)
        os.truncate(entry(cache), 50)
        assert isinstance(cache.get(content_key(str(number))), Miss)
    (record,) = logged.records
    assert str(cache.root) in record.getMessage() and "damaged: " in record.getMessage()


def test_compiles_share_one_cache_for_a_folder(tmp_path: Path) -> None:
    assert open_cache(tmp_path) is open_cache(tmp_path) is not open_cache(tmp_path / "other")


def test_an_entry_under_another_entrys_name_is_damage(cache: Cache) -> None:
    cache.put(KEY, PAYLOAD)
    other = content_key("other")
    cache.put(other, b"other")
    assert cache.root is not None
    shutil.copy(cache.root / KEY[:2] / f"{KEY}.entry", cache.root / other[:2] / f"{other}.entry")
    result = cache.get(other)
    assert isinstance(result, Miss) and result.reason.endswith(f"{other}.entry is damaged: checksum differs")


def test_an_entry_of_another_version_is_left_for_it(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, PAYLOAD)
    monkeypatch.setattr(cuesta.cache, "_VERSION", 2)
    assert cache.get(KEY) == Miss("made by another version: format 1, not 2")
    monkeypatch.undo()
    assert cache.get(KEY) == Hit(PAYLOAD)


def test_a_folder_that_cannot_be_is_reported_and_warned_of_once(tmp_path: Path, logged: Kept) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = Cache(tmp_path / "file" / "cache")
    assert cache.get(KEY) == NO_ENTRY
    assert not cache.put(KEY, PAYLOAD) and not cache.put(KEY, PAYLOAD)
    assert cache.failure is not None and "cannot be written" in cache.failure
    assert not Cache(tmp_path / "file").put(KEY, PAYLOAD)
    first, second = logged.records
    assert (first.name, first.levelno) == ("cuesta.cache", logging.WARNING)
    assert second.getMessage().endswith(f"{tmp_path / 'file'} is a file, not a folder")
    cache.clear()
    assert cache.size() == 0


def test_a_full_disk_leaves_nothing_behind(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    assert not cache.put(KEY, PAYLOAD)
    assert cache.failure is not None and "No space left on device" in cache.failure
    assert files(cache) == []
    monkeypatch.undo()
    assert cache.put(KEY, PAYLOAD) and cache.get(KEY) == Hit(PAYLOAD)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_disk_that_fills_during_the_write(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, b"before")
    make = tempfile.mkstemp

    def make_full(suffix: str, dir: Path) -> tuple[int, str]:
        descriptor, name = make(suffix=suffix, dir=dir)
        os.dup2(os.open("/dev/full", os.O_WRONLY), descriptor)
        return descriptor, name

    monkeypatch.setattr(tempfile, "mkstemp", make_full)
    assert not cache.put(KEY, PAYLOAD)
    assert cache.get(KEY) == Hit(b"before") and len(files(cache)) == 1


def test_an_unreadable_entry_is_a_miss(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path, flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    cache.put(KEY, PAYLOAD)
    monkeypatch.setattr(os, "open", denied)
    result = cache.get(KEY)
    assert isinstance(result, Miss) and result.reason.startswith("not readable: [Errno 13]")


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_link_without_end(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("make", [make_fifo, make_link_without_end, make_link_to_itself])
def test_an_entry_that_is_no_regular_file_is_made_anew(cache: Cache, make: Callable[[Path], None]) -> None:
    cache.put(KEY, PAYLOAD)
    path = entry(cache)
    path.unlink()
    make(path)
    result = cache.get(KEY)
    assert isinstance(result, Miss) and result.reason.endswith("only a regular file is read")
    assert cache.put(KEY, PAYLOAD) and cache.get(KEY) == Hit(PAYLOAD)


def test_an_entry_above_the_limit_is_not_read(cache: Cache) -> None:
    cache.put(KEY, PAYLOAD)
    os.truncate(entry(cache), 1 << 40)
    result = cache.get(KEY)
    assert isinstance(result, Miss) and f"holds {1 << 40} bytes; at most {cache.limit} are read" in result.reason
    assert files(cache) == []


def test_an_entry_that_others_may_write_is_made_anew(cache: Cache, logged: Kept) -> None:
    cache.put(KEY, PAYLOAD)
    entry(cache).chmod(0o666)
    result = cache.get(KEY)
    assert isinstance(result, Miss) and "may be written by everybody" in result.reason
    assert cache.put(KEY, PAYLOAD) and cache.get(KEY) == Hit(PAYLOAD)
    (record,) = logged.records
    assert f"compiled again: {entry(cache)} may be written by everybody" in record.getMessage()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that another user owns")
def test_an_entry_of_another_user_is_made_anew(cache: Cache) -> None:
    cache.put(KEY, PAYLOAD)
    os.chown(entry(cache), 54321, -1)
    result = cache.get(KEY)
    assert isinstance(result, Miss) and "belongs to user 54321" in result.reason
    assert cache.put(KEY, PAYLOAD) and cache.get(KEY) == Hit(PAYLOAD)


@pytest.mark.parametrize("below", ["", KEY[:2]], ids=["the folder", "a folder in it"])
def test_a_folder_that_others_may_write_is_left_out_with_one_warning(cache: Cache, below: str, logged: Kept) -> None:
    cache.put(KEY, PAYLOAD)
    assert cache.root is not None
    folder = cache.root / below
    folder.chmod(0o777)
    before = entry(cache).stat()
    for _ in range(2):
        result = cache.get(KEY)
        assert isinstance(result, Miss)
        assert f": {folder} may be written by everybody" in result.reason
        assert not cache.put(KEY, b"other") and cache.failure == result.reason
    assert entry(cache).stat() == before
    (record,) = logged.records
    assert "`chmod go-w` mends it" in record.getMessage() and "CUESTA_CACHE_DIR" in record.getMessage()
    folder.chmod(0o700)
    assert cache.get(KEY) == Hit(PAYLOAD)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder that another user owns")
def test_a_folder_of_another_user_is_left_out(cache: Cache) -> None:
    cache.put(KEY, PAYLOAD)
    assert cache.root is not None
    os.chown(cache.root, 54321, -1)
    result = cache.get(KEY)
    assert isinstance(result, Miss) and "belongs to user 54321, who could put any code there" in result.reason
    assert not cache.put(KEY, PAYLOAD)


def test_a_folder_that_may_only_be_read_is_read(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: object, *arguments: object) -> None:
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS))

    cache.put(KEY, PAYLOAD)
    monkeypatch.setattr(os, "utime", denied)
    monkeypatch.setattr(os, "unlink", denied)
    assert cache.get(KEY) == Hit(PAYLOAD)


def test_the_entries_used_longest_ago_go_first(cache: Cache) -> None:
    keys = [content_key(str(number)) for number in range(10)]
    for age, key in enumerate(reversed(keys)):
        assert cache.put(key, PAYLOAD)
        assert cache.root is not None
        used = time.time() - 1000 + age
        os.utime(cache.root / key[:2] / f"{key}.entry", (used, used))
    assert cache.get(keys[9]) == Hit(PAYLOAD)  # the oldest, used again
    each = cache.size() // 10
    cache.prune(3 * each)
    assert [key for key in keys if cache.get(key) == Hit(PAYLOAD)] == [keys[0], keys[1], keys[9]]
    assert cache.size() == 3 * each


def test_the_limit_holds_after_every_put(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=5 * len(PAYLOAD))
    for number in range(30):
        assert cache.put(content_key(str(number)), PAYLOAD)
        assert cache.size() <= cache.limit
    assert cache.get(content_key("29")) == Hit(PAYLOAD)
    assert not cache.put(KEY, PAYLOAD * 6)
    assert cache.failure is not None and "limit" in cache.failure


def test_what_dead_processes_left_is_removed_and_what_live_ones_write_is_not(cache: Cache) -> None:
    cache.put(KEY, PAYLOAD)
    dead, live = (entry(cache).with_name(name) for name in ("dead.tmp", "live.tmp"))
    for path in (dead, live):
        path.write_bytes(b"half")
    os.utime(dead, (time.time() - 7200,) * 2)
    cache.prune(cache.limit)
    assert not dead.exists() and live.exists() and cache.get(KEY) == Hit(PAYLOAD)


def test_what_dead_processes_left_counts(cache: Cache) -> None:
    cache.put(KEY, PAYLOAD)
    whole = cache.size()
    entry(cache).with_name("dead.tmp").write_bytes(b"half" * 1000)
    assert cache.size() == whole + 4000
    cache.prune(whole + 3999)
    assert cache.get(KEY) == NO_ENTRY and cache.size() == 4000


def test_a_temporary_file_goes_when_its_process_is_killed(tmp_path: Path) -> None:
    script = """if True:
        import os, sys, time
        from pathlib import Path
        from cuesta.cache import Cache
        def stop(*paths):
            print("written", flush=True)
            time.sleep(600)
        os.replace = stop
        Cache(Path(sys.argv[1])).put(sys.argv[2], b"half")
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, str(tmp_path), KEY]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None and process.stdout.readline() == "written\n"
    cache = Cache(tmp_path)
    left = entry(cache)
    os.utime(left, (time.time() - 60,) * 2)  # a file of this moment may not be locked yet, and is left alone
    cache.prune(cache.limit)
    assert files(cache) == [left]  # its process lives
    process.kill()
    process.communicate()
    cache.prune(cache.limit)
    assert files(cache) == []


def test_clear_removes_entries_and_nothing_else(cache: Cache) -> None:
    cache.put(KEY, PAYLOAD)
    assert cache.root is not None
    others = [cache.root / "notes.txt", cache.root / "thesis" / "a.entry", cache.root / KEY[:2] / "b.txt"]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    cache.clear()
    assert files(cache) == sorted(others) and cache.size() == 0


def test_two_processes_put_one_key(tmp_path: Path) -> None:
    script = """if True:
        import sys
        from pathlib import Path
        from cuesta.cache import NO_ENTRY, Cache, Hit
        cache, key, payload = Cache(Path(sys.argv[1])), sys.argv[2], bytes(range(256)) * 400
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(200):
            assert cache.put(key, payload), cache.failure
            assert cache.get(key) == Hit(payload)
    """
    command = [sys.executable, "-c", script, str(tmp_path), KEY]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0, 0]
    assert len(files(Cache(tmp_path))) == 1


def test_threads_put_and_prune_one_cache(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=3 * len(PAYLOAD))
    results: list[bool] = []

    def work(name: str) -> None:
        results.extend(cache.put(content_key(name, str(number)), PAYLOAD) for number in range(50))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 200, cache.failure


def test_content_key_tells_cuts_and_types_apart() -> None:
    cuts: list[list[str | bytes]] = [["ab", "c"], ["a", "bc"], ["abc"], [b"abc"], ["abc", ""], [], [""]]
    keys = [content_key(*parts) for parts in cuts]
    assert len(set(keys)) == len(keys)
    assert content_key("graph", b"\xff", "\ud800") == content_key("graph", b"\xff", "\ud800")
    assert all(len(key) == 64 for key in keys)


def test_environment_key_is_one_value() -> None:
    assert environment_key() == environment_key()
    assert len(environment_key()) == 64


def test_environment_key_follows_the_sources_not_their_names_or_times(tmp_path: Path) -> None:
    def sources(text: str) -> str:
        shutil.rmtree(tmp_path / "package", ignore_errors=True)
        (tmp_path / "package").mkdir()
        (tmp_path / "linked").mkdir(exist_ok=True)
        (tmp_path / "package" / "passes").symlink_to("../linked")
        (tmp_path / "linked" / "fold.py").write_text(text)
        (tmp_path / "package" / ".#open_in_an_editor.py").symlink_to("me@host.1234")
        return cuesta.cache._sources(tmp_path / "package")

    assert sources("x = 1") == sources("x = 1") != sources("x = 2")


def test_environment_key_follows_the_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    before = environment_key()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "another")
    environment_key.cache_clear()
    assert environment_key() != before
    monkeypatch.undo()
    environment_key.cache_clear()
    assert environment_key() == before


def test_default_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert default_root({"CUESTA_CACHE_DIR": "", "XDG_CACHE_HOME": "/x"}) is None
    assert default_root({"CUESTA_CACHE_DIR": "/tmp/c", "XDG_CACHE_HOME": "/x"}) == Path("/tmp/c")
    assert default_root({"CUESTA_CACHE_DIR": "~/c"}) == Path("/home/me/c")
    assert default_root({"CUESTA_CACHE_DIR": "c"}) == Path.cwd() / "c"
    assert default_root({"XDG_CACHE_HOME": "/x"}) == Path("/x/cuesta")
    assert default_root({"XDG_CACHE_HOME": "relative"}) == Path("/home/me/.cache/cuesta")
    assert default_root({}) == Path("/home/me/.cache/cuesta")
    with pytest.raises(OptionError, match=r"CUESTA_CACHE_DIR names no folder: '~nosuchuser/x'"):
        default_root({"CUESTA_CACHE_DIR": "~nosuchuser/x"})
