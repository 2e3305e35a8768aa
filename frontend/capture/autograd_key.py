"""The keys under which AOTAutogradCache keeps what it makes of graphs for cuesta, without what is Inductor's alone.

torch's key loads all of Inductor's code generators, which register themselves, to ask them for their custom passes, and
hashes the sources of Triton: more than a second of every process. No code generator of Inductor's has a part in what
cuesta compiles, and of Triton and the GPU the names are enough. It reads torch's own sources as well, 50 MB,
where ours asks what installed them, and loads the generator of Python code for a function that users' kernels in Triton
are given to: a tenth of a second each.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import os
import sys
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch._inductor import codecache

from cuesta.cache import content_key

#: Names in torch's module, and what they are meanwhile; each torch has its own set.
_INDUCTORS_OWN: dict[str, Any] = {
    "init_backend_registration": lambda: None,
    "custom_backend_passes": {},
    "custom_backend_codegen_configs": {},
}

#: torch's own, which reads them all.
_READ_ALL = codecache.torch_key
_GENERATOR, _SOURCE_OF_KERNEL = (
    "torch._inductor.codegen.wrapper",
    "user_defined_triton_kernel_transitive_closure_source_code",
)


@contextlib.contextmanager
def keys_of_ours(*parts: str) -> Iterator[None]:
    """Within it torch's keys are made of its graphs and settings, and of `parts`."""
    tag = f"{torch.compiler.config.cache_key_tag} cuesta {content_key(*parts, *_machine())}"
    present = {name: value for name, value in _INDUCTORS_OWN.items() if hasattr(codecache, name)}
    present["torch_key"] = _torch_key
    with (
        torch.compiler.config.patch(cache_key_tag=tag),  # type: ignore[attr-defined]
        mock.patch.multiple(codecache, **present),
        _without_generator(),
        mock.patch.object(codecache.CacheBase, "get_system", staticmethod(lambda: {"hash": "in cuesta's tag"})),
    ):
        yield


def _machine() -> list[str]:
    """What torch's description of the system tells apart."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    try:
        triton = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        triton = ""
    return [gpu, str(torch.version.cuda), str(torch.version.hip), triton]


@functools.cache
def _torch_key() -> bytes:
    """In the place of what torch makes of the contents of its sources: of their digests, as they were installed. It is
    the same on another machine, which may be given what torch has kept here."""
    digests = _installed_digests()
    return _READ_ALL() if digests is None else content_key(str(torch.version.git_version), *digests).encode()


def _installed_digests() -> list[str] | None:
    """The line of each of torch's Python files in what its installer noted; None where it noted none, or a file has
    changed since."""
    try:
        torchs = importlib.metadata.distribution("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
    record = torchs.locate_file(f"torch-{torchs.version}.dist-info/RECORD")
    package = os.path.dirname(torch.__file__)
    try:
        noted = os.stat(str(record)).st_mtime_ns
        lines = (torchs.read_text("RECORD") or "").splitlines()
    except OSError:
        return None
    if str(torchs.locate_file("torch")) != package or any(changed > noted for changed in _changes(package)):
        return None
    return sorted(line for line in lines if line.startswith("torch/") and ".py,sha256=" in line) or None


def _changes(folder: str) -> Iterator[int]:
    """When each Python file of a package, and of those in it, was last changed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.stat().st_mtime_ns
            elif entry.is_dir() and os.path.exists(os.path.join(entry.path, "__init__.py")):
                yield from _changes(entry.path)


@contextlib.contextmanager
def _without_generator() -> Iterator[None]:
    """Within it torch's generator of Python code is loaded when something of it is called, not when it is named."""
    if _GENERATOR in sys.modules:
        yield
        return

    def read_all() -> Any:
        if sys.modules.get(_GENERATOR) is stand_in:
            del sys.modules[_GENERATOR]
        return importlib.import_module(_GENERATOR)

    def read(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == _SOURCE_OF_KERNEL:
            return lambda kernel: getattr(read_all(), name)(kernel)
        return getattr(read_all(), name)

    stand_in = types.ModuleType(_GENERATOR)
    vars(stand_in)["__getattr__"] = read
    sys.modules[_GENERATOR] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(_GENERATOR) is stand_in:
            del sys.modules[_GENERATOR]
