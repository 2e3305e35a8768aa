"""Decides whether cuesta's own errors, for which no input is to blame, are raised or worked around, and words them.

Imports no MLIR: a program from the cache runs without it.
"""

from __future__ import annotations

import shlex
import sys
from typing import NoReturn

from cuesta.errors import CuestaError
from cuesta.options import Environment
from cuesta.torch_private.configs import repro_after


def is_strict() -> bool:
    """Whether cuesta's own errors are raised: CUESTA_STRICT is set, or torch's minifier looks for an error."""
    return Environment.read().strict or repro_after() is not None


def raise_told(failure: CuestaError) -> NoReturn:
    """Raises an error for the user; if a pass or LLVM failed, with the command that reproduces it and a file for
    that."""
    from cuesta.driver.dump.reproducer import LoweringFailed

    if not isinstance(failure, LoweringFailed):
        raise failure
    told = failure.told()
    raise told from told.__cause__


def told_of(failure: CuestaError) -> str:
    """The text of a warning about an error that is worked around, with the command that raises it."""
    return (
        f"an error of cuesta's, {failure}\n"
        "  what the graph computes is right all the same; "
        f"to have it raised, with a file to report: CUESTA_STRICT=1 {shlex.join(sys.orig_argv)}"
    )
