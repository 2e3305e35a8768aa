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
from collections.abc import Iterator

import torch

from cuesta.cache import content_key
from cuesta.distributions import version_of
from cuesta.torch_private.inductor import key_of_sources, keys_without_inductors

#: torch's own function, which reads all of torch's sources.
_READ_ALL = key_of_sources


@contextlib.contextmanager
def keys_of_ours(*parts: str) -> Iterator[None]:
    """A context in which torch makes its keys from its graphs and settings, and from `parts`."""
    tag = f"{torch.compiler.config.cache_key_tag} cuesta {content_key(*parts, *_machine())}"
    with (
        torch.compiler.config.patch(cache_key_tag=tag),  # type: ignore[attr-defined]
        keys_without_inductors(_torch_key),
    ):
        yield


def _machine() -> list[str]:
    """The properties of the machine that torch's description of the system distinguishes."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return [gpu, str(torch.version.cuda), str(torch.version.hip), version_of("triton") or ""]


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
