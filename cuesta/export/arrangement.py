"""Describes in words how a call's arguments are arranged differently from those that a program was exported with."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.torch_private.pytree import TreeSpec


def difference(given: TreeSpec, wanted: TreeSpec, names: Sequence[str]) -> str:
    """Describes the first difference between a call's arguments and the exported ones; `names` are those of the
    exported leaves, in order.

    Both specs are of a tuple of positional arguments and a dict of keyword arguments, with the same keywords.
    """
    (given_args, given_kwargs), (wanted_args, wanted_kwargs) = given.children(), wanted.children()
    if given_args.num_children != wanted_args.num_children:
        count = wanted_args.num_children
        takes = f"{count} positional argument{'' if count == 1 else 's'}"
        listed = ", ".join(_names_of(wanted_args, names))
        return f"the program takes {takes}{f' ({listed})' if listed else ''}, {given_args.num_children} were given"
    for i, (g, w) in enumerate(zip(given_args.children(), wanted_args.children(), strict=True)):
        if g != w:
            return _of_value(g, w, f"positional argument {i}")
    for name, g, w in zip(wanted_kwargs.context, given_kwargs.children(), wanted_kwargs.children(), strict=True):
        if g != w:
            return _of_value(g, w, f"argument {name!r}")
    return f"arguments arranged as {given}; the program was exported with {wanted}"


def _of_value(given: TreeSpec, wanted: TreeSpec, place: str) -> str:
    """The first difference within one value. The two specs differ."""
    if given.type != wanted.type:
        return f"{place} is {_kind(given)}; the program was exported with {_kind(wanted)}"
    if given.num_children != wanted.num_children or given.context != wanted.context:
        return f"{place} is {_contents(given)}; the program was exported with {_contents(wanted)}"
    keys = wanted.context if wanted.type is dict else range(wanted.num_children)
    for key, g, w in zip(keys, given.children(), wanted.children(), strict=True):
        if g != w:
            return _of_value(g, w, f"{place}[{key!r}]")
    return f"{place} is arranged as {given}; the program was exported with {wanted}"


def _kind(spec: TreeSpec) -> str:
    return "a single value" if spec.is_leaf() else f"a {spec.type.__name__}"


def _contents(spec: TreeSpec) -> str:
    if spec.type is dict:
        return f"a dict of {', '.join(map(repr, spec.context))}" if spec.context else "an empty dict"
    return f"a {spec.type.__name__} of {spec.num_children}"


def _names_of(args: TreeSpec, names: Sequence[str]) -> list[str]:
    """A name for each positional argument: its leaf's name, or its kind of container."""
    found, start = [], 0
    for child in args.children():
        found.append(names[start] if child.is_leaf() else _kind(child))
        start += child.num_leaves
    return found
