"""The keys under which AOTAutogradCache keeps what it makes of graphs for cuesta, without what is Inductor's alone.

torch's key loads all of Inductor's code generators, which register themselves, to ask them for their custom passes, and
hashes the sources of Triton: more than a second of every process. No code generator of Inductor's has a part in what
cuesta compiles, and of Triton and the GPU the names are enough.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
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


@contextlib.contextmanager
def keys_of_ours(*parts: str) -> Iterator[None]:
    """Within it torch's keys are made of its graphs and settings, and of `parts`."""
    tag = f"{torch.compiler.config.cache_key_tag} cuesta {content_key(*parts, *_machine())}"
    present = {name: value for name, value in _INDUCTORS_OWN.items() if hasattr(codecache, name)}
    with (
        torch.compiler.config.patch(cache_key_tag=tag),  # type: ignore[attr-defined]
        mock.patch.multiple(codecache, **present),
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
