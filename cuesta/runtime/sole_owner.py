"""Arguments that a program writes to because nobody needs them after the call: it makes sure that nobody has them.

AOTAutograd says which tensors its forward graph saves for its backward graph alone. Who looks at them before the
backward graph runs it cannot know: hooks for saved tensors, `grad_fn.saved_tensors`, views of either.
"""

from __future__ import annotations

import sys

import torch

from cuesta.runtime.arguments import aligned_copy

_memory_uses = torch._C._storage_Use_Count


def _uses(tensors: list[torch.Tensor], i: int) -> tuple[int, int, int, int]:
    """How many refer to a tensor's object, from Python and from C++; to its storage's object; and to its memory."""
    tensor = tensors[i]
    storage = tensor.untyped_storage()
    return (
        sys.getrefcount(tensor),
        tensor._use_count(),  # type: ignore[attr-defined]
        sys.getrefcount(storage),
        _memory_uses(storage._cdata),
    )


#: Of a tensor that a list alone has; what torch's objects count of one another is not the same in all its versions.
_ALONE = _uses([torch.empty(1)], 0)


def own(tensors: list[torch.Tensor], i: int, nbytes: int) -> None:
    """Puts a copy in the place of `tensors[i]` unless the list alone has it, no other tensor is in its memory, and that
    is `nbytes`, no more than it needs: it may be handed out then as memory of its own."""
    if not isinstance(tensors[i], torch.Tensor):
        return  # the program's check turns it down
    if _uses(tensors, i) != _ALONE or tensors[i].untyped_storage().nbytes() != nbytes:
        tensors[i] = aligned_copy(tensors[i])
