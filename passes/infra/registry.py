"""Registers cuesta's passes by name, and imports them when they are first asked for: the pass `limit-stack` is in a
module of that name, `limit_stack`, in a folder of passes/ or lowering/, or is such a folder.

A pass is a frozen dataclass whose fields are its options; a pass without options needs no `@dataclass` of its own.

@register_pass("limit-stack")
@dataclass(frozen=True)
class LimitStack(Pass):
    bytes: int = 1 << 20                # limit-stack{bytes=4096}

    def run(self, module: ir.Module) -> None: ...
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, TypeVar

from cuesta._mlir import ir
from cuesta.errors import PipelineError


@dataclasses.dataclass(frozen=True)
class Pass:
    """Rewrites a module in place. Stateless: every option is a field."""

    name: ClassVar[str]

    def run(self, module: ir.Module) -> None:
        raise NotImplementedError


_PASSES: dict[str, type[Pass]] = {}
P = TypeVar("P", bound=type[Pass])


def register_pass(name: str) -> Callable[[P], P]:
    """Enters a pass class under a kebab-case name; the same name twice is an error."""

    def enter(cls: P) -> P:
        if name in _PASSES:
            raise PipelineError(f"the pass name {name!r} is already taken by {_PASSES[name].__qualname__}")
        cls.name = name
        _PASSES[name] = cls
        return cls

    return enter


def find_pass(name: str) -> type[Pass] | None:
    """The pass class registered as `name`, or None where the name is not ours (upstream's, or wrong)."""
    if name not in _PASSES:
        for module in _modules().get(name.replace("-", "_"), ()):
            importlib.import_module(module)
    return _PASSES.get(name)


def all_passes() -> dict[str, type[Pass]]:
    """Every pass, by name."""
    for modules in _modules().values():
        for module in modules:
            importlib.import_module(module)
    return dict(sorted(_PASSES.items()))


@functools.cache
def _modules() -> dict[str, list[str]]:
    """A module's own name → its full name, or those of several; not all have passes."""
    found: dict[str, list[str]] = {}
    for room in ("passes", "lowering"):
        for name in _modules_of(Path(__file__).parents[2] / room, f"cuesta.{room}"):
            found.setdefault(name.rpartition(".")[2], []).append(name)
    return found


def _modules_of(folder: Path, package: str) -> Iterator[str]:
    for module in pkgutil.iter_modules([str(folder)]):
        yield f"{package}.{module.name}"
        if module.ispkg:
            yield from _modules_of(folder / module.name, f"{package}.{module.name}")


def make_pass(name: str, options: dict[str, str]) -> Pass:
    """Builds the pass `name` from textual options, as a pipeline gives them.

    Raises PipelineError for an unknown pass, an unknown option, or a value of the wrong type.
    """
    cls = find_pass(name)
    if cls is None:
        raise PipelineError(f"no pass named {name!r}; the passes are {', '.join(all_passes())}")
    fields = {f.name.replace("_", "-"): f for f in dataclasses.fields(cls)}
    values: dict[str, object] = {}
    for key, text in options.items():
        field = fields.get(key)
        if field is None:
            known = ", ".join(sorted(fields)) or "none"
            raise PipelineError(f"pass {name!r} has no option {key!r}; its options: {known}")
        values[field.name] = _parse_option(name, key, str(field.type), text)
    return cls(**values)


def spelled(own: Pass) -> str:
    """A pass as pipeline text: its name, and the options that are not as by default. `make_pass` reads it again."""
    given = [(f.name, getattr(own, f.name)) for f in dataclasses.fields(own) if getattr(own, f.name) != f.default]
    options = [f"{name.replace('_', '-')}={str(v).lower() if isinstance(v, bool) else v}" for name, v in given]
    return f"{own.name}{{{' '.join(options)}}}" if options else own.name


def _parse_option(pass_name: str, key: str, type_name: str, text: str) -> object:
    try:
        if type_name == "bool":
            return {"true": True, "1": True, "false": False, "0": False}[text]
        if type_name == "int":
            return int(text)
        if type_name == "float":
            return float(text)
    except (KeyError, ValueError):
        raise PipelineError(f"option {key!r} of pass {pass_name!r} takes a {type_name}, got {text!r}") from None
    return text
