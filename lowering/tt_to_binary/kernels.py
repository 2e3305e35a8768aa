"""Compiles many kernels at once: looks up known ones, and sends the others to the pool, the longest text first.

warm_up(target)                                    early: starts the process that forks workers, and returns at once
compiling = start_compiling(texts, target, cache)  returns at once too
binaries = compiling.binaries()                    waits
"""

from __future__ import annotations

import functools
import os
import subprocess
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from cuesta.cache import Cache, Hit, content_key
from cuesta.errors import CompileError
from cuesta.lowering.tt_to_binary import triton_versions
from cuesta.lowering.tt_to_binary.kernel import KernelBinary, KernelText
from cuesta.lowering.tt_to_binary.pool import Pool
from cuesta.options import Environment
from cuesta.reports import progress
from cuesta.reports.progress import Progress
from cuesta.reports.quantities import count_text
from cuesta.targets import Target

#: Modules whose source affects the binaries.
_SOURCES = ("compile", "device_libraries", "kernel", "triton_versions")

_REMEMBERED = 512  # kernels, some ten megabytes; the disk has the rest

#: Prefixes of environment variables that configure Triton, LLVM and ptxas, and those that only say where files go.
_SWITCHES = ("TRITON_", "AMDGCN_", "MLIR_", "LLVM_", "NVPTX_", "PTXAS_", "DISABLE_")
_PLACES = {"TRITON_HOME", "TRITON_CACHE_DIR", "TRITON_DUMP_DIR", "TRITON_OVERRIDE_DIR"}


class _State:
    """State that lasts from one compile to the next in this process. A forked child starts with an empty state."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pools: dict[str | None, Pool] = {}
        self.known: OrderedDict[str, Future[KernelBinary]] = OrderedDict()

    def pool(self, python: str | None) -> Pool:
        with self.lock:
            if python not in self.pools:
                self.pools[python] = Pool(python)
            return self.pools[python]

    def drop_pool(self, pool: Pool) -> None:
        with self.lock:
            self.pools = {python: other for python, other in self.pools.items() if other is not pool}
        pool.end()


_state = _State()


def _forget() -> None:
    global _state  # a child must not use the parent's pipes
    _state = _State()


os.register_at_fork(after_in_child=_forget)


def warm_up(target: Target) -> None:
    """Starts the process that forks those that compile kernels for `target`, and does not wait for it.

    Raises CompileError where there is no Triton, or one that cuesta does not work with.
    """
    _version(target)
    _state.pool(_python(target)).warm_up()


def compile_kernels(
    kernels: Sequence[KernelText], target: Target, cache: Cache | None = None, *, keep_assembly: bool = False
) -> list[KernelBinary]:
    """The binaries of `kernels`, in their order. `cache` keeps them on disk; None keeps them in this process only.

    Raises the CompileError of the first kernel that failed, once all others are compiled and kept.
    """
    return start_compiling(kernels, target, cache, keep_assembly=keep_assembly).binaries()


def start_compiling(
    kernels: Sequence[KernelText], target: Target, cache: Cache | None = None, *, keep_assembly: bool = False
) -> Compiling:
    """Begins what `compile_kernels` does, and returns at once.

    Raises CompileError where there is no Triton, or one that cuesta does not work with.
    """
    version = _version(target)
    start = time.monotonic()
    futures: dict[str, Future[KernelBinary]] = {}
    keys = [_key(kernel, target, version, keep_assembly) for kernel in kernels]
    jobs: dict[str, KernelText] = {}
    for key, kernel in zip(keys, kernels, strict=True):
        if key not in futures:
            futures[key], new = _known_or_new(key, cache)
            if new:
                jobs[key] = kernel
    pool = _state.pool(_python(target)) if jobs else None
    if pool is not None:
        threads = ThreadPoolExecutor(min(pool.size, len(jobs)), "cuesta-triton")
        for key, kernel in sorted(jobs.items(), key=lambda job: -len(job[1].text)):
            threads.submit(_compile, pool, kernel, str(target), keep_assembly, key, futures[key], cache)
        threads.shutdown(wait=False)
    return Compiling([futures[key] for key in keys], [kernel.name for kernel in kernels], pool, start)


@dataclass(frozen=True)
class Compiling:
    """Kernels that are being compiled."""

    _futures: list[Future[KernelBinary]]
    _names: list[str]
    _pool: Pool | None
    _start: float

    def binaries(self) -> list[KernelBinary]:
        """The binaries, in the kernels' order. Raises the CompileError of the first kernel that failed."""
        outcomes = self.outcomes()
        for outcome in outcomes:
            if isinstance(outcome, CompileError):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, KernelBinary)]

    def outcomes(self) -> list[KernelBinary | CompileError]:
        """A binary or an error for each kernel. Waits for all, and reports progress on stderr."""
        try:
            self._wait()
        except BaseException:  # Ctrl-C, mostly: nobody waits for the rest
            if self._pool is not None:
                _state.drop_pool(self._pool)
            raise
        return [_outcome(future, name) for future, name in zip(self._futures, self._names, strict=True)]

    def _wait(self) -> None:
        waiting = set(self._futures)
        total = len(waiting)
        said = Progress(self._start)
        while waiting:
            waiting = wait(waiting, timeout=progress.QUIET / 3, return_when=FIRST_COMPLETED).not_done
            if waiting:
                said.tell(f"{total - len(waiting)} of {count_text(total, 'kernel')} compiled")


def _outcome(future: Future[KernelBinary], name: str) -> KernelBinary | CompileError:
    try:
        return future.result()
    except CompileError as error:
        return error


def _known_or_new(key: str, cache: Cache | None) -> tuple[Future[KernelBinary], bool]:
    """The future of the binary of `key`, and whether the caller has to compile it."""
    with _state.lock:
        if key in _state.known:
            _state.known.move_to_end(key)
            return _state.known[key], False
        future = _state.known[key] = Future()
        while len(_state.known) > _REMEMBERED:
            _state.known.popitem(last=False)
    found = cache.get(key) if cache is not None else None
    if isinstance(found, Hit):
        try:
            future.set_result(KernelBinary.from_bytes(found.payload))
            return future, False
        except ValueError:
            pass
    return future, True


def _compile(
    pool: Pool,
    kernel: KernelText,
    target: str,
    keep_assembly: bool,
    key: str,
    future: Future[KernelBinary],
    cache: Cache | None,
) -> None:
    try:
        binary = pool.compile(kernel, target, keep_assembly)
    except BaseException as error:
        with _state.lock:
            _state.known.pop(key, None)  # so that a later request tries again
        future.set_exception(error)
        return
    if cache is not None:
        cache.put(key, binary.to_bytes())
    future.set_result(binary)


def _key(kernel: KernelText, target: Target, version: str, keep_assembly: bool) -> str:
    return content_key(
        "kernel",
        kernel.name,
        kernel.text,
        str(kernel.warps),
        str(kernel.stages),
        str(target),
        version,
        str(keep_assembly),
        _surroundings(),
    )


@functools.cache
def _surroundings() -> str:
    """Further inputs of every binary: the sources that call Triton, and the environment that workers start with."""
    switches = sorted(
        f"{name}={value}" for name, value in os.environ.items() if name.startswith(_SWITCHES) and name not in _PLACES
    )
    folder = Path(__file__).parent
    return content_key(*switches, *(folder.joinpath(f"{name}.py").read_bytes() for name in _SOURCES))


def _python(target: Target) -> str | None:
    """The interpreter for workers; None for this one. Intel's Triton has the same package name as Triton."""
    return Environment.read().xpu_python if target.kind == "xpu" else None


def _version(target: Target) -> str:
    """The version of Triton that workers will import. Raises CompileError if cuesta does not work with it."""
    python = _python(target)
    version = triton_versions.installed_version() if python is None else _version_of(python)
    triton_versions.check_version(version, target)
    return version


@functools.cache
def _version_of(python: str) -> str:
    ask = "import importlib.metadata as m; print(m.version('triton-xpu'))"
    try:
        done = subprocess.run([python, "-P", "-c", ask], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CompileError(f"CUESTA_XPU_PYTHON={python} cannot be run: {error.strerror}") from None
    return done.stdout.strip()
