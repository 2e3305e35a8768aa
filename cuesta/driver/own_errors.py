"""Errors of cuesta's own, which no input is to blame for: whether they are raised or gone around, and what is said.

Imports no MLIR: who runs a program from the cache needs none.
"""

from __future__ import annotations

import shlex
import sys
from typing import NoReturn

import torch

from cuesta.errors import CuestaError
from cuesta.options import Environment


def is_strict() -> bool:
    """Whether they are raised: CUESTA_STRICT is set, or torch's minifier looks for one."""
    return Environment.read().strict or torch._dynamo.config.repro_after is not None


def raise_told(failure: CuestaError) -> NoReturn:
    """Raises one for the user, with the command that repeats it and a file for that where a pass or LLVM failed."""
    from cuesta.driver.dump.reproducer import LoweringFailed

    if not isinstance(failure, LoweringFailed):
        raise failure
    told = failure.told()
    raise told from told.__cause__


def told_of(failure: CuestaError) -> str:
    """One that is gone around, as a warning says it: with the command that repeats it."""
    return (
        f"an error of cuesta's, {failure}\n"
        "  what the graph computes is right all the same; "
        f"to have it raised, with a file to report: CUESTA_STRICT=1 {shlex.join(sys.orig_argv)}"
    )
