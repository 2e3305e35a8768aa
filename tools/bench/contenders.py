"""Defines contenders: a backend of torch.compile, as `backend`, or with a mode or a set of options, `backend:form`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from cuesta.tools.bench.backends import unknown_backend
from cuesta.torch_private.configs import inductors_options

CPU_DEFAULT = "eager,inductor,cuesta"
GPU_KERNELS = "cuesta:in-turn,eager"
GPU_DEFAULT = "eager,cuesta,cuesta:reduce-overhead,inductor,inductor:reduce-overhead"

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")

#: Backend → a form that is no mode → its options of torch.compile.
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "inductor": {"freezing": {"freezing": True}, "cpp_wrapper": {"cpp_wrapper": True}},
    "cuesta": {
        "freezing": {"freezing": True},
        "tiered": {"tiered": True},
        # A kernel that begins early is profiled with its wait for the one in front.
        "in-turn": {"overlap_launches": False},
    },
}


@dataclass(frozen=True)
class Contender:
    """A backend, in one form, that is measured."""

    backend: str
    form: str | None = None
    """A mode, or the name of a set of options."""

    @staticmethod
    def parse(text: str) -> Contender:
        backend, _, form = text.partition(":")
        return Contender(backend, form or None)

    def __str__(self) -> str:
        return f"{self.backend}:{self.form}" if self.form else self.backend

    @property
    def compiles(self) -> bool:
        return self.backend != "eager"

    def compile(self, function: Callable[..., Any], *, fullgraph: bool) -> Callable[..., Any]:
        """The function compiled by torch.compile; for eager, the function itself."""
        if not self.compiles:
            return function
        options = OPTIONS.get(self.backend, {}).get(self.form or "")
        if options is None:
            return torch.compile(function, backend=self.backend, mode=self.form, fullgraph=fullgraph)
        compiled = torch.compile(function, backend=self.backend, options=options, fullgraph=fullgraph)
        return _traced_with(options, compiled) if self.backend == "inductor" else compiled


def unknown_contender(text: str) -> str | None:
    """A message if `text` names no contender, else None."""
    contender = Contender.parse(text)
    forms = (*MODES, *OPTIONS.get(contender.backend, ())) if contender.compiles else ()
    if contender.form and not contender.compiles:
        return f"no mode {contender.form!r} of {contender.backend}, which compiles nothing"
    if problem := unknown_backend(contender.backend):
        return problem
    if contender.form and contender.form not in forms:
        return f"no mode {contender.form!r} of {contender.backend}; there are {', '.join(forms)}"
    return None


def _traced_with(options: dict[str, Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Patches Inductor's config during the function's first call: Dynamo reads from the config, not from the options,
    whether weights are constants (freezing)."""
    is_traced = False

    def call(*arguments: Any) -> Any:
        nonlocal is_traced
        if is_traced:
            return function(*arguments)
        is_traced = True
        with inductors_options(options):
            return function(*arguments)

    return call
