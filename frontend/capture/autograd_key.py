"""Makes the keys of AOTAutogradCache's entries for cuesta, without the parts that only Inductor needs.

torch's key loads all of Inductor's code generators, to ask them for their custom passes, and hashes the sources of
Triton: more than a second of every process. cuesta uses no code generator of Inductor's, and Triton's version and the
GPU's name are enough. torch's key also reads torch's own sources, 50 MB, where cuesta's takes the digests that the
installer noted, and loads the generator of Python code for one function that takes users' Triton kernels: a tenth of a
second each.
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

#: Names in torch's module → their replacements while a key is made. Not every version of torch has all of them.
_INDUCTORS_OWN: dict[str, Any] = {
    "init_backend_registration": lambda: None,
    "custom_backend_passes": {},
    "custom_backend_codegen_configs": {},
}

#: torch's own function, which reads all of torch's sources.
_READ_ALL = codecache.torch_key
_GENERATOR, _SOURCE_OF_KERNEL = (
    "torch._inductor.codegen.wrapper",
    "user_defined_triton_kernel_transitive_closure_source_code",
)


@contextlib.contextmanager
def keys_of_ours(*parts: str) -> Iterator[None]:
    """A context in which torch makes its keys from its graphs and settings, and from `parts`."""
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
    """The properties of the machine that torch's description of the system distinguishes."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    try:
        triton = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        triton = ""
    return [gpu, str(torch.version.cuda), str(torch.version.hip), triton]


@functools.cache
def _torch_key() -> bytes:
    """Replaces torch's key of the contents of its sources by a key of their digests at installation. The key is the
    same on another machine, so that cache entries can be moved there."""
    digests = _installed_digests()
    return _READ_ALL() if digests is None else content_key(str(torch.version.git_version), *digests).encode()


def _installed_digests() -> list[str] | None:
    """The lines of torch's Python files in the RECORD that its installer wrote; None where there is no RECORD, or where
    a file has changed since."""
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
    """The modification times, in ns, of the Python files of a package and of its subpackages."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.stat().st_mtime_ns
            elif entry.is_dir() and os.path.exists(os.path.join(entry.path, "__init__.py")):
                yield from _changes(entry.path)


@contextlib.contextmanager
def _without_generator() -> Iterator[None]:
    """A context in which importing torch's generator of Python code loads it only when one of its functions is used."""
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
