"""Reads pytree specs, as `pytree.treespec_dumps` writes them, from a file that is not trusted.

torch's own reader imports the modules that the text names: those of enumerations among a dict's keys, and those of a
defaultdict's factory. Here the text is checked first, and may name only what this process has registered or imported
already.
"""

from __future__ import annotations

import collections
import enum
import inspect
import json
import sys
from typing import Annotated, Any, TypedDict

import torch

from cuesta.errors import ArtefactError
from cuesta.runtime.schema.checks import Wrong, check_of, refusing, text
from cuesta.torch_private import pytree

#: Factories that a defaultdict may have, besides registered containers.
_FACTORIES = frozenset({bool, int, float, complex, str, bytes, list, dict, set, tuple})
_UNKNOWN = "a container that this process does not know; import the library that defines it"


def _anything(value: Any) -> None:
    pass


class _Node(TypedDict):
    """A container, or a leaf, whose type and context are null."""

    type: str | None
    context: Annotated[Any, _anything]
    children_spec: list[Annotated[Any, _anything]]


class _Enumerated(TypedDict):
    """A member of an enumeration; `fqn` is module:class."""

    __enum__: bool
    fqn: str
    name: str


class _Factory(TypedDict):
    """The context of a defaultdict."""

    default_factory_module: str
    default_factory_name: str
    dict_context: Annotated[Any, _anything]


_check_node = check_of(_Node)
_check_enumerated = check_of(_Enumerated)
_check_factory = check_of(_Factory)


def read_treespec(spelled: str, name: str) -> pytree.TreeSpec:
    """The spec of a text. Raises ArtefactError, whose message begins with `name`, for a text that is no spec, or that
    names containers that this process does not know."""
    try:
        document = json.loads(spelled)
    except (ValueError, RecursionError) as problem:
        raise ArtefactError(f"{name}: no JSON: {problem}") from None
    with refusing(name):
        if type(document) is not list or len(document) != 2 or type(document[0]) is not int:
            raise Wrong(document, "a list of a format's number and a tree is valid")
        _check_tree(document[1])
    try:
        return pytree.treespec_loads(spelled)
    except Exception as problem:  # a library's own reader may raise anything
        raise ArtefactError(f"{name}: torch does not read it: {problem!r}") from problem


def _check_tree(node: Any) -> None:
    _check_node(node)
    if node["type"] is None:
        if node["context"] is not None or node["children_spec"]:
            raise Wrong(node, "a leaf has no context and no children")
        return
    kind = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(node["type"])
    if kind is None or node["type"] == pytree.NO_SERIALIZED_TYPE_NAME_FOUND:
        raise Wrong(node["type"], _UNKNOWN).within(".type")
    try:
        _check_context(kind, node)
    except Wrong as wrong:
        raise wrong.within(".context") from None
    for number, child in enumerate(node["children_spec"]):
        try:
            _check_tree(child)
        except Wrong as wrong:
            raise wrong.within(f".children_spec[{number}]") from None


def _check_context(kind: Any, node: dict[str, Any]) -> None:
    context, count = node["context"], len(node["children_spec"])
    if kind is collections.namedtuple:
        _check_named(context, count)
    elif kind is collections.defaultdict:
        _check_factory(context)
        _check_made_by(context["default_factory_module"], context["default_factory_name"])
        _check_keys(context["dict_context"], count)
    elif pytree.SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context is None:
        text(context)
        try:
            read = json.loads(context)
        except ValueError:
            raise Wrong(context, "a text of JSON is valid") from None
        _check_plain_context(kind, read, count)
    # The other containers were registered with a reader of their library's.


def _check_plain_context(kind: Any, context: Any, count: int) -> None:
    _check_enumerations(context)
    if issubclass(kind, dict):
        _check_keys(context, count)
    elif kind is collections.deque:
        if context is not None and (type(context) is not int or context < count):
            raise Wrong(context, "null or a length is valid")
    elif kind in (tuple, list, torch.Size) and context is not None:
        raise Wrong(context, "null is valid")


def _check_keys(context: Any, count: int) -> None:
    """The keys of a dict: a text or number for each child, or a member of an enumeration."""
    _check_enumerations(context)
    if type(context) is not list or len(context) != count:
        raise Wrong(context, f"a list of {count} keys is valid")
    for number, key in enumerate(context):
        if type(key) is list or (type(key) is dict and "__enum__" not in key):
            raise Wrong(key, "a text or a number is a key").within(f"[{number}]")


def _check_named(context: Any, count: int) -> None:
    text(context)
    kind = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(context)
    if not isinstance(kind, type) or context == pytree.NO_SERIALIZED_TYPE_NAME_FOUND:
        raise Wrong(context, _UNKNOWN)
    if len(getattr(kind, "_fields", ())) != count:
        raise Wrong(context, f"a named tuple of {count} fields is valid")


def _check_made_by(module: str, name: str) -> None:
    factory = _loaded(module, name)
    registered = isinstance(factory, type) and factory in pytree.SUPPORTED_SERIALIZED_TYPES
    if not (factory in _FACTORIES if isinstance(factory, type) else False) and not registered:
        raise Wrong(f"{module}.{name}", "one of Python's own types, or a registered container, makes what is missing")


def _check_enumerations(context: Any) -> None:
    """Raises Wrong for members of enumerations whose classes this process does not know."""
    if type(context) is list:
        for each in context:
            _check_enumerations(each)
    elif type(context) is dict:
        if "__enum__" in context:
            _check_enumerated(context)
            module, _, path = context["fqn"].partition(":")
            found = _loaded(module, path)
            if not (isinstance(found, type) and issubclass(found, enum.Enum) and context["name"] in found.__members__):
                raise Wrong(context["fqn"], "an enumeration that this process does not know, or no member of it")
        for each in context.values():
            _check_enumerations(each)


def _loaded(module: str, path: str) -> object:
    """The attribute of a module under a dotted name; None if the module is not imported or has none. Runs no code of
    the module: many import attributes on demand."""
    found: object = sys.modules.get(module)
    for name in path.split("."):
        if found is None:
            return None
        found = inspect.getattr_static(found, name, None)
    return found
