"""Names AOTAutograd's descriptions of results, and its convention of calls. Does not load AOTAutograd itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Describes a result that AOTAutograd copies into an argument. Without it, a backward graph may read an argument that
# was written in between.
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput as InputMutationAOTOutput

# Describe results that are saved for the backward graph. Without them, a saved result that ATen leaves undefined
# reaches a program, instead of an error that says what to do.
from torch._functorch._aot_autograd.descriptors import SavedForBackwardsAOTOutput as SavedForBackwardsAOTOutput
from torch._functorch._aot_autograd.descriptors import (
    SavedForBackwardsNoVcCheckAOTOutput as SavedForBackwardsNoVcCheckAOTOutput,
)

# How a result relates to the arguments. Without it, a result that is a view of an argument that the graph writes does
# not share its memory.
from torch._functorch._aot_autograd.schemas import OutputType as OutputType


def make_boxed_func(function: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """A function of one list of arguments, as AOTAutograd calls what a compiler returns. Without it, AOTAutograd warns
    and keeps the arguments alive during the call."""
    from torch._functorch._aot_autograd.utils import make_boxed_func

    boxed: Callable[[list[Any]], Any] = make_boxed_func(function)
    return boxed
