"""Keeps torch from making text for logs that nobody reads.

AOTAutograd prints each of its graphs even if no log wants them, 0.1 s of a training step of BERT's, and keeps the text
so that a warm process can log it. For `TORCH_LOGS=trace_call`, Dynamo reads each source file that it traces through to
find the names of functions: 0.1 s of a transformer. For `TORCH_LOGS=guards`, it empties the CPU's caches and times the
guards of each graph: 26 ms a graph. Users who ask for those logs get all of them: entries of AOTAutograd's cache with
the text have separate keys.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

from cuesta.torch_private.logs import trace_log

#: Functions of torch's that log graphs and return their texts, with the replacements; each torch has its own set.
_PRINTS: dict[str, Any] = {
    "_log_joint_graph": lambda *_: None,
    "_log_fw_bw_graphs": lambda *_: (None, None),
    "_log_inference_graph": lambda *_: None,
}


def graphs_are_wanted() -> bool:
    """Whether a log, a trace or the files of TORCH_COMPILE_DEBUG want AOTAutograd's graphs."""
    from torch._functorch._aot_autograd import graph_compile

    return bool(trace_log.handlers) or _is_wanted(graph_compile, logging.INFO)


def graphs_as_wanted() -> AbstractContextManager[object]:
    """Within this context AOTAutograd prints its graphs only if a log wants them."""
    from torch._functorch._aot_autograd import graph_compile

    present = {name: value for name, value in _PRINTS.items() if hasattr(graph_compile, name)}
    if not present or graphs_are_wanted():
        return nullcontext()
    return mock.patch.multiple(graph_compile, **present)


def names_as_wanted() -> AbstractContextManager[object]:
    """Within this context Dynamo looks up the names of functions, by line, only if a log wants them."""
    from torch._dynamo import output_graph, symbolic_convert

    if not hasattr(symbolic_convert, "get_funcname") or any(
        _is_wanted(module, logging.DEBUG) for module in (output_graph, symbolic_convert)
    ):
        return nullcontext()
    return mock.patch.object(symbolic_convert, "get_funcname", lambda *_: None)


def guard_times_as_wanted() -> AbstractContextManager[object]:
    """Within this context Dynamo times the guards of a graph only if a log or a trace wants the time."""
    from torch._dynamo import guards

    if not hasattr(guards, "profile_guard_manager") or trace_log.handlers or _is_wanted(guards, logging.DEBUG):
        return nullcontext()
    return mock.patch.object(guards, "profile_guard_manager", lambda *_: 0.0)


def _is_wanted(module: Any, level: int) -> bool:
    """Whether one of a module's loggers is enabled at a level."""
    logs = [value for value in vars(module).values() if isinstance(value, logging.Logger)]
    return any(log.isEnabledFor(level) for log in logs)
