"""Holds what the installed commands call: `--version` is answered before torch and MLIR are imported, which takes a
second or more."""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
from collections.abc import Callable
from typing import Any

import cuesta
from cuesta.distributions import version_of

#: Distribution → its name in the text. Torch's metadata lacks the "+cpu" that its own __version__ has.
_STANDS_ON = {"torch": "torch", "torch-mlir": "MLIR bindings torch-mlir", "triton": "Triton"}


def versions() -> str:
    """The versions of cuesta and of what it stands on, one a line."""
    lines = [f"cuesta {cuesta.__version__}", f"Python {platform.python_version()}"]
    for distribution, name in _STANDS_ON.items():
        version = version_of(distribution)
        lines.append(f"{name}: not installed" if version is None else f"{name} {version}")
    return "\n".join(lines)


class ShowVersions(argparse.Action):
    """Prints the versions and exits; they are not looked up otherwise."""

    def __init__(self, option_strings: list[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="print the versions of cuesta, torch, …")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(versions())
        parser.exit()


def opt() -> int:
    return _run("cuesta_opt")


def run() -> int:
    return _run("cuesta_run")


def bench() -> int:
    return _run("cuesta_bench")


def demo() -> int:
    return _run("cuesta_demo")


def _run(module: str) -> int:
    if sys.argv[1:] == ["--version"]:
        print(versions())
        return 0
    main: Callable[[], int] = importlib.import_module(f"cuesta.tools.{module}").main
    return main()
