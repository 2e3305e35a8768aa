"""Makes the page of the commands, from what each prints for `--help`."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import os
from collections.abc import Iterator
from importlib.metadata import distribution

from cuesta.tools.markdown import code


def commands() -> list[str]:
    """The names of the commands that cuesta installs."""
    return sorted(point.name for point in distribution("cuesta").entry_points.select(group="console_scripts"))


@functools.cache
def help_of(command: str) -> str:
    """What a command prints for `--help`. Each command is the `main` of the module of its name."""
    main = importlib.import_module(f"cuesta.tools.{command.replace('-', '_')}").main
    with _columns(100), contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        main(["--help"])
    return printed.getvalue()


def commands_page() -> str:
    """The page's Markdown."""
    sections = (f"## {name}\n\n{code(help_of(name), 'text')}\n" for name in commands())
    return "# Commands\n\nWhat each command prints for `--help`.\n\n" + "".join(sections)


@contextlib.contextmanager
def _columns(count: int) -> Iterator[None]:
    """Has argparse fill lines of so many characters, whatever terminal there is."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
