"""Says which versions of torch cuesta was tested with, and what happens with a newer one.

A newer torch is tried, for most of what cuesta needs of torch is there for years. But it may have lost a private name
that cuesta/torch_private/ has, or have changed its arguments. With a tested torch, such an error is raised like any
other. With a newer torch, a warning and the report name the error, and the graph runs op by op.
"""

from __future__ import annotations

import functools
import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from cuesta.errors import Unsupported

log = logging.getLogger("cuesta")

#: First and last version of torch that `make test-matrix` has run with.
OLDEST, NEWEST = (2, 11), (2, 15)

#: What Python raises where a name has gone, or takes other arguments.
LOST_NAME = (AttributeError, ImportError, TypeError)


def installed() -> tuple[int, int]:
    """The version of this torch without what comes after its second number: (2, 13) of "2.13.0+cpu"."""
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    return (int(found[1]), int(found[2])) if found else NEWEST


def is_untested() -> bool:
    """Whether this torch is newer than those that cuesta was tested with."""
    return installed() > NEWEST


def tested() -> str:
    """The range of versions, as messages have it: "2.11 to 2.15"."""
    return f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"


def warn_if_untested() -> None:
    """Warns of a newer torch, once in a process. Whoever begins a compile calls it."""
    if is_untested():
        warn_once(
            f"torch {torch.__version__} is newer than those that cuesta was tested with ({tested()}). Graphs are "
            "compiled all the same. One that needs something of torch's that has gone runs op by op, with a warning "
            "and a line in cuesta.report()"
        )


@functools.cache
def warn_once(text: str) -> None:
    """Warns with a text, the first time that it is given."""
    log.warning("%s", text)


def told(error: BaseException) -> str:
    """What an error says of a newer torch: the error, where in cuesta it arose, and what was tested."""
    here = f"{Path(__file__).parent}/"
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        f"{frame.filename.removeprefix(here)}:{frame.lineno}" for frame in frames if frame.filename.startswith(here)
    ]
    where = f" (at {ours[-1]})" if ours else ""
    return (
        f"torch {torch.__version__} lacks something that cuesta needs: {type(error).__name__}: {error}{where}; "
        f"cuesta was tested with torch {tested()}"
    )


def raise_unsupported(what: str, error: BaseException) -> None:
    """Raises Unsupported if a newer torch is to blame that `what`, a public function of cuesta's, cannot be imported;
    returns otherwise."""
    if is_untested():
        raise Unsupported(f"{what} cannot be used: {told(error)}") from error


@contextmanager
def names_may_be_lost() -> Iterator[None]:
    """A context in which imports may fail with a newer torch. What they would register is then missing. The first
    compile needs the same imports, and says what torch lacks."""
    try:
        yield
    except LOST_NAME:
        if not is_untested():
            raise
