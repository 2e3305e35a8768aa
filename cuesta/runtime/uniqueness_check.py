"""Makes sure that nobody else holds an argument that a program overwrites because nobody needs it after the call.

AOTAutograd says which tensors its forward graph saves for its backward graph alone. It cannot know who else holds them
before the backward graph runs: hooks for saved tensors, `grad_fn.saved_tensors`, views of either.
"""

from __future__ import annotations

import sys

import torch

from cuesta.runtime.arguments import aligned_copy
from cuesta.torch_private.tensors import address, storage_uses, uses


def _uses(tensors: list[torch.Tensor], i: int) -> tuple[int, int, int, int]:
    """Reference counts of `tensors[i]`: of its Python object, its C++ object, its storage object and its memory."""
    tensor = tensors[i]
    storage = tensor.untyped_storage()
    return (
        sys.getrefcount(tensor),
        uses(tensor),
        sys.getrefcount(storage),
        storage_uses(address(storage)),
    )


#: The counts of a tensor that only a list holds. Measured, because they differ between torch's versions.
_ALONE = _uses([torch.empty(1)], 0)


def is_alone(tensors: list[torch.Tensor], i: int, holders: int = 0, others: int = 0) -> bool:
    """Whether only the list and `holders` others hold the Python object `tensors[i]`, and only `others` other tensors
    use its memory."""
    references, *between, memory = _uses(tensors, i)
    return (references - holders, *between, memory - others) == _ALONE


def own(tensors: list[torch.Tensor], i: int, nbytes: int) -> None:
    """Replaces `tensors[i]` by a copy unless only the list holds it, no other tensor uses its memory, and its storage
    is exactly `nbytes` long. Only then may its memory be handed out as a result."""
    if not isinstance(tensors[i], torch.Tensor):
        return  # the program's check refuses it
    if not is_alone(tensors, i) or tensors[i].untyped_storage().nbytes() != nbytes:
        tensors[i] = aligned_copy(tensors[i])
