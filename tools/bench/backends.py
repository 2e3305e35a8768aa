"""Tells which backends can be measured on this machine, and describes their failures."""

from __future__ import annotations

import traceback

import torch


def inductor_is_missing() -> str | None:
    """The reason why Inductor cannot compile on this machine, or None if it can."""
    from cuesta.torch_private.inductor import missing_compiler

    error = missing_compiler()
    return None if error is None else f"no C++ compiler here ({type(error).__name__})"


def unknown_backend(name: str) -> str | None:
    """A message if `name` is neither "eager" nor a backend of torch.compile, else None."""
    known = ["eager", *(b for b in torch.compiler.list_backends(exclude_tags=()) if b != "eager")]
    return None if name in known else f"no backend named {name!r}; there are {', '.join(known)}"


def one_line(error: BaseException) -> str:
    """An exception as one line for a table."""
    cause = getattr(error, "inner_exception", None) or error
    lines = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {lines[0] if lines else ''}"[:160]


def failure(error: BaseException) -> dict[str, str]:
    """An exception as part of a JSON result: {"failed": one line, "traceback": the whole traceback}."""
    return {"failed": one_line(error), "traceback": "".join(traceback.format_exception(error))}


def fallbacks() -> list[str]:
    """Failures in the graphs that cuesta got since Dynamo's last reset: a reason for each graph that runs op by op in
    Python, and an error for each kernel that did not compile and was replaced."""
    import cuesta

    graphs = cuesta.report().as_dict()["graphs"]
    failed = [kernel["error"] for graph in graphs for kernel in graph["instead"]]
    return [graph["fallback"] for graph in graphs if graph["fallback"]] + failed
