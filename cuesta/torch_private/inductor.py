"""Names what cuesta shares with Inductor: the key of AOTAutograd's cache, and the base of what that cache keeps.

Loads torch._inductor.codecache, which AOTAutograd loads too, and none of Inductor's code generators.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from torch._inductor import codecache
from torch._inductor import config as settings

# The base of what AOTAutograd's cache keeps and loads. Without it, a warm process runs AOTAutograd again.
from torch._inductor.output_code import OutputCode as OutputCode

#: Names in torch's module → their replacements while a key is made. Not every version of torch has all of them.
_INDUCTORS_OWN: dict[str, Any] = {
    "init_backend_registration": lambda: None,
    "custom_backend_passes": {},
    "custom_backend_codegen_configs": {},
}

#: torch's own function, which reads all of torch's sources. Without it, nothing tells a torch whose installation says
#: nothing of its files from another of the same version.
key_of_sources: Callable[[], bytes] = codecache.torch_key

_GENERATOR, _SOURCE_OF_KERNEL = (
    "torch._inductor.codegen.wrapper",
    "user_defined_triton_kernel_transitive_closure_source_code",
)


@contextlib.contextmanager
def keys_without_inductors(torch_key: Callable[[], bytes]) -> Iterator[None]:
    """A context in which the keys of AOTAutograd's cache hold nothing of Inductor's, and `torch_key()` for torch.
    Without it, each process loads all of Inductor's code generators to make its first key."""
    present = {name: value for name, value in _INDUCTORS_OWN.items() if hasattr(codecache, name)}
    present["torch_key"] = torch_key
    with (
        mock.patch.multiple(codecache, **present),
        _without_generator(),
        _without_choices(),
        mock.patch.object(codecache.CacheBase, "get_system", staticmethod(lambda: {"hash": "in cuesta's tag"})),
    ):
        yield


def files_of_torchs_log() -> contextlib.AbstractContextManager[Any]:
    """A context in which AOTAutograd's log goes to files, for TORCH_COMPILE_DEBUG. Without it, there are no such files.
    Loads Inductor's scheduler."""
    from torch._inductor.debug import enable_aot_logging

    logged: contextlib.AbstractContextManager[Any] = enable_aot_logging()
    return logged


def missing_compiler() -> Exception | None:
    """Why Inductor finds no C++ compiler, or None if it finds one. Without it, the benchmark fails at Inductor's first
    case instead of leaving Inductor out."""
    from torch._inductor import cpp_builder, exc

    try:
        cpp_builder.get_cpp_compiler()
    except (exc.InvalidCxxCompiler, RuntimeError) as error:
        return error
    return None


@contextlib.contextmanager
def _without_choices() -> Iterator[None]:
    """A context in which the setting that names a class for Inductor's choices is no part of a key: since 2.15, torch
    loads Inductor's scheduler and templates to ask that class for its key."""
    name = "_cache_config_serializer"
    values = vars(settings)  # the module itself lets nobody set what is no setting
    if name not in values:
        yield
        return
    torchs = values[name]
    values[name] = lambda config: config.update(inductor_choices_class=None)
    try:
        yield
    finally:
        values[name] = torchs


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
