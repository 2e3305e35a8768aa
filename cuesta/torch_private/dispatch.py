"""Torch's dispatcher: modes that see each call of an op, and contexts without modes or oneDNN. Loaded with torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

# The base of modes that see each call of an op; documented by torch, but with no public path. Without it, masks of
# attention are not evaluated, and the fuzzer's rounding errors and the benchmark's costs are unknown.
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes

#: A context without any mode, fake tensors' included. Without it, nothing can be computed or measured while a graph is
#: compiled.
disable_current_modes: Callable[[], AbstractContextManager[Any]] = _disable_current_modes

#: The dispatch keys that record the base of a view.
_BASES = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)


#: Contexts in which no dispatch mode, and no tensor subclass, of the user's takes part in ops. Without them, a call's
#: own copies and views appear in what a user's mode records.
DisableTorchDispatch = torch._C._DisableTorchDispatch
DisableTorchFunctionSubclass = torch._C.DisableTorchFunctionSubclass


def without_bases() -> AbstractContextManager[Any]:
    """A context in which results of views do not record their base. Without it, AOTAutograd refuses a graph that writes
    an argument, if another that shares its memory has a base (a view in Python) and it has none (a program's)."""
    return torch._C._ExcludeDispatchKeyGuard(_BASES)


@contextmanager
def without_onednn() -> Iterator[None]:
    """A context in which ATen does not call oneDNN. torch.backends.mkldnn.flags changes other flags as well. Without
    it, an LSTM is one op to the benchmark, which then counts none of its products."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def is_in_backward() -> bool:
    """Whether autograd's engine runs in this thread. Without it, the benchmark cannot tell a backward pass's bytes."""
    return torch._C._current_graph_task_id() != -1
